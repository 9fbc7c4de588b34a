//! Reads the data that axum's router has about a request: its route, its path parameters, and its whole URI.
//!
//! `with_axum` and `none` have the same functions. `none` is for builds without the feature `axum`, which have no
//! router and no such data.

#[cfg(feature = "axum")]
mod nested;
#[cfg(not(feature = "axum"))]
mod none;
#[cfg(feature = "axum")]
mod with_axum;

#[cfg(feature = "axum")]
pub(crate) use nested::is_passed_on;
#[cfg(not(feature = "axum"))]
pub(crate) use none::{Params, is_passed_on, params, route, uri};
#[cfg(feature = "axum")]
pub(crate) use with_axum::{Params, params, route, uri};

/// The reason why there are no path parameters.
#[derive(Debug)]
pub(crate) enum NoParams {
    /// A path parameter is not UTF-8.
    #[cfg_attr(not(feature = "axum"), allow(dead_code, reason = "there is no router"))]
    NotUtf8,
    /// No router has handled the request.
    NoRouter,
}
