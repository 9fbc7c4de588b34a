//! A holder that writes to a file in every round.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use lock_core::{LockErrorKind, strategy};

use crate::Options;

/// The pause between two rounds. It is much longer than a round, so that a stopped process is nearly always in a pause.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn hold(options: &Options) {
    let ttl = Duration::from_millis(options.number("--ttl"));
    let effect = Path::new(options.text("--effect"));
    let body = async {
        println!("HELD");
        loop {
            tokio::time::sleep(PAUSE).await;
            if let Ok(mut file) = OpenOptions::new().append(true).open(effect) {
                file.write_all(b"x").expect("cannot write the effect");
            }
        }
    };
    let locks = options.manager().await;
    let key = options.text("--key");
    let fair = options.has("--kind") && options.text("--kind") == "fair";
    let request = if fair { locks.fair(key) } else { locks.lock(key) };
    let request = if options.has("--wait") { request.strategy(strategy::wait()) } else { request };
    let error = request.ttl(ttl).run(body).await;
    let error: lock_core::LockError = error.map(|(): ()| ()).expect_err("the body never ends");
    assert_eq!(error.kind(), LockErrorKind::Lost);
    println!("LOST {:?}", error.loss_reason());
}

/// Repeatedly acquires and releases the lock, so that it is held or lingers.
pub(crate) async fn linger(options: &Options) {
    let ttl = Duration::from_millis(options.number("--ttl"));
    let locks = options.manager().await;
    let request = locks.lock(options.text("--key")).ttl(ttl).linger(ttl / 3);
    request.clone().run(async {}).await.expect("the key is free");
    println!("HELD");
    loop {
        tokio::time::sleep(PAUSE).await;
        request.clone().run(async {}).await.expect("it is this process's");
    }
}
