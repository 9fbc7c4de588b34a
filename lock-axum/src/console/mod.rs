#![doc = include_str!("docs.md")]

mod access;
mod api;
mod assets;
mod histogram;
mod journal;
mod long_holds;
mod poll;
mod problem;
mod query;
mod served;
mod snapshot;
mod stream;

pub use access::Viewers;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use http::request::Parts;
use lock_core::LockManager;

use access::Operators;
use served::Served;

/// The console of one manager: a router with the page and its data.
///
/// # Examples
/// ```
/// use axum::Router;
/// use http::request::Parts;
/// use lock_axum::console::{Console, Viewers};
/// use lock_core::LockManager;
///
/// /// An outer layer adds it to the requests of people who are logged in.
/// #[derive(Clone)]
/// struct User { name: String, is_operator: bool }
///
/// fn user(request: &Parts) -> Option<&User> {
///     request.extensions.get()
/// }
///
/// # fn app(locks: LockManager) -> Router {
/// let console = Console::new(locks, Viewers::only(|request| user(request).is_some()))
///     .allow_actions(|request| user(request).filter(|user| user.is_operator).map(|user| user.name.clone()));
/// let app = Router::new().nest_service("/locks", console.into_router::<()>());
/// # app
/// # }
/// # let _ = app(LockManager::in_memory());
/// ```
#[must_use = "a console does nothing until it is mounted"]
pub struct Console {
    locks: LockManager,
    viewers: Viewers,
    operators: Operators,
}

impl Console {
    /// Makes the console of `locks` for `viewers`. The new console is read-only.
    pub fn new(locks: LockManager, viewers: Viewers) -> Self {
        Self { locks, viewers, operators: Operators::none() }
    }

    /// Allows actions to the people for whom `operator` returns a name. The log shows this name with the reason of the
    /// action. The only action is [`force_release`](LockManager::force_release), which takes a lock from its holder. By
    /// default, the console is read-only.
    ///
    /// `operator` gets the head of a request, with the extensions that outer layers have added to it. The function is
    /// called for each action, and also when the page opens, so that only people who may act get the buttons. The
    /// function must not block. If it panics, the answer is 500, and the action is not done.
    pub fn allow_actions(
        mut self,
        operator: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.operators = Operators::new(operator);
        self
    }

    /// Returns the router. Mount it with [`Router::nest_service`] at any path but the root, or serve it alone.
    ///
    /// [`Router::nest`] works too, but axum then answers 404 to the path with a slash at its end.
    pub fn into_router<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        Router::new()
            .route("/", get(assets::page))
            .route("/console.js", get(assets::script))
            .route("/console.css", get(assets::style))
            .route("/api/state", get(api::state))
            .route("/api/doctor", get(api::doctor))
            .route("/api/events", get(api::events))
            .route("/api/force-release", post(api::force_release))
            .with_state(Arc::new(Served::new(self.locks, self.operators)))
            .layer(from_fn_with_state(self.viewers, access::guard))
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("locks", &self.locks)
            .field("viewers", &self.viewers)
            .field("operators", &self.operators)
            .finish()
    }
}
