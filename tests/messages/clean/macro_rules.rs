//! Functions that a macro writes: the literal, the name and the options may come from either side.
#![deny(warnings)]

use lock_core::{LockError, distributed_lock};

macro_rules! locked {
    ($name:ident, $key:literal, $ttl:literal, $strategy:expr) => {
        #[distributed_lock(key = $key, ttl = $ttl, strategy = $strategy)]
        async fn $name(id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    };
}

locked!(constant, "constant", "5s", "fail_fast");
locked!(evaluated, "constant", "5s", lock_core::strategy::retry());

macro_rules! several {
    ($name:ident, $keys:expr) => {
        #[distributed_lock(keys = $keys, label = "several")]
        async fn $name(id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    };
}

several!(listed, ["orders", "stock"]);

macro_rules! permits {
    ($name:ident, $kind:literal, $permits:expr, $take:expr) => {
        #[distributed_lock(key = "desk", kind = $kind, permits = $permits, take = $take)]
        async fn $name(id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    };
}

permits!(seated, "semaphore", 3, 2);
permits!(computed, "semaphore", 1 + 2, 1 + 1);

macro_rules! whole {
    ($name:ident, $handle:ident, $body:block) => {
        #[distributed_lock(key = "order:<id>", handle = $handle)]
        async fn $name(id: u64) -> Result<(), LockError> {
            let _ = id;
            $body
        }
    };
}

whole!(with_handle, lock, {
    lock.check()?;
    Ok(())
});

macro_rules! signature {
    ($name:ident, $argument:ident, $ty:ty, $key:literal, $answer:ty, $body:block) => {
        #[distributed_lock(key = $key, backoff(base = "10ms"))]
        async fn $name($argument: $ty) -> $answer $body
    };
}

signature!(by_argument, sku, &str, "stock:<sku>", Result<usize, LockError>, { Ok(sku.len()) });

macro_rules! pauses {
    ($name:ident, $base:literal, $max:expr) => {
        #[distributed_lock(key = "constant", backoff(base = $base, max = $max))]
        async fn $name(id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    };
}

pauses!(paused, "10ms", "20ms");

macro_rules! method {
    ($ty:ident) => {
        impl $ty {
            #[distributed_lock(key = "shop:<self.0>")]
            async fn sweep(&self) -> Result<u64, LockError> {
                Ok(self.0)
            }
        }
    };
}

struct Shop(u64);
method!(Shop);

macro_rules! argument {
    ($name:ident, $argument:ident) => {
        #[distributed_lock(key = "order:<id>")]
        async fn $name($argument: u64) -> Result<u64, LockError> {
            Ok($argument)
        }
    };
}

argument!(by_name, id);

macro_rules! template {
    ($name:ident, $key:literal) => {
        #[distributed_lock(key = $key)]
        async fn $name(order: Order) -> Result<usize, LockError> {
            Ok(order.id.len())
        }
    };
}

struct Order {
    id: String,
}

template!(by_template, "order:<order.id>:<order.id.len()>");

macro_rules! receiver {
    ($self:ident, $argument:ident, $body:block) => {
        impl Order {
            #[distributed_lock(keys = ["order:<self.id>", "count:<count>"])]
            async fn count(&$self, $argument: usize) -> Result<usize, LockError> $body
        }
    };
}

receiver!(self, count, { Ok(self.id.len() + count) });

fn main() {
    drop((constant(1), evaluated(1), with_handle(1), Shop(1).sweep()));
    drop((by_argument("x"), paused(1), by_name(1)));
    let order = Order { id: "x".into() };
    drop(order.count(1));
    drop(by_template(order));
    drop((listed(1), seated(1), computed(1)));
    #[deny(non_snake_case)]
    let _theOnlyMessage = ();
}
