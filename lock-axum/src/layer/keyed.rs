//! Which key.

use std::fmt::Display;

use lock_core::Result;

use super::builder::{HasNoKey, Keyed, LockLayer};
use crate::key::Keys;

impl<K> LockLayer<K> {
    /// Sets the key to lock, a template:
    ///
    /// | placeholder | stands for | when it is not there |
    /// | --- | --- | --- |
    /// | `<id>` | the path parameter of this name, decoded | 500, and the log says which there are |
    /// | `<header.x-tenant>` | a header, once, not empty and of at most 255 visible ASCII characters | 400 |
    /// | `<query.page>` | a parameter of the query, once and not empty | 400 |
    /// | `<ext.Tenant>` | an extension that is [registered](Self::extension) under this name | 500 |
    /// | `<method>` | the method: `POST` | |
    /// | `<route>` | the route as it was registered: `/orders/{id}` | not locked, as no route was found |
    /// | `<uri.path>` | the whole path, also under `nest`: `/orders/42`; `/orders/%34%32` is the same | |
    /// | `<uri.path:text>` | the same, with parts of any spelling | |
    ///
    /// **One thing must have one key, however the client writes it.** A handler with `Path<u64>` takes `/orders/1`,
    /// `/orders/01` and `/orders/+1` for one order, so the layer must too. Say what the value is:
    ///
    /// | placeholder | takes | gives |
    /// | --- | --- | --- |
    /// | `<id:u64>`, also `u8` to `u128`, `usize`, and `i8` to `i128`, `isize` | what the handler's `Path<u64>` takes, else 400 | the number as Rust writes it |
    /// | `<id:uuid>` | upper and lower case, with and without hyphens, in braces, after `urn:uuid:`, else 400 | lower case with hyphens |
    /// | `<header.x-tenant:lower>` | any text | lower case, for names that differ in case only |
    /// | `<id>`, of the path or the query, and each part of `<uri.path>` | any text, but 400 for digits with a sign `+` or with zeros in front of them, and for a UUID with hyphens in upper case, in braces or after `urn:uuid:` | the text |
    /// | `<zip:text>`, or a header | any text | the text |
    ///
    /// Thirty-two hexadecimal digits without hyphens may be a hash, so `<id>` takes them as text: write `<id:uuid>` where the
    /// handler has `Path<Uuid>`.
    ///
    /// What else two texts may have in common only the handler knows: `1.0` and `1e0` as `f64`, or a name that the
    /// database compares without regard to accents. There, take the key from the value that the handler gets, with
    /// [`key_of`](Self::key_of).
    ///
    /// Values are encoded, so that no value reaches the key of another template, as long as the fixed texts of the
    /// templates differ in a character such as `:`. `job:<name>` and `job:nightly` can meet, where `name` is `nightly`:
    /// write `job:name:<name>`. [`KeyTemplate::clash`](lock_core::key::KeyTemplate::clash) finds such pairs.
    ///
    /// # Panics
    /// When the template cannot be read or a placeholder means nothing: at start-up, with the place and what was
    /// expected there. [`try_key`](Self::try_key) returns that instead.
    #[track_caller]
    pub fn key(self, template: &str) -> LockLayer
    where
        K: HasNoKey,
    {
        match self.try_key(template) {
            Ok(layer) => layer,
            Err(error) => panic!("LockLayer: {error}"),
        }
    }

    /// As [`key`](Self::key), for templates that come from a configuration.
    ///
    /// # Errors
    /// [`InvalidKey`](lock_core::LockErrorKind::InvalidKey) with the place and what was expected there.
    pub fn try_key(self, template: &str) -> Result<LockLayer>
    where
        K: HasNoKey,
    {
        let keys = Keys::one(template, &self.options.extensions)?;
        Ok(self.keyed(keys))
    }

