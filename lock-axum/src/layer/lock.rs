//! Sets the options of the lock that a layer requests. A `LockRequest` has the same options.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Kind;
use lock_core::strategy::Strategy;

use super::builder::LockLayer;

impl<K> LockLayer<K> {
    lock_core::option_setters!(self => &mut self.options.own);

    /// Sets the kind of lock. Default: the kind of the [`profile`](Self::profile), else [`Kind::Reentrant`].
    ///
    /// | kind | requests for one key |
    /// | --- | --- |
    /// | [`Kind::Reentrant`] | one at a time |
    /// | [`Kind::Fair`] | one at a time; requests that [wait](Self::wait) are served in the order of their arrival |
    /// | [`Kind::Read`] | many at the same time, while no [`Kind::Write`] runs |
    /// | [`Kind::Write`] | one at a time, and no [`Kind::Read`] at the same time |
    /// | [`Kind::Semaphore`] | as many at a time as there are permits |
    ///
    /// All locks on one key must have the same kind; only `Read` and `Write` can be mixed. Two nested layers for the
    /// same key follow the rules for a task that enters its own lock again. For example, a `Write` inside a `Read` is
    /// answered with 500.
    ///
    /// [`check`](LockLayer::check) refuses a kind that the store does not support, and a semaphore with 0 permits. With
    /// [`keys`](Self::keys), it refuses all kinds but `Reentrant` and `Write`.
    ///
    /// # Examples
    /// ```
    /// use axum::{Router, routing::get};
    /// use lock_axum::LockLayer;
    /// use lock_core::{Kind, LockManager};
    ///
    /// let locks = LockManager::in_memory();
    /// let page = |kind| LockLayer::new(locks.clone()).key("page:<id>").kind(kind);
    /// let show = get(async || "shown").route_layer(page(Kind::Read));
    /// let change = show.merge(axum::routing::put(async || "changed").route_layer(page(Kind::Write)));
    /// // At most three reports at a time, on all machines together.
    /// let three = LockLayer::new(locks.clone()).key("report").kind(Kind::Semaphore { permits: 3 });
    /// let app: Router = Router::new()
    ///     .route("/pages/{id}", change)
    ///     .route("/report", get(async || "done").route_layer(three));
    /// ```
    pub fn kind(mut self, kind: Kind) -> Self {
        self.options.kind = Some(kind);
        self.options.own = self.options.own.kind(kind);
        self
    }

    /// Sets what to do when the key is held. Default: the strategy of the [`profile`](Self::profile). If there is none,
    /// the default is [`retry`](lock_core::strategy::retry) for a layer with a [`wait`](Self::wait). For a layer
    /// without a `wait`, the default is [`fail_fast`](lock_core::strategy::fail_fast), which refuses the request at
    /// once.
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets how long a request waits for its lock. Default: it does not wait.
    ///
    /// While a request waits, it keeps its reservations in the services inside the layer, such as a permit of a
    /// concurrency limit.
    ///
    /// The limit applies to the wait for other holders. If the store does not answer, the 503 may be sent after the
    /// limit, at most the time of one call later (on Redis the `timeout` of the URL, 500 ms): see
    /// [`LockRequest::wait`](lock_core::LockRequest::wait). To limit the whole request, use a timeout in an outer
    /// layer.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.options.wait = Some(limit);
        self
    }

    /// Sets how many requests may wait for one key in this process. A further request is refused with 503. Default: any
    /// number. With several [`keys`](Self::keys), the waiters of each key are counted separately.
    ///
    /// [`check`](LockLayer::check) refuses 0. `check` also refuses this option if no request waits. Requests wait if
    /// the layer has a [`wait`](Self::wait), or a [`strategy`](Self::strategy) that waits.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use axum::{Router, routing::post};
    /// # let locks = lock_core::LockManager::in_memory();
    /// let queue = lock_axum::LockLayer::new(locks).key("order:<id>").wait(Duration::from_secs(1)).max_waiters(64);
    /// let app: Router = Router::new().route("/orders/{id}/pay", post(async || "paid").route_layer(queue));
    /// ```
    pub fn max_waiters(mut self, max: usize) -> Self {
        self.options.max_waiters = Some(max);
        self
    }

    /// Sets the label, which is the purpose of the lock as text for people. Operators see the label in the owner
    /// record, in errors, spans and events. Clients do not see it. Default: the label of the profile, else none.
    ///
    /// The label may contain the placeholders of a [`key`](LockLayer::key), and `<<` for a plain `<`. A value that is
    /// missing or malformed becomes `-`, so that no request is refused because of its label. Values are shown as the
    /// client sent them, so do not trust a label, and do not put secrets in it. A label of more than 256 bytes is cut.
    ///
    /// [`check`](LockLayer::check) refuses an invalid template. Register the type of `<ext.Name>` with
    /// [`extension`](LockLayer::extension).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::Request;
    /// # use tower::ServiceExt;
    /// use lock_axum::LockLayer;
    /// use lock_core::LockManager;
    ///
    /// let locks = LockManager::in_memory();
    /// let layer = LockLayer::new(locks.clone())
    ///     .key("order:<id:u64>")
    ///     .label("request <header.x-request-id> of <header.x-user>")
    ///     .check()?;
    /// # let manager = locks.clone();
    /// let pay = move || async move {
    ///     let held = manager.inspect("order:7").await.unwrap().unwrap();
    ///     held.holders[0].record.as_ref().unwrap().label().map(str::to_owned).unwrap()
    /// };
    /// let app: Router = Router::new().route("/orders/{id}", post(pay).route_layer(layer));
    /// let request = Request::post("/orders/7").header("x-request-id", "af09").body(Body::empty())?;
    /// let answer = app.oneshot(request).await?;
    /// assert_eq!(axum::body::to_bytes(answer.into_body(), 99).await?, "request af09 of -");
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// Sets a profile of the manager. Options that the layer does not set come from the profile. Options that the
    /// profile lacks come from the manager itself.
    ///
    /// [`check`](LockLayer::check) refuses a name if the manager has no such profile. Each request uses the profile
    /// that the manager has [reloaded](lock_core::ManagerBuilder#method.config) last. If the profile was removed, or
    /// contradicts the layer, requests are answered with 500, and the log says why.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// use lock_axum::LockLayer;
    /// use lock_core::{LockManager, Profile, backend::memory::Memory, strategy};
    ///
    /// let patient = Profile::new().strategy(strategy::retry()).wait(Duration::from_secs(2));
    /// let locks = LockManager::builder(Memory::new()).profile("checkout", patient).build()?;
    /// let layer = LockLayer::new(locks).key("order:<id>").profile("checkout");
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    pub fn profile(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.profile = Some(name.into());
        self
    }
}
