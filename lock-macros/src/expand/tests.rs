use super::*;

fn expand(args: &str, item: &str) -> String {
    attribute(args.parse().expect(args), &item.parse().expect(item)).to_string()
}

const SHIP: &str = "async fn ship(id: u64) -> Result<u64, LockError> { Ok(id) }";

/// After an error, the function stays visible to editors and other diagnostics, but the build fails.
#[test]
fn with_an_error_the_item_stays_visible() {
    let options = [
        "",
        "key",
        "key =",
        "key = \"order:<idd>\"",
        "key = \"order\", tt",
        "key = \"order\" ttl = \"5s\"",
        "keys = [\"a\", 5], ttl = 5",
        "key = \"order\", fallback = self.later",
    ];
    for options in options {
        for item in [SHIP, "pub(crate) async fn ship(id: u64, s: Shop) -> Result<(), LockError> { s. }"] {
            kept(options, item);
        }
    }
    for item in [
        "struct Shop;",
        "fn ship() {}",
        "fn ship() -> Pin<Box<dyn Future<Output = ()>>> { Box::pin(now()) }",
        "fn ship() -> Pin<Box<dyn Future<Output = ()>>> { first(); Box::pin(async move { s. }) }",
        "fn ship(s: Shop) -> impl Future<Output = ()> { async move { s. } }",
        "async fn ship(id: ) { s. }",
        "async fn ship(id: u64, ) -> { s. }",
        "async fn ship(id: u64) -> Result<(), LockError>",
        "async fn ship<T: >(id: u64, { s. })",
        "async fn (s: Shop) { s. }",
        "async fn ship(s: Shop) { #! s. }",
        "async fn",
        "",
    ] {
        kept(r#"key = "order""#, item);
    }
}

fn kept(options: &str, item: &str) {
    let dense = |code: &str| code.replace(' ', "");
    let expanded = dense(&expand(options, item)).replace("let_=&id;", "").replace("let_=&s;", "");
    let item: TokenStream = item.parse().expect(item);
    assert!(expanded.ends_with(&dense(&item.to_string())), "{options}: {expanded}");
    assert!(expanded.contains("compile_error"), "{options}: {expanded}");
}

/// The compile time of a locked function depends mostly on the number of generated tokens; see
/// `benches/compile_time.rs`. If a limit is exceeded, move code into functions of lock-core.
#[test]
fn little_is_written_for_each_function() {
    let item = "async fn ship(id: u64, name: &str) -> Result<u64, LockError> { }";
    for (options, most) in [
        (r#"key = "order""#, 160),
        (r#"key = "order:<id>", ttl = "500ms", strategy = "retry""#, 195),
        (r#"key = "order:<id>", handle = lock, strategy = "skip""#, 295),
        (r#"key = "order:<id>", fallback = later"#, 300),
        (r#"keys = ["order:<id>", "stock:<name>"]"#, 190),
    ] {
        let expanded = attribute(options.parse().expect(options), &item.parse().expect(item));
        let written = tokens(expanded) - tokens(item.parse().expect(item));
        assert!(written <= most, "{options}: {written} tokens, at most {most}");
    }
}

fn tokens(stream: TokenStream) -> usize {
    let count = |token| match token {
        proc_macro2::TokenTree::Group(group) => 2 + tokens(group.stream()),
        _ => 1,
    };
    stream.into_iter().map(count).sum()
}

/// The body is not parsed. So the compiler still reports the errors of incomplete code, and editors can complete it.
#[test]
fn a_half_typed_body_is_passed_on() {
    let headers = [
        ("async fn ship(s: Shop) -> Result<(), LockError>", "", ""),
        ("async fn ship((s, _): (Shop, u8)) -> Result<(), LockError>", "", ""),
        ("fn ship(s: Shop) -> Pin<Box<dyn Future<Output = ()> + Send>>", "Box::pin(async move {", "})"),
    ];
    for (header, before, after) in headers {
        for body in ["s.", "let x = ; s.", "if s. {} ", "match s", "s.pay()?.", "&", "=> #", "let", "s.x?.;"]
        {
            let item = format!("{header} {{ {before} {body} {after} }}");
            let body: TokenStream = body.parse().expect(body);
            for options in
                [r#"key = "order""#, r#"key = "order", handle = lock, fallback = other, strategy = "skip""#]
            {
                let expanded = expand(options, &item);
                let body = format!("{{ {body} }}");
                assert!(expanded.contains(&body) && !expanded.contains("compile_error"), "{expanded}");
            }
        }
    }
}
