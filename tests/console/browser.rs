//! A browser with one page, with helpers for the tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, Locator};
use lock_tests::{Bound, PATIENCE};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use url::{ParseError, Url};

use crate::driver::Driver;

/// The number of browsers that run at once. Each browser keeps a core busy while it draws.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Keys without a printable character, as WebDriver encodes them.
pub(crate) const TAB: char = '\u{E004}';
pub(crate) const ENTER: char = '\u{E007}';
pub(crate) const ESCAPE: char = '\u{E00C}';

/// Defines `rows` and `row` for a script: the rows of the held locks, and the row of a key.
const ROWS: &str = "const rows = () => [...document.querySelectorAll('#view-held [data-key]')];
                    const row = key => rows().find(row => row.dataset.key === key);";

/// The size of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Desk,
    Phone,
    /// The width of the picture in the README.
    Picture,
}

/// A browser. It ends when this value is dropped.
pub(crate) struct Browser {
    client: Client,
    _driver: Driver,
    _turn: SemaphorePermit<'static>,
}

impl Browser {
    /// Starts a browser as soon as fewer than the allowed number run, and opens `url`.
    pub(crate) async fn open(url: &str) -> Self {
        let turn = TURNS.acquire().await.expect("BUG: it is never closed");
        let driver = Driver::start().await;
        let client = driver.browse().await;
        let browser = Self { client, _driver: driver, _turn: turn };
        browser.width(Width::Desk).await;
        browser.go(url).await;
        browser
    }

    pub(crate) async fn go(&self, url: &str) {
        self.client.goto(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    }

    /// Returns the address of the page, after redirects.
    pub(crate) async fn url(&self) -> String {
        self.client.current_url().await.expect("a page is open").into()
    }

    /// Opens a view of the page, and waits until it is shown.
    pub(crate) async fn view(&self, name: &str) {
        self.js("location.hash = arguments[0]", [json!(name)]).await;
        let shown = "const view = document.getElementById('view-' + arguments[0]);
                     return !!view && view.checkVisibility() && view.getBoundingClientRect().height > 0";
        self.until(&format!("the view {name} is shown"), shown, [json!(name)]).await;
    }

    /// Runs a script, which may use `rows` and `row`, and returns its result.
    pub(crate) async fn js<const N: usize>(&self, script: &str, arguments: [Value; N]) -> Value {
        let result = self.client.execute(&format!("{ROWS}\n{script}"), arguments.into()).await;
        result.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Runs a script that calls its last argument with the result.
    pub(crate) async fn js_later<const N: usize>(&self, script: &str, arguments: [Value; N]) -> Value {
        let result = self.client.execute_async(script, arguments.into()).await;
        result.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Runs a script until its result is true, and returns this result.
    pub(crate) async fn until<const N: usize>(
        &self,
        what: &str,
        script: &str,
        arguments: [Value; N],
    ) -> Value {
        let bound = Bound::new(PATIENCE);
        loop {
            let value = self.js(script, arguments.clone()).await;
            if value.as_bool().unwrap_or(!value.is_null()) {
                return value;
            }
            if bound.elapsed() >= PATIENCE {
                let text = self.js("return document.body.innerText.slice(0, 2000)", []).await;
                panic!("waited in vain: {what}; {:?}\n{}", self.errors().await, text.as_str().unwrap_or(""));
            }
            // A check costs the driver and the browser several milliseconds of CPU time.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the line at the top says that the page is live.
    pub(crate) async fn live(&self) {
        self.status("live").await;
    }

    /// Waits until the line at the top contains `text`.
    pub(crate) async fn status(&self, text: &str) {
        let says = "return document.querySelector('#status').textContent.includes(arguments[0])";
        self.until(&format!("the status says {text:?}"), says, [json!(text)]).await;
    }

    /// Waits until the list of held locks has this number of rows.
    pub(crate) async fn rows(&self, count: usize) {
        let counted = "return rows().length === arguments[0]";
        self.until(&format!("{count} rows"), counted, [json!(count)]).await;
    }

    /// Waits until `key` has a row, and returns its text.
    pub(crate) async fn row(&self, key: &str) -> String {
        let text = self
            .until(key, "const it = row(arguments[0]); return it ? it.innerText : null", [json!(key)])
            .await;
        text.as_str().expect("a text").to_owned()
    }

    /// Returns the text of the first element that matches a selector.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let text =
            self.js("return document.querySelector(arguments[0])?.innerText ?? ''", [json!(selector)]).await;
        text.as_str().expect("a text").to_owned()
    }

    /// Clicks as a person does. Fails if the element is hidden or covered by another element.
    pub(crate) async fn click(&self, selector: &str) {
        let element = self.client.find(Locator::Css(selector)).await;
        let element = element.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.click().await.unwrap_or_else(|error| panic!("click {selector}: {error}"));
    }

    /// Types into an input as a person does, and replaces its text.
    pub(crate) async fn write(&self, selector: &str, text: &str) {
        let element = self.client.find(Locator::Css(selector)).await;
        let element = element.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.clear().await.expect("an input");
        element.send_keys(text).await.unwrap_or_else(|error| panic!("write into {selector}: {error}"));
    }

    /// Presses keys in sequence. They go to the element that has the focus.
    pub(crate) async fn press(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
            })
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("actions", json!({ "actions": [keyboard] })).await;
    }

    /// Sets the size of the window.
    pub(crate) async fn width(&self, width: Width) {
        let (width, height, mobile) = match width {
            Width::Desk => (1280, 800, false),
            Width::Phone => (390, 844, true),
            Width::Picture => (960, 480, false),
        };
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Sets the color scheme that the user prefers, `dark` or `light`.
    pub(crate) async fn scheme(&self, scheme: &str) {
        let preferred = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": preferred })).await;
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await;
    }

    /// Saves a screenshot as `console/NAME.png` in the target folder.
    pub(crate) async fn picture(&self, name: &str) {
        let folder = target().join("console");
        std::fs::create_dir_all(&folder).expect("a folder");
        let picture = self.client.screenshot().await.expect("a picture");
        std::fs::write(folder.join(format!("{name}.png")), picture).expect("a file");
    }

    /// Returns the errors that the browser has logged since the last call. They come from scripts, the network and the
    /// policy of the page.
    pub(crate) async fn errors(&self) -> Vec<String> {
        let log = self.post("se/log", json!({ "type": "browser" })).await;
        let log = log.as_array().expect("entries").iter();
        let severe = log.filter(|entry| entry["level"] != "INFO" && entry["level"] != "DEBUG");
        severe.map(|entry| entry["message"].to_string()).collect()
    }

    /// Ends the browser, which must have logged no error.
    pub(crate) async fn close(self) {
        assert_eq!(self.errors().await, [""; 0], "the log of the browser");
        self.client.close().await.expect("the browser ends");
    }

    /// Ends the browser, which may have logged at most `most` failed requests, all about `those`. The browser logs an
    /// answer slightly after the page receives it, and not always.
    pub(crate) async fn close_after(self, most: usize, those: &str) {
        let errors = self.errors().await;
        let are_those = errors.iter().all(|error| error.contains(those));
        assert!(are_those && errors.len() <= most, "the log of the browser: {errors:?}");
        self.client.close().await.expect("the browser ends");
    }

    async fn post(&self, path: &'static str, body: Value) -> Value {
        let answer = self.client.issue_cmd(Post { path, body }).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

/// Returns the target folder.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder").to_owned()
}

/// A command for which the client has no method.
#[derive(Debug)]
struct Post {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Post {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}