    /// Sets several keys to lock, all or none, each a template as that of [`key`](Self::key). The order does not matter:
    /// two requests that name the same keys the other way round never wait for each other. Where two templates give the
    /// same key, it is taken once: `account:<from>` and `account:<to>` are meant to meet. Templates that differ and can meet
    /// all the same, such as `job:<name>` and `job:nightly`, are refused. [`check`](LockLayer::check) refuses more of them
    /// than the manager allows one request, 100 unless it [says](lock_core::ManagerBuilder::max_keys) otherwise.
    ///
    /// They stand in place of [`key`](Self::key), and each has one holder: another [`kind`](Self::kind) than
    /// [`Kind::Reentrant`](lock_core::Kind::Reentrant) does not go with them. A layer within a layer must not ask for more keys than the outer one
    /// has, if they have one in common: it would wait for its own request, and is a 500.
    ///
    /// # Panics
    /// As [`key`](Self::key), and without any template, with the same one twice, or with two that
    /// [clash](lock_core::key::KeyTemplate::clash). [`try_keys`](Self::try_keys) returns
    /// that instead.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::{Request, StatusCode};
    /// # use lock_axum::LockLayer;
    /// # use tower::ServiceExt;
    /// # let locks = lock_core::LockManager::in_memory();
    /// let both = LockLayer::new(locks.clone()).keys(["account:<from:u64>", "account:<to:u64>"]);
    /// let app: Router =
    ///     Router::new().route("/transfer/{from}/{to}", post(async || "moved").route_layer(both));
    ///
    /// let busy = locks.lock("account:2").acquire().await?;
    /// let request = || Request::post("/transfer/1/2").body(Body::empty());
    /// assert_eq!(app.clone().oneshot(request()?).await?.status(), StatusCode::CONFLICT);
    /// busy.release().await?;
    /// assert_eq!(app.oneshot(request()?).await?.status(), StatusCode::OK);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A layer has one `key` or several `keys`, not both:
    /// ```compile_fail,E0277
    /// # let locks = lock_core::LockManager::in_memory();
    /// lock_axum::LockLayer::new(locks).key("order:<id>").keys(["stock:<id>"]);
    /// ```
    #[track_caller]
    pub fn keys<T: AsRef<str>>(self, templates: impl IntoIterator<Item = T>) -> LockLayer
    where
        K: HasNoKey,
    {
        match self.try_keys(templates) {
            Ok(layer) => layer,
            Err(error) => panic!("LockLayer: {error}"),
        }
    }

    /// As [`keys`](Self::keys), for templates that come from a configuration.
    ///
    /// # Errors
    /// [`InvalidKey`](lock_core::LockErrorKind::InvalidKey) with the place and what was expected there.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let error = lock_axum::LockLayer::new(locks).try_keys(["a:<x>", "a:<x>"]).unwrap_err();
    /// assert!(error.to_string().contains("twice"));
    /// ```
    pub fn try_keys<T: AsRef<str>>(self, templates: impl IntoIterator<Item = T>) -> Result<LockLayer>
    where
        K: HasNoKey,
    {
        let keys = Keys::all(templates, &self.options.extensions)?;
        Ok(self.keyed(keys))
    }

    /// Lets `<ext.name>` in the templates of this layer stand for the `T` that a layer outside has put into the extensions of
    /// the request, as its [`Display`] shows it: who was authenticated, say. A request without it is a 500, and the log says
    /// so: a missing layer must not let two tenants share a key.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::{Request, StatusCode};
    /// # use tower::ServiceExt;
    /// use lock_axum::LockLayer;
    ///
    /// #[derive(Clone)]
    /// struct Tenant(String);
    ///
    /// impl std::fmt::Display for Tenant {
    ///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    ///         f.write_str(&self.0)
    ///     }
    /// }
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer =
    ///     LockLayer::new(locks.clone()).extension::<Tenant>("Tenant").key("order:<ext.Tenant>:<id:u64>").check()?;
    /// let app: Router = Router::new().route("/orders/{id}", post(async || "paid").route_layer(layer));
    ///
    /// let busy = locks.lock("order:acme:7").acquire().await?;
    /// let request = Request::post("/orders/7").extension(Tenant("acme".to_owned())).body(Body::empty())?;
    /// assert_eq!(app.clone().oneshot(request).await?.status(), StatusCode::CONFLICT);
    /// # busy.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extension<T: Display + Send + Sync + 'static>(mut self, name: &str) -> Self
    where
        K: HasNoKey,
    {
        self.options.extensions.add::<T>(name);
        self
    }

    pub(super) fn keyed(self, keys: Keys) -> LockLayer {
        // A router may mount the layer when its first client comes: too late for a dashboard.
        self.options.manager.register_template(keys.template());
        LockLayer { key: Keyed(keys), options: self.options }
    }
}
