//! Tests that two requests share a key if and only if they have the same meaning, in whatever form the clients write
//! them.

use std::collections::HashMap;

use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use http::{Request, StatusCode};
use lock_axum::{LockHandle, LockLayer};
use lock_core::LockManager;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::support::{send, text};

/// The values of a request, as they are written in a URI or a header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Written {
    Segments(String, String),
    Rest(String),
    Head { header: String, query: String },
}

/// The decoded values of a request. `None` stands for bytes that are not text, or that a header does not allow.
type Meant = Option<(&'static str, Vec<u8>, Vec<u8>)>;

impl Written {
    fn request(&self) -> Request<Body> {
        let request = match self {
            Self::Segments(one, other) => Request::get(format!("/two/{one}/and/{other}")),
            Self::Rest(rest) => Request::get(format!("/rest/{rest}")),
            Self::Head { header, query } => Request::get(format!("/head?a=b&q={query}")).header("x", header),
        };
        request.body(Body::empty()).expect("it can be sent")
    }

    fn meant(&self) -> Meant {
        let (place, one, other) = match self {
            Self::Segments(one, other) => ("two", decoded(one), decoded(other)),
            Self::Rest(rest) => ("rest", decoded(rest), Vec::new()),
            Self::Head { header, query } => {
                let query = decoded(&query.replace('+', "%20"));
                if header.len() > 255 || query.is_empty() {
                    return None;
                }
                ("head", header.clone().into_bytes(), query)
            }
        };
        let is_text = std::str::from_utf8(&one).is_ok() && std::str::from_utf8(&other).is_ok();
        is_text.then_some((place, one, other))
    }
}

/// Decodes sequences such as `%41`. Other percent signs are kept.
fn decoded(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if !part.starts_with('+') => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            _ => {
                bytes.push(b'%');
                bytes.extend(part.as_bytes());
            }
        }
    }
    bytes
}

/// Returns a proptest strategy for a part of a path or a query. A part is made of a few pieces that are special to some
/// parser, so that two parts are often equal.
fn part() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop_oneof![
            Just("a"), Just("b"), Just(":"), Just("%3A"), Just("%3a"), Just("%2F"), Just("%25"), Just("%253A"),
            Just("%"), Just("%4"), Just("%zz"), Just("%41"), Just("A"), Just("%C3%A9"), Just("%ff"), Just("%00"),
            Just("."), Just(".."), Just("~"), Just("-"), Just("_"), Just("%20"), Just("+"), Just("<a>"),
            Just("%3Ca%3E"), Just("{a}"), Just("*"), Just("%E2%82%AC"), Just("%F0%9F%94%92"), Just("%0d%0a"),
        ]
        .prop_map(str::to_owned),
        1 => any::<char>().prop_map(|char| {
            let mut bytes = [0; 4];
            char.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02x}")).collect()
        }),
        1 => (9_990_usize..10_010).prop_map(|length| "l".repeat(length)),
    ];
    // A URI must not contain unencoded braces or angle brackets.
    let piece = piece.prop_map(|piece| piece.replace(['<', '>', '{', '}'], "%3C"));
    proptest::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat())
}

fn written() -> impl Strategy<Value = Written> {
    prop_oneof![
        3 => (part(), part()).prop_map(|(one, other)| Written::Segments(one, other)),
        1 => (part(), part()).prop_map(|(one, other)| Written::Rest(format!("{one}/{other}"))),
        1 => part().prop_map(Written::Rest),
        // A header is not decoded: text that looks encoded is used unchanged.
        3 => (part(), part()).prop_map(|(header, query)| Written::Head { header, query }),
    ]
}

fn app() -> Router {
    let key = on_get(async |lock: LockHandle| lock.key().to_owned());
    let locked = |template| key.clone().layer(LockLayer::new(LockManager::in_memory()).key(template));
    Router::new()
        .route("/two/{one}/and/{other}", locked("two:<one:text>:<other:text>"))
        .route("/rest/{*rest}", locked("rest:<rest:text>"))
        .route("/head", locked("head:<header.x>:<query.q:text>"))
}

#[test]
fn two_requests_share_a_key_if_and_only_if_they_mean_the_same() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let app = app();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let several = proptest::collection::vec(written(), 30);
    let outcome = runner.run(&several, |requests| {
        let mut keys = HashMap::new();
        let mut meanings = HashMap::new();
        for written in requests {
            let meant = written.meant();
            let answer = runtime.block_on(send(&app, written.request()));
            let status = answer.status();
            let Some(meant) = meant else {
                assert_eq!(status, StatusCode::BAD_REQUEST, "{written:?}");
                continue;
            };
            assert_eq!(status, StatusCode::OK, "{written:?}");
            let key = runtime.block_on(text(answer));
            assert!(key.len() <= 512, "{} bytes", key.len());
            let same_key = keys.entry(key.clone()).or_insert_with(|| meant.clone());
            assert_eq!(*same_key, meant, "they share `{key}`");
            assert_eq!(*meanings.entry(meant).or_insert_with(|| key.clone()), key, "{written:?}");
        }
        Ok(())
    });
    outcome.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Uses any bytes that HTTP allows, including bytes that no browser sends.
    #[test]
    fn no_header_crashes_the_layer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let Ok(header) = http::HeaderValue::from_bytes(&bytes) else { return Ok(()) };
        let fits = (1..=255).contains(&bytes.len()) && bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = Request::get("/head?q=1").header("x", header).body(Body::empty()).unwrap();
        let status = runtime.block_on(send(&app(), request)).status();
        assert_eq!(status, if fits { StatusCode::OK } else { StatusCode::BAD_REQUEST });
    }
}
