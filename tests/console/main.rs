//! The console in a real browser. The tests check what the page shows, which actions work, and that people can use the
//! page by keyboard, screen reader and phone.
//!
//! Each test starts a `chromedriver`, which starts a Chromium. The test controls both by WebDriver. After a run,
//! pictures of the views are in `console/` of the target folder.
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
