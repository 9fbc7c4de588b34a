//! Connects to the store that the command line names.

use lock_core::{LockManager, ManagerBuilder};

use crate::args::Store;
use crate::exit::Fault;

impl Store {
    pub(crate) fn url(&self) -> Result<&str, Fault> {
        match self.url.as_deref() {
            Some("") => {
                Err(Fault::usage("LOCK_URL, or --url, is set and empty: expected the URL of a store"))
            }
            Some(url) => Ok(url),
            None => Err(Fault::usage("no store: set LOCK_URL, or write --url redis://127.0.0.1/")),
        }
    }

    pub(crate) async fn connect(&self) -> Result<LockManager, Fault> {
        let builder = ManagerBuilder::connect(self.url()?).await?;
        Ok(builder.namespace(self.namespace.as_str()).service("lockctl").build()?)
    }
}
