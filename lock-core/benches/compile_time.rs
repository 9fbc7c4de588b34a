//! Measures the compile time of the attribute. A crate of 200 locked functions is compared with the same crate with
//! `#[tracing::instrument]`, and with the same crate without any attribute.
//!
//! ```sh
//! cargo bench -p lock-core --bench compile_time
//! ```
//!
//! The crates are generated, and have the dependencies of this workspace in the same versions. The dependencies are
//! built before the measurement. A figure is the CPU time (user and system) of one `cargo check` or `cargo build` of
//! the crate alone, after its source was touched. The three crates take turns, so a machine that slows down slows all
//! of them. The bench runs only on Linux, because it reads the times of finished children from `/proc`.
//!
//! With Rust 1.95 on two shared cores, the attribute took these shares of the time of `#[tracing::instrument]` in the
//! same rounds (medians of 7 rounds): `check` 64 % (1.11 s and 1.73 s), `build` 84 % (3.05 s and 3.64 s). The goal is
//! 105 %. The share depends on how much of the code around a body is compiled again for each body: see
//! `lock-core/src/guard/body.rs`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const FUNCTIONS: usize = 200;
const ROUNDS: usize = 7;

/// The attribute of each function.
const VARIANTS: [(&str, &str); 3] = [
    ("plain", ""),
    ("instrument", "#[tracing::instrument]"),
    ("lock", "#[lock_core::distributed_lock(key = \"order:<id>\", ttl = \"500ms\", strategy = \"retry\")]"),
];

fn main() {
    // `cargo test --all-targets` also starts benches, but without `--bench`, and must not take minutes.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let crates: Vec<PathBuf> = VARIANTS.iter().map(|(name, attribute)| generate(name, attribute)).collect();
    for command in ["check", "build"] {
        crates.iter().for_each(|each| _ = compile(each, command));
        let mut times = vec![Vec::new(); crates.len()];
        for _ in 0..ROUNDS {
            for (times, each) in times.iter_mut().zip(&crates) {
                times.push(compile(each, command));
            }
        }
        report(command, times);
    }
}

fn report(command: &str, times: Vec<Vec<Duration>>) {
    println!("cargo {command}, {FUNCTIONS} functions, CPU time, {ROUNDS} rounds");
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let instrument = medians[1];
    for ((name, _), time) in VARIANTS.iter().zip(medians) {
        println!("  {name:<12}{time:>8.2} s{:>9.1} % of instrument", 100.0 * time / instrument);
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

/// Writes the crate, and returns its folder.
fn generate(name: &str, attribute: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_time").join(name);
    fs::create_dir_all(folder.join("src")).expect("a folder for the generated crate");
    fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file is copied");
    let manifest = format!(
        "[package]\nname = \"compile-time-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         lock-core = {{ path = {:?} }}\ntracing = {{ version = \"0.1\", features = [\"attributes\"] }}\n\n[workspace]\n",
        workspace.join("lock-core"),
    );
    fs::write(folder.join("Cargo.toml"), manifest).expect("the manifest is written");
    fs::write(folder.join("src/main.rs"), source(attribute)).expect("the source is written");
    folder
}

/// Returns the source of a crate: the functions, and a `main` that makes the compiler translate each of them.
fn source(attribute: &str) -> String {
    let mut source = String::from(
        "use std::future::Future;\nuse std::pin::Pin;\nuse lock_core::LockError;\n\
         async fn stock(id: u64) -> Result<u64, LockError> { Ok(id) }\n",
    );
    let mut calls = String::new();
    for n in 0..FUNCTIONS {
        writeln!(
            source,
            "{attribute}\nasync fn ship_{n}(id: u64, name: &str) -> Result<u64, LockError> {{\n    \
             let left = stock(id).await?;\n    if left == {n} {{ return Ok(0); }}\n    \
             let text = format!(\"{{name}}:{{left}}\");\n    stock(text.len() as u64).await\n}}"
        )
        .expect("a string takes everything");
        writeln!(calls, "        Box::pin(ship_{n}({n}, \"x\")),").expect("a string takes everything");
    }
    writeln!(
        source,
        "fn main() {{\n    let calls: Vec<Pin<Box<dyn Future<Output = Result<u64, LockError>>>>> = vec![\n{calls}    ];\n    \
         println!(\"{{}}\", calls.len());\n}}"
    )
    .expect("a string takes everything");
    source
}

/// Returns the CPU time that compiling the crate itself takes.
fn compile(folder: &Path, command: &str) -> Duration {
    let main = folder.join("src/main.rs");
    let source = fs::read(&main).expect("the source is there");
    fs::write(&main, source).expect("the source is touched");
    let before = children_cpu();
    let status = Command::new(env!("CARGO"))
        .args([command, "--quiet", "--offline", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        // All crates share one folder, so the dependencies are built once. Incremental compilation is off, because its
        // work would be the same for all crates and would hide the differences.
        .env("CARGO_TARGET_DIR", folder.with_file_name("target"))
        .env("CARGO_INCREMENTAL", "0")
        .status()
        .expect("cargo starts");
    assert!(status.success(), "the generated crate compiles");
    children_cpu() - before
}

/// Returns the user and system time of all children that have ended.
fn children_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("this is Linux");
    let (_, fields) = stat.rsplit_once(')').expect("the name of the process is in parentheses");
    // `cutime` and `cstime` are fields 16 and 17 of proc(5), in ticks of 10 ms. `fields` begins with field 3.
    let ticks = |field: usize| -> u64 {
        fields.split_whitespace().nth(field - 3).and_then(|text| text.parse().ok()).expect("see proc(5)")
    };
    Duration::from_millis(10 * (ticks(16) + ticks(17)))
}
