//! Sets the key of a layer from a function or an extractor.

use axum_core::extract::FromRequestParts;
use http::request::Parts;

use super::builder::{HasNoKey, LockLayer};
#[cfg(feature = "axum")]
use crate::key::PathParams;
use crate::key::{Chooser, Extracted, IntoKeyChoice, KeyValues, Keys};

impl<K> LockLayer<K> {
    /// Sets a function that chooses the key of each request, serves the request without a lock, or refuses it. Use this
    /// for keys that no template can express. Spans, metrics, the log and clients get `name` instead of a template, so
    /// `name` must be a constant without secrets.
    ///
    /// The function gets the head of the request, with the extensions that outer layers have added. If it needs path
    /// parameters, use [`key_with`](Self::key_with).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::{Request, StatusCode};
    /// # use tower::ServiceExt;
    /// use http::request::Parts;
    /// use lock_axum::{KeyChoice, LockLayer};
    /// use lock_core::key::KeyBuilder;
    ///
    /// /// The tenant that an outer layer has authenticated.
    /// #[derive(Clone)]
    /// struct Tenant(String);
    ///
    /// fn of_tenant(parts: &Parts) -> KeyChoice {
    ///     match parts.extensions.get::<Tenant>() {
    ///         Some(Tenant(name)) => KeyBuilder::new().literal("tenant:").value(name).finish().into(),
    ///         None => KeyChoice::Reject("There is no tenant.".into()),
    ///     }
    /// }
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// let one_for_each = LockLayer::new(locks.clone()).key_fn("tenant", of_tenant);
    /// let app: Router = Router::new().route("/import", post(async || "done").route_layer(one_for_each));
    ///
    /// let busy = locks.lock("tenant:ann").acquire().await?;
    /// let request = || Request::post("/import").extension(Tenant("ann".to_owned())).body(Body::empty());
    /// assert_eq!(app.clone().oneshot(request()?).await?.status(), StatusCode::CONFLICT);
    /// busy.release().await?;
    /// assert_eq!(app.clone().oneshot(request()?).await?.status(), StatusCode::OK);
    /// let unnamed = Request::post("/import").body(Body::empty())?;
    /// assert_eq!(app.oneshot(unnamed).await?.status(), StatusCode::BAD_REQUEST);
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_fn<C: IntoKeyChoice>(
        self,
        name: &str,
        choose: impl Fn(&Parts) -> C + Send + Sync + 'static,
    ) -> LockLayer
    where
        K: HasNoKey,
    {
        self.keyed(Keys::Chosen(Chooser::new(name, choose)))
    }

    /// Sets a function that chooses the key of each request, like [`key_fn`](Self::key_fn), and also gets the path
    /// parameters. A request for which the router found no route is served without a lock.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::{KeyChoice, LockLayer};
    /// use lock_core::key::{Key, KeyBuilder};
    ///
    /// let layer = LockLayer::new(locks).key_with("order", |parts, params| -> Result<Key, KeyChoice> {
    ///     if parts.headers.contains_key("x-dry-run") {
    ///         return Err(KeyChoice::Skip);
    ///     }
    ///     let id: u64 = params.parse("id")?;
    ///     KeyBuilder::new().literal("order:").value(&id).finish().map_err(|_| KeyChoice::Reject("No key.".into()))
    /// });
    /// # let app: axum::Router =
    /// #     axum::Router::new().route("/orders/{id}", axum::routing::post(async || "").route_layer(layer));
    /// ```
    #[cfg(feature = "axum")]
    #[cfg_attr(docsrs, doc(cfg(feature = "axum")))]
    pub fn key_with<C: IntoKeyChoice>(
        self,
        name: &str,
        choose: impl Fn(&Parts, PathParams<'_>) -> C + Send + Sync + 'static,
    ) -> LockLayer
    where
        K: HasNoKey,
    {
        self.keyed(Keys::Chosen(Chooser::with_path(name, choose)))
    }

    /// Sets the key from an axum extractor. The key is made from the same values that the handler gets, so one thing
    /// has one key in whatever spelling the client sends. The function returns one value, or a tuple of two to four
    /// values, in the order of the placeholders of `template`. The names of the placeholders do not affect the key;
    /// they are only for people who read the template. The values are encoded.
    ///
    /// The extractor runs before the lock is acquired. If the extractor rejects the request, the client gets the answer
    /// of the extractor, such as 401. With [`grpc`](LockLayer::grpc), the client gets `INVALID_ARGUMENT` instead. The
    /// extractor has no access to the state of the router. To use several extractors, write them as a tuple.
    ///
    /// # Panics
    /// Panics if the template is invalid, or its number of placeholders differs from the number of values.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::{Request, StatusCode};
    /// # use tower::ServiceExt;
    /// use axum::Extension;
    /// use axum::extract::Path;
    /// use lock_axum::LockLayer;
    ///
    /// /// The user that an outer layer has authenticated.
    /// #[derive(Clone)]
    /// struct User {
    ///     tenant: u32,
    /// }
    ///
    /// type Of = (Extension<User>, Path<u64>);
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = LockLayer::new(locks.clone())
    ///     .key_of("order:<tenant>:<id>", |(Extension(user), Path(id)): Of| (user.tenant, id))
    ///     .check()?;
    /// let app: Router = Router::new().route("/orders/{id}", post(async || "paid").route_layer(layer));
    ///
    /// let busy = locks.lock("order:3:7").acquire().await?;
    /// let request = Request::post("/orders/007").extension(User { tenant: 3 }).body(Body::empty())?;
    /// assert_eq!(app.clone().oneshot(request).await?.status(), StatusCode::CONFLICT);
    /// # busy.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn key_of<E, P, M>(self, template: &str, values: impl Fn(E) -> P + Send + Sync + 'static) -> LockLayer
    where
        K: HasNoKey,
        E: FromRequestParts<()> + 'static,
        P: KeyValues<M>,
    {
        match Extracted::new(template, values) {
            Ok(extracted) => self.keyed(Keys::Extracted(extracted)),
            Err(error) => panic!("LockLayer: {error}"),
        }
    }
}
