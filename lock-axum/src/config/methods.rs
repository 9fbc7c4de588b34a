//! Selects the HTTP methods that a layer locks.

use std::sync::Arc;

use http::Method;

/// The methods that a layer locks. The layer serves other methods without a lock.
#[derive(Clone, Debug, Default)]
pub(crate) enum Methods {
    #[default]
    All,
    Unsafe,
    Only(Arc<[Method]>),
}

impl Methods {
    pub(crate) fn include(&self, method: &Method) -> bool {
        match self {
            Self::All => true,
            // The safe methods of RFC 9110, section 9.2.1.
            Self::Unsafe => ![Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method),
            Self::Only(methods) => methods.iter().any(|named| served_by(named) == served_by(method)),
        }
    }
}

/// Returns the method whose handler serves `method`. A router sends a HEAD request to the handler of GET.
fn served_by(method: &Method) -> &Method {
    if method == Method::HEAD { &Method::GET } else { method }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_goes_with_get() {
        let table = [
            (Methods::All, [true, true, true, true, true]),
            (Methods::Unsafe, [false, false, false, true, true]),
            (Methods::Only([Method::GET, Method::PATCH].into()), [true, true, false, false, true]),
            (Methods::Only([Method::HEAD].into()), [true, true, false, false, false]),
        ];
        let asked = [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST, Method::PATCH];
        for (methods, expected) in table {
            let found = [0, 1, 2, 3, 4].map(|at: usize| methods.include(&asked[at]));
            assert_eq!(found, expected, "{methods:?}");
        }
    }
}
