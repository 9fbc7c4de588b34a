//! Extends a lease on demand.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::hub::Hub;
use crate::lease::Lease;

/// Sets the lease to `ttl`, and renews the lease at once.
pub(super) async fn extend(lease: &Arc<Lease>, hub: &Hub, ttl: Duration) -> Result<()> {
    lease.check()?;
    lease.engine.capability.check_ttl(ttl).map_err(|error| error.with_key(&lease.claim().key))?;
    let renewed = lease.renew_now(ttl).await;
    let (sent, length) = renewed.map_err(|error| error.or_key(&lease.claim().key))?;
    // If the runtime of the lease has ended, the caller's runtime takes over the renewals.
    hub.renewers.schedule_of(lease)?.watch_extended(lease, sent, length);
    Ok(())
}
