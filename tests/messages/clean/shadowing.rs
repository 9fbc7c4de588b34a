//! A module that calls its own things what the prelude calls others.
#![deny(warnings)]
#![allow(dead_code, non_camel_case_types)]

struct Option;
struct String;
struct Some;
struct None;
struct Result;
struct Box;
struct Duration;
struct LockManager;
mod core {}
mod std {}
mod lock_core {}
#[allow(unused_macros)]
macro_rules! concat {
    () => {};
}
#[allow(unused_macros)]
macro_rules! module_path {
    () => {};
}

#[::lock_core::distributed_lock(key = "order:<key>:<__lock_request>", ttl = "1s", strategy = "retry", wait = "1s", on_lost = "finish", renew = true, handle = outcome)]
async fn ship(
    key: u64,
    ttl: u64,
    manager: u64,
    lock: u64,
    __lock_request: u64,
    __lock_outcome: u64,
) -> ::std::result::Result<u64, ::lock_core::LockError> {
    outcome.check()?;
    ::std::result::Result::Ok(key + ttl + manager + lock + __lock_request + __lock_outcome)
}

#[::lock_core::distributed_lock(key = "order:<r#type>")]
async fn r#fn(r#type: u64) -> ::std::result::Result<u64, ::lock_core::LockError> {
    #![allow(unused_variables)]
    let unused = 3;
    struct Ok;
    struct Err;
    ::std::result::Result::Ok(r#type)
}

struct Item {
    r#type: u64,
    r#impl: (u64, u64),
}

impl Item {
    fn r#match(&self) -> u64 {
        self.r#type
    }
}

#[::lock_core::distributed_lock(key = "order:<type>:<item.type>:<item.impl.0>:<item.match()>")]
async fn r#loop(r#type: u64, item: Item) -> ::std::result::Result<u64, ::lock_core::LockError> {
    ::std::result::Result::Ok(r#type + item.r#type + item.r#impl.1)
}

fn main() {
    drop(r#loop(1, Item { r#type: 2, r#impl: (3, 4) }));
    drop(ship(1, 2, 3, 4, 5, 6));
    drop(r#fn(1));
    #[deny(non_snake_case)]
    let _theOnlyMessage = ();
}
