use lock_core::{LockError, distributed_lock};

use std::future::Future;
use std::pin::Pin;

async fn now() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order")]
fn another_function() -> Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>> {
    Box::pin(now())
}

#[distributed_lock(key = "order")]
fn a_statement_before() -> Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>> {
    println!("this would run without the lock");
    Box::pin(async move { Ok(()) })
}

#[distributed_lock(key = "order")]
fn no_move() -> Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>> {
    Box::pin(async { Ok(()) })
}

type Boxed<T> = Box<T>;

#[distributed_lock(key = "order")]
fn renamed_box() -> Pin<Boxed<dyn Future<Output = Result<(), LockError>> + Send>> {
    Box::pin(async move { Ok(()) })
}

fn main() {}
