#!/usr/bin/env bash
# Runs every test of the workspace, doctests included, and says at the end how many ran on which store, and what took
# the time.
#
#   tests/run.sh [arguments for cargo test]
#
# Needs cargo and redis-server; installs redis-server where it may, and names the one command where it may not.
# LOCK_REDIS_SERVER=/path/to/server runs the tests on that one: another version, or Valkey.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

# Where rustup puts it when the shell's start-up files were not read.
command -v cargo >/dev/null || PATH="$PATH:${HOME:-}/.cargo/bin"
if ! command -v cargo >/dev/null; then
    echo "cargo is not installed; see https://rustup.rs" >&2
    exit 1
fi

need_redis() {
    if [ -n "${LOCK_REDIS_SERVER:-}" ]; then
        command -v "$LOCK_REDIS_SERVER" >/dev/null && return
        echo "LOCK_REDIS_SERVER is $LOCK_REDIS_SERVER, which is no program" >&2
        exit 1
    fi
    command -v redis-server >/dev/null && return
    local root=()
    [ "$(id -u)" = 0 ] || root=(sudo -n)
    if command -v apt-get >/dev/null && "${root[@]}" true 2>/dev/null; then
        say "installing redis-server"
        "${root[@]}" apt-get update -q >/dev/null
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q redis-server >/dev/null
    else
        echo "redis-server is not installed; run: apt-get install -y redis-server" >&2
        exit 1
    fi
}
need_redis

export CARGO_TERM_COLOR=never
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say "building the tests"
started=$SECONDS
if ! cargo test --workspace --all-features --no-run "$@"; then
    echo "the tests do not build" >&2
    exit 1
fi
built=$((SECONDS - started))

# Tests on a real server wait far more than they compute.
threads=$(nproc 2>/dev/null || echo 2)
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((threads > 8 ? threads : 8))}

# A test binary that hangs is a failure, and not a run without an end.
if command -v timeout >/dev/null; then
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${host}_RUNNER=timeout --foreground --kill-after=10 ${LOCK_TEST_SECONDS:-1200}"
fi

say "running the tests"
started=$SECONDS
status=0
cargo test --workspace --all-features --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?
ran=$((SECONDS - started))

say "seconds: ${built} to build, ${ran} to run"

# One row for each store. Test binaries of the package `lock-tests` are named by their store, with more words behind
# an underscore where there are several (`redis`, `redis_process`); those of the other packages that take locks do so on
# the memory store. One that is not known here fails the run: say where it belongs.
awk '
    function store_of(name) {
        if (name ~ /^(redis|redlock|memory|rig|simulation)(_|$)/) { sub(/_.*/, "", name); return name }
        if (name ~ /^(locks|contract_memory|observe|testing|quorum|attribute|http)$/) return "memory"
        if (name ~ /^(model|ui|thread_end)$/) return "none"
        print "tests/run.sh does not know the store of the test binary " name
        broken["none"]++
        return "none"
    }
    function finish() { if (open) { broken[store]++; print "no result: " binary } open = 0 }
    function slowest(  name, longest) {
        for (name in took) if (took[name] > took[longest] || longest == "") longest = name
        return longest
    }
    $1 == "Running" {
        finish()
        binary = $0; sub(/^.*[\/]/, "", binary); sub(/-[0-9a-f]+\)$/, "", binary)
        if ($2 == "unittests") { store = "none"; binary = binary " (unit tests)" } else store = store_of(binary)
        open = 1
    }
    $1 == "Doc-tests" { finish(); binary = "doctests of " $2; store = "none"; open = 1 }
    /^test result: / {
        open = 0; seen[store] = 1
        match($0, /[0-9]+ passed/); passed[store] += substr($0, RSTART)
        match($0, /[0-9]+ failed/); failed[store] += substr($0, RSTART)
        match($0, /[0-9]+ ignored/); ignored[store] += substr($0, RSTART)
        if (match($0, /finished in [0-9.]+/)) took[binary] += substr($0, RSTART + 12)
    }
    END {
        finish()
        count = split("redis redlock simulation memory rig none", order, " ")
        what["redis"] = "a real redis-server"; what["memory"] = "the embedded store"
        what["redlock"] = "five real redis-servers, a majority"
        what["simulation"] = "simulated servers, a majority"
        what["rig"] = "the rig itself, on a real redis-server"
        what["none"] = "unit tests, models and doctests, no server"
        printf "\n%-10s %6s %6s %7s %7s   %s\n", "store", "tests", "passed", "failed", "ignored", ""
        for (i = 1; i <= count; i++) {
            s = order[i]
            if (!seen[s] && !broken[s]) continue
            f = failed[s] + broken[s]
            printf "%-10s %6d %6d %7d %7d   %s\n", s, passed[s] + f, passed[s], f, ignored[s], what[s]
            all_passed += passed[s]; all_failed += f; all_ignored += ignored[s]
        }
        printf "\nseconds for each test binary, the longest first\n"
        for (i = 1; i <= 10 && (name = slowest()) != ""; i++) {
            printf "%8.1f  %s\n", took[name], name
            delete took[name]
        }
        if (all_ignored) printf "\n%d tests were IGNORED\n", all_ignored
        printf "\n%d passed, %d failed\n", all_passed, all_failed
        exit (all_failed > 0 || all_passed == 0)
    }
' "$log" || status=1

exit "$status"
