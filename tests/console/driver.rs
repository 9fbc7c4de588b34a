//! The `chromedriver` program, and the browser that it starts.

use std::fs::File;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use lock_tests::{Directory, Process, START_WITHIN, wait_until_or};
use serde_json::json;

const INSTALL: &str = "run: apt-get install -y chromium chromium-driver";
/// The text that `chromedriver` prints before its port.
const LISTENS: &str = "started successfully on port ";

/// A `chromedriver` child process. Its browser ends with the process.
pub(crate) struct Driver {
    // The fields are dropped in this order: the process before its working directory.
    _process: Process,
    directory: Directory,
    port: u16,
}

impl Driver {
    /// Starts the program on a free port.
    pub(crate) async fn start() -> Self {
        let directory = Directory::new();
        let said = directory.path().join("said");
        let mut command = Command::new("chromedriver");
        // The browser keeps its profile in this directory.
        command.arg("--port=0").env("TMPDIR", directory.path()).env("HOME", directory.path());
        command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(File::create(&said).expect("a file"));
        let process = Process::spawn_with_children(&mut command, Some(directory.path()));
        let process = process.unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => panic!("chromedriver is not installed; {INSTALL}"),
            _ => panic!("cannot start chromedriver: {error}"),
        });
        let mut port = None;
        let text = || std::fs::read_to_string(&said).unwrap_or_default();
        let listens = async || {
            port = text().split_once(LISTENS).and_then(|(_, rest)| rest.split_once('.')?.0.parse().ok());
            port.is_some()
        };
        wait_until_or("chromedriver listens", START_WITHIN, listens, text).await;
        Self { _process: process, directory, port: port.expect("it was waited for") }
    }

    /// Starts a headless browser, and a session with it.
    pub(crate) async fn browse(&self) -> Client {
        let capabilities = json!({
            "goog:chromeOptions": { "args": [
                "--headless=new",
                // The tests may run as root, in a container whose /dev/shm is small.
                "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
                "--disable-breakpad", "--disable-background-networking", "--hide-scrollbars", "--window-size=1280,800",
                format!("--user-data-dir={}", self.directory.path().join("profile").display()),
            ] },
            "goog:loggingPrefs": { "browser": "ALL" },
            "timeouts": { "script": 60_000, "pageLoad": 60_000 },
        });
        let capabilities = capabilities.as_object().expect("BUG: it is an object").clone();
        let url = format!("http://127.0.0.1:{}", self.port);
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(capabilities).connect(&url).await;
        client.unwrap_or_else(|error| {
            panic!("Chromium does not start; if it is not installed, {INSTALL}: {error}")
        })
    }
}
