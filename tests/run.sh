#!/usr/bin/env bash
# Runs every test of the workspace, doctests included, and says at the end how many ran on which store.
#
#   tests/run.sh [arguments for cargo test]
#
# Needs cargo and redis-server; installs redis-server where it may, and names the one command where it may not.
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

say "running the tests"
started=$SECONDS
status=0
cargo test --workspace --all-features --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?
ran=$((SECONDS - started))

say "seconds: ${built} to build, ${ran} to run"

# One row for each store. Test binaries of the package `lock-tests` are named by their store, with more words behind
# an underscore where there are several (`redis`, `redis_process`); those of the other packages that take locks do so on
# the memory store.
awk '
    function store_of(name) {
        if (name ~ /^(redis|redlock|memory|rig|simulation)(_|$)/) { sub(/_.*/, "", name); return name }
        if (name ~ /^(locks|contract_memory|observe|testing|quorum|attribute|http)$/) return "memory"
        return "none"
    }
    function finish() { if (open) { broken[store]++; print "no result: " binary } open = 0 }
    $1 == "Running" {
        finish()
        binary = $0; sub(/^.*[\/]/, "", binary); sub(/-[0-9a-f]+\)$/, "", binary)
        store = store_of(binary); open = 1
    }
    $1 == "Doc-tests" { finish(); binary = "doctests of " $2; store = "none"; open = 1 }
    /^test result: / {
        open = 0; seen[store] = 1
        match($0, /[0-9]+ passed/); passed[store] += substr($0, RSTART)
        match($0, /[0-9]+ failed/); failed[store] += substr($0, RSTART)
        match($0, /[0-9]+ ignored/); ignored[store] += substr($0, RSTART)
    }
    END {
        finish()
        count = split("redis redlock simulation memory rig none", order, " ")
        what["redis"] = "a real redis-server"; what["memory"] = "the embedded store"
        what["redlock"] = "five real redis-servers, a majority"
        what["simulation"] = "simulated servers, a majority"
        what["rig"] = "the rig itself, on a real redis-server"; what["none"] = "unit tests and doctests, no server"
        printf "\n%-10s %6s %6s %7s %7s   %s\n", "store", "tests", "passed", "failed", "ignored", ""
        for (i = 1; i <= count; i++) {
            s = order[i]
            if (!seen[s] && !broken[s]) continue
            f = failed[s] + broken[s]
            printf "%-10s %6d %6d %7d %7d   %s\n", s, passed[s] + f, passed[s], f, ignored[s], what[s]
            all_passed += passed[s]; all_failed += f; all_ignored += ignored[s]
        }
        if (all_ignored) printf "\n%d tests were IGNORED\n", all_ignored
        printf "\n%d passed, %d failed\n", all_passed, all_failed
        exit (all_failed > 0 || all_passed == 0)
    }
' "$log" || status=1

exit "$status"
