//! Fencing is the last line of defence: the resource refuses the write of a late holder.
//! `cargo run -p lock-examples --example fencing`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Mutex;
use std::time::Duration;

use lock_core::{FencingToken, LockError, LockManager};

/// A row with the largest token that has written to it. In SQL:
/// `UPDATE stock SET remaining = $1, fence = $2 WHERE item = 'lamp' AND fence <= $2`
#[derive(Default)]
struct Row(Mutex<(Option<FencingToken>, u32)>);

impl Row {
    /// Writes the value if no later holder has written. The comparison and the write are one atomic step.
    fn write(&self, value: u32, token: FencingToken) -> bool {
        let mut row = self.0.lock().expect("no holder of this mutex panics");
        let accepted = row.0.is_none_or(|seen| seen <= token);
        if accepted {
            *row = (Some(token), value);
        }
        accepted
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = LockManager::from_env_or("memory://").await?;
    let row = Row::default();

    // This holder does not renew its lease. It behaves like a process that is stopped for longer than its ttl.
    let stuck = locks.lock("stock:lamp").ttl(Duration::from_secs(1)).renew(false).acquire().await?;
    let old = stuck.fencing_token().await?;

    // The next holder waits until the lease expires, and gets a larger token.
    let next = locks.lock("stock:lamp").acquire().await?;
    let new = next.fencing_token().await?;
    println!("the next holder writes:  {}", verdict(row.write(9, new)));
    println!("the late holder writes:  {}", verdict(row.write(8, old)));
    println!("the late holder learns:  {}", stuck.check().expect_err("its lease is over"));
    assert!(new > old && !stuck.is_held());
    next.release().await?;
    Ok(())
}

fn verdict(accepted: bool) -> &'static str {
    if accepted { "accepted" } else { "refused" }
}
