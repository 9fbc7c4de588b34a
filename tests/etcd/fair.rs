//! The kind `fair`, in which every waiter has its own entry.

use lock_tests::{Etcd, PATIENCE};

use crate::in_line::is_served_in_order;
use crate::support::{empty, manager};

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_several_processes_are_served_in_order() {
    let etcd = Etcd::start();
    let [one, two, three] = [manager(&etcd).await, manager(&etcd).await, manager(&etcd).await];
    is_served_in_order([&one, &two, &three]).await;
    empty(&etcd, PATIENCE).await;
}
