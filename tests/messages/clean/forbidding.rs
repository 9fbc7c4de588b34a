//! What a user forbids, the generated code does without: it has no `allow` and no `unsafe`.
#![forbid(unsafe_code, warnings, unused, clippy::all, clippy::pedantic, clippy::nursery, nonstandard_style)]

use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>:<name.len()>", ttl = "500ms", wait = "1s", handle = lock, fallback = later)]
async fn ship(id: u64, name: &str, (left, right): (u8, u8)) -> Result<u64, LockError> {
    lock.check()?;
    Ok(id + u64::from(left) + u64::from(right))
}

async fn later(id: u64, _name: &str, _pair: (u8, u8)) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = ["a:<id>", "b"], strategy = "skip", min_hold = "1s", max_hold = "1m", on_lost = "finish", release = "background")]
async fn sweep(id: u64) {
    let _ = id;
}

fn main() {
    drop(ship(1, "x", (2, 3)));
    drop(sweep(1));
    let _theOnlyMessage = ();
}
