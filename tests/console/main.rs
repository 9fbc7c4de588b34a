//! The console in a real browser: what its page shows, what an operator can do on it, and that people can use it by keyboard,
//! screen reader and phone.
//!
//! Each test starts a `chromedriver`, which starts a Chromium, and talks to it by WebDriver. The pictures of the views
//! are in `console/` of the target folder after a run.
#![allow(clippy::print_stdout, reason = "how soon the page shows what it shows is printed, and not a limit")]

mod away;
mod axe;
mod browser;
mod driver;
mod hostile;
mod keyboard;
mod live;
mod many;
mod mounted;
mod release;
mod site;
mod store;
mod views;
