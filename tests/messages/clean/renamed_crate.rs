//! The crate under another name, as a path and as a string, and through a re-export.
extern crate lock_core as locks;

mod reexport {
    pub(crate) mod deep {
        pub(crate) use ::locks::*;
    }
}

use locks::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", crate = locks)]
async fn path(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", crate = "::locks", strategy = "retry", ttl = "1s")]
async fn string(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", crate = crate::reexport::deep)]
async fn reexported(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop((path(1), string(1), reexported(1)));
    #[deny(non_snake_case)]
    let _theOnlyMessage = ();
}
