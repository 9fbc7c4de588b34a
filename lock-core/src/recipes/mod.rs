//! Explains how to solve common tasks, with one page for each. There is nothing to call here.
//!
//! | page | task |
//! | --- | --- |
//! | [`which_lock`] | which kind of lock, and which strategy |
//! | [`cron`] | a job that every machine starts and one runs |
//! | [`checkout`] | one request at a time for each order |
//! | [`fencing`] | a database that refuses the write of a late holder |
//! | [`background_work`] | work that outlives the function that acquired the lock |
//! | [`resume`] | a worker that continues the half-done work of a crashed one |
//! | [`leader`] | one process of several that does a job for as long as it lives |
//! | [`release`] | a key after a dropped future or a dead process; a release without waiting |
//! | [`configuration`] | options from a file and from the environment |
//! | [`shutdown`] | a program that ends without leaving keys locked |
//! | [`migration`] | coming from rslock, redis-py, ShedLock, Redisson, Curator, kazoo or etcdctl |
//! | [`without_rust`] | the holder of a lock, and freeing it by hand: redis-cli, psql, etcdctl, zkCli |
//! | [`faq`] | what a lock can promise, clocks, pauses, the ttl, cancelled futures |
//!
//! The crate `lock-axum` has pages for HTTP: the key of a tenant, a key from the body, `Idempotency-Key`.

pub mod background_work {
    #![doc = include_str!("background_work.md")]
}
pub mod checkout {
    #![doc = include_str!("checkout.md")]
}
pub mod configuration {
    #![doc = include_str!("configuration.md")]
}
pub mod cron {
    #![doc = include_str!("cron.md")]
}
pub mod faq {
    #![doc = include_str!("faq.md")]
}
pub mod fencing {
    #![doc = include_str!("fencing.md")]
}
pub mod leader {
    #![doc = include_str!("leader.md")]
}
pub mod migration {
    #![doc = include_str!("migration.md")]
}
pub mod release {
    #![doc = include_str!("release.md")]
}
pub mod resume {
    #![doc = include_str!("resume.md")]
}
pub mod shutdown {
    #![doc = include_str!("shutdown.md")]
}
pub mod which_lock {
    #![doc = include_str!("which_lock.md")]
}
pub mod without_rust {
    #![doc = include_str!("without_rust.md")]
}
