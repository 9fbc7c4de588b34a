//! Tests the permissions to view the console and to release locks.

use http::{Method, StatusCode};
use lock_axum::console::{Console, Viewers};
use lock_core::LockManager;

use crate::support::{PATHS, data, json, read_only, request, send, with_actions};

#[tokio::test(start_paused = true)]
async fn a_refused_viewer_gets_403_on_each_path() {
    let locks = LockManager::in_memory();
    let viewers = Viewers::only(|request| request.headers.contains_key("x-user"));
    let app = axum::Router::new().nest_service("/locks", Console::new(locks, viewers).into_router::<()>());
    for (method, path) in PATHS.into_iter().chain([(Method::GET, "/nothing"), (Method::DELETE, "/")]) {
        let path = format!("/locks{path}");
        let answer = send(&app, request(&method, &path)).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}");
        assert!(answer.headers().contains_key("content-security-policy"), "{path}");
        assert_eq!(json(answer).await["status"], 403, "{path}");
        let mut admitted = request(&method, &path);
        admitted.headers_mut().insert("x-user", "ann".parse().unwrap());
        let status = send(&app, admitted).await.status();
        // The console is read-only, so every action is refused.
        assert_eq!(status == StatusCode::FORBIDDEN, method == Method::POST, "{path}: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_another_site_gets_no_data() {
    let app = with_actions(&LockManager::in_memory());
    for (site, data) in [("cross-site", false), ("same-site", false), ("same-origin", true), ("none", true)] {
        for (method, path) in PATHS.into_iter().filter(|(method, _)| method == Method::GET) {
            let mut request = request(&method, path);
            request.headers_mut().insert("sec-fetch-site", site.parse().unwrap());
            let admitted = data || !path.starts_with("/api/");
            let status = send(&app, request).await.status();
            assert_eq!(status == StatusCode::OK, admitted, "{site} {path}: {status}");
        }
    }
}

/// A foreign page can contain `<img src="http://example/locks/api/doctor">`. The request of this element has no
/// `x-lock-console` header. Without TLS, it has no `sec-fetch-site` header either.
#[tokio::test(start_paused = true)]
async fn the_doctor_looks_only_for_the_page() {
    let app = read_only(&LockManager::in_memory());
    let mut bare = request(&Method::GET, "/api/doctor");
    bare.headers_mut().remove("x-lock-console");
    assert_eq!(send(&app, bare).await.status(), StatusCode::FORBIDDEN);
    assert_eq!(send(&app, request(&Method::GET, "/api/doctor")).await.status(), StatusCode::OK);
}

/// The functions see the extensions that an outer layer has added to the request.
#[tokio::test(start_paused = true)]
async fn the_functions_see_extensions() {
    #[derive(Clone)]
    struct User(&'static str);
    let name =
        |request: &http::request::Parts| request.extensions.get::<User>().map(|user| user.0.to_owned());
    let console =
        Console::new(LockManager::in_memory(), Viewers::only(move |request| name(request).is_some()))
            .allow_actions(move |request| name(request).filter(|name| name == "ann"));
    let app = console.into_router::<()>();
    for (user, read_only) in [(Some("ann"), Some(false)), (Some("bob"), Some(true)), (None, None)] {
        let mut request = request(&Method::GET, "/api/state");
        request.extensions_mut().extend(
            user.map(User)
                .map(|user| {
                    let mut one = http::Extensions::new();
                    one.insert(user);
                    one
                })
                .unwrap_or_default(),
        );
        let answer = send(&app, request).await;
        assert_eq!(json(answer).await["read_only"].as_bool(), read_only, "{user:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_that_panics_admits_no_one() {
    let locks = LockManager::in_memory();
    let app = Console::new(locks.clone(), Viewers::only(|_| panic!("the test lets it panic"))).into_router();
    for (method, path) in PATHS {
        let answer = send(&app, request(&method, path)).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    }
    let console = Console::new(locks.clone(), Viewers::everyone());
    let app = console.allow_actions(|_| panic!("the test lets it panic")).into_router();
    let guard = locks.lock("order:1").acquire().await.unwrap();
    let id = locks.locks().await.unwrap().locks[0].holders[0].id.to_string();
    let answer = send(&app, crate::release::order("order:1", &id, "order:1", "stuck")).await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    guard.check().expect("nothing was released");
}

#[tokio::test(start_paused = true)]
async fn the_page_knows_whether_it_may_act() {
    let locks = LockManager::in_memory();
    assert_eq!(data(&read_only(&locks), "/api/state").await["read_only"], true);
    assert_eq!(data(&with_actions(&locks), "/api/state").await["read_only"], false);
}

/// The functions of the program run under no lock of the console, so they may use the console and the manager.
#[tokio::test(start_paused = true)]
async fn a_function_may_use_the_manager() {
    let locks = LockManager::in_memory();
    let (asked, other) = (locks.clone(), locks.clone());
    let console = Console::new(
        locks,
        Viewers::only(move |_| asked.held() == 0 && asked.events().next().now_or_never()),
    );
    let app = console.allow_actions(move |_| Some(other.held().to_string())).into_router();
    assert_eq!(data(&app, "/api/state").await["read_only"], false);
}

trait NowOrNever {
    fn now_or_never(self) -> bool;
}

impl<F: Future> NowOrNever for F {
    /// Returns whether the future is not ready at once.
    fn now_or_never(self) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(self).poll(&mut context).is_pending()
    }
}
