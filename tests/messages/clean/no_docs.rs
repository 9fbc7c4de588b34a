//! The line that is written into the documentation counts as one: `missing_docs` has nothing to say.
#![deny(warnings, missing_docs, rustdoc::all)]

use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "500ms", strategy = "retry")]
pub async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(ship(1));
    #[deny(non_snake_case)]
    let _theOnlyMessage = ();
}
