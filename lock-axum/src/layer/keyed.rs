//! Sets the key of a layer from templates.

use std::fmt::Display;

use lock_core::Result;

use super::builder::{HasNoKey, Keyed, LockLayer, TakesExtension};
use crate::in_use::UseTimes;
use crate::key::Keys;

impl<K> LockLayer<K> {
    /// Sets the key to lock, as a template with placeholders:
    ///
    /// | placeholder | value | answer if it is missing |
    /// | --- | --- | --- |
    /// | `<id>` | the path parameter of this name, decoded | 500, and the log lists the parameters of the route |
    /// | `<header.x-tenant>` | a header that occurs once and has 1 to 255 visible ASCII characters | 400 |
    /// | `<query.page>` | a query parameter that occurs once and is not empty | 400 |
    /// | `<ext.Tenant>` | an extension that is [registered](Self::extension) under this name | 500 |
    /// | `<method>` | the method: `POST`. A path parameter named `method`, `route` or with a `.` cannot be used: give it another name | |
    /// | `<route>` | the route as it was registered: `/orders/{id}` | none: the request is not locked, as it has no route |
    /// | `<uri.path>` | the whole path, also under `nest`: `/orders/42`; `/orders/%34%32` gives the same | |
    /// | `<uri.path:text>` | the same, with any spelling of its segments | |
    ///
    /// **One thing must have one key, in whatever spelling the client sends.** A handler with `Path<u64>` parses
    /// `/orders/1`, `/orders/01` and `/orders/+1` to the same order, so the layer must make the same key from all
    /// three. Name the type of the value:
    ///
    /// | placeholder | accepts | in the key |
    /// | --- | --- | --- |
    /// | `<id:u64>`, also `u8` to `u128`, `usize`, and `i8` to `i128`, `isize` | what the handler's `Path<u64>` accepts; else 400 | the number as Rust prints it |
    /// | `<id:uuid>` | a UUID in upper or lower case, with or without hyphens, in braces, after `urn:uuid:`; else 400 | lower case with hyphens |
    /// | `<header.x-tenant:lower>` | any text | the text in lower case, for names whose case does not matter |
    /// | `<id>` from the path or the query, and each segment of `<uri.path>` | any text, but 400 for digits with a `+` or with leading zeros, and for a UUID with hyphens in upper case, in braces or after `urn:uuid:` | the text |
    /// | `<zip:text>`, or a header | any text | the text |
    ///
    /// Thirty-two hexadecimal digits without hyphens may be a hash, so `<id>` accepts them as text: write `<id:uuid>`
    /// if the handler has a `Path<Uuid>`.
    ///
    /// Some texts are different for the layer, but equal for the handler: `1.0` and `1e0` as `f64`, or names that the
    /// database compares without accents. For such texts, use [`key_of`](Self::key_of), which makes the key from the
    /// value that the handler gets.
    ///
    /// `:lower` converts to the lower case of Unicode, without a normalisation. The result depends on the position of a
    /// letter in its word (`Σ` at the end becomes `ς`), and `é` as one character differs from `e` with a separate
    /// accent. A database that ignores case by other rules (`citext` of Postgres, a collation of MySQL) may treat two
    /// texts as equal although they have different locks. For names beyond ASCII, use [`key_of`](Self::key_of) with the
    /// text that the database compares.
    ///
    /// Values are encoded. So two templates never give the same key if their fixed texts differ in a character such as
    /// `:`. But `job:<name>` and `job:nightly` give the same key if `name` is `nightly`; write `job:name:<name>`
    /// instead. [`KeyTemplate::clash`](lock_core::key::KeyTemplate::clash) finds such pairs.
    ///
    /// # Panics
    /// Panics if the template or one of its placeholders is invalid. The message has the position, and what was
    /// expected there. [`try_key`](Self::try_key) returns an error instead.
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

    /// Sets the key, like [`key`](Self::key), but returns an error instead of a panic. Use this for templates from a
    /// configuration.
    ///
    /// # Errors
    /// [`InvalidKey`](lock_core::LockErrorKind::InvalidKey) if the template is invalid. The text has the position, and
    /// what was expected there.
    pub fn try_key(self, template: &str) -> Result<LockLayer>
    where
        K: HasNoKey,
    {
        let keys = Keys::from_template(template, &self.options.extensions)?;
        Ok(self.keyed(keys))
    }

    /// Sets several keys, of which a request locks all or none. Each key is a template as for [`key`](Self::key).
    ///
    /// The order does not matter: two requests that name the same keys in opposite order never deadlock. If two
    /// templates give the same key for a request, such as `account:<from>` and `account:<to>`, the key is locked once.
    /// Templates are refused if their fixed texts differ but they can still give the same key, such as `job:<name>` and
    /// `job:nightly`.
    ///
    /// Each key has one holder, and no reader at the same time, so the [`kind`](Self::kind) is
    /// [`Kind::Reentrant`](lock_core::Kind::Reentrant) or [`Kind::Write`](lock_core::Kind::Write).
    /// [`check`](LockLayer::check) refuses other kinds, and more keys than the manager
    /// [allows](lock_core::ManagerBuilder::max_keys) for one request, 100 by default.
    ///
    /// If an inner layer shares a key with an outer layer, the outer layer must hold all keys of the inner layer.
    /// Otherwise the request would wait for itself, so it is answered with 500.
    ///
    /// # Panics
    /// Panics as [`key`](Self::key) does, and if there is no template, the same template twice, or two templates that
    /// [clash](lock_core::key::KeyTemplate::clash). [`try_keys`](Self::try_keys) returns an error instead.
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

    /// Sets several keys, like [`keys`](Self::keys), but returns an error instead of a panic. Use this for templates
    /// from a configuration.
    ///
    /// # Errors
    /// [`InvalidKey`](lock_core::LockErrorKind::InvalidKey) if a template is invalid, or for the other reasons why
    /// [`keys`](Self::keys) panics.
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
        let keys = Keys::from_templates(templates, &self.options.extensions)?;
        Ok(self.keyed(keys))
    }

    /// Registers the type `T` for `<ext.name>` in the templates of this layer. The placeholder stands for the
    /// [`Display`] of the `T` that an outer layer has put into the extensions of the request, such as the authenticated
    /// tenant. Call this before [`key`](Self::key).
    ///
    /// A request without the extension is answered with 500, and the log reports the mistake. Otherwise two tenants
    /// would share a key if the outer layer is missing.
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
        K: TakesExtension,
    {
        self.options.extensions.add::<T>(name);
        self
    }

    pub(super) fn keyed(mut self, keys: Keys) -> LockLayer {
        // Layers with different keys may be clones of one layer without a key. Their requests take different times, so
        // each layer measures its own.
        self.options.use_times = UseTimes::default();
        // The template is registered here, so that dashboards show it from the start. A router may mount the layer much
        // later, when the first client connects.
        self.manager.register_template(keys.template());
        LockLayer { key: Keyed(keys), manager: self.manager, options: self.options }
    }
}
