#!/usr/bin/env bash
# Runs every test of the workspace, doctests included. At the end it prints how many tests ran on each store, and which
# test binaries took longest.
#
#   tests/run.sh [arguments for cargo test]
#
# Needs cargo, a C compiler, redis-server, etcd with etcdctl, zookeeper, postgres with psql, pgbouncer, python3 with redis-py and
# kazoo, and a JDK with Curator. What is missing, except cargo, is installed with apt-get where that is possible; otherwise the
# script prints the command to run and stops.
#
#   LOCK_REDIS_SERVER=/path/to/server   the server to test on: another version of Redis, or Valkey
#   LOCK_POSTGRES_BIN=/path/to/bin      the programs of another version of Postgres
#   LOCK_ZOOKEEPER_JAR=/path/to.jar     the class path of another version of ZooKeeper
#   LOCK_TEST_SECONDS=1200              how long one test binary may take before it counts as hung
#   RUST_TEST_THREADS=8                 how many tests of a binary run at once
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }
fail() { echo "$*" >&2; exit 1; }

# install PACKAGE: with apt-get as root; where that is not possible, the user gets the command instead.
install() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
        fail "The tests need $1, which is not installed. On Debian or Ubuntu, run: apt-get install -y $1"
    fi
    say "Installing $1"
    "${as_root[@]}" apt-get update -q >/dev/null &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1" >/dev/null ||
        fail "apt-get could not install $1, which the tests need."
}

# Some tests compare with redis-py, a client in Python. A python3 earlier on the path may not be the one that apt-get
# installs packages for.
has_redis_py() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -I -c 'import redis' 2>/dev/null && return
    done
    return 1
}

# The same for kazoo, the client of ZooKeeper in Python.
has_kazoo() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -I -c 'import kazoo' 2>/dev/null && return
    done
    return 1
}

# rustup puts cargo here; a shell that has not read its start-up files does not find it.
command -v cargo >/dev/null || PATH="$PATH:${HOME:-}/.cargo/bin"
command -v cargo >/dev/null || fail "The tests need cargo, which is not installed; see https://rustup.rs."
# Rust needs it to link, the Lua interpreter of the simulation and a clock that tests can set are written in C.
command -v cc >/dev/null || install gcc
if [ -n "${LOCK_REDIS_SERVER:-}" ]; then
    command -v "$LOCK_REDIS_SERVER" >/dev/null ||
        fail "LOCK_REDIS_SERVER is $LOCK_REDIS_SERVER, which is not an executable file."
else
    command -v redis-server >/dev/null || install redis-server
fi
has_redis_py || install python3-redis
command -v etcd >/dev/null || install etcd-server
command -v etcdctl >/dev/null || install etcd-client
# Debian keeps the programs of the server off the path.
has_postgres() {
    local program
    for program in "${LOCK_POSTGRES_BIN:-/none}"/initdb /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$program" ] && return
    done
    command -v initdb >/dev/null
}
{ has_postgres && command -v psql >/dev/null; } || install postgresql
command -v pgbouncer >/dev/null || install pgbouncer
{ [ -e "${LOCK_ZOOKEEPER_JAR:-/usr/share/java/zookeeper.jar}" ] && command -v java >/dev/null; } || install zookeeper
has_kazoo || install python3-kazoo
# Curator, the client of ZooKeeper in Java: a test compiles a program with it.
[ -e /usr/share/java/curator-recipes.jar ] || install libcurator-recipes-java
command -v javac >/dev/null || install default-jdk-headless

export CARGO_TERM_COLOR=never
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say "Building the tests (minutes, the first time)"
started=$SECONDS
cargo test --workspace --all-features --no-run "$@" || fail "The tests do not compile; see above."
built=$((SECONDS - started))

# Tests on a real server mostly wait, so more of them than cores can run at once.
threads=$(nproc 2>/dev/null || echo 2)
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((threads > 8 ? threads : 8))}

# A test binary that hangs must fail, or the run would never end.
if command -v timeout >/dev/null; then
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${host}_RUNNER=timeout --foreground --kill-after=10 ${LOCK_TEST_SECONDS:-1200}"
fi

say "Running the tests"
started=$SECONDS
status=0
cargo test --workspace --all-features --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?
ran=$((SECONDS - started))

say "Built in ${built} s, ran in ${ran} s"

# Counts the results by store. A test binary of the package `lock-tests` has the name of its store as its first word
# (`redis`, `redis_process`). Test binaries of the other packages use the memory store, or none. A binary that is not listed in
# `store_of` fails the run: add it there.
awk '
    function store_of(name) {
        if (name ~ /^(redis|redlock|etcd|postgres|zookeeper|memory|rig|simulation)(_|$)/) { sub(/_.*/, "", name); return name }
        if (name ~ /^(locks|contract_memory|observe|testing|quorum|config|attribute|http|bare)$/) return "memory"
        if (name ~ /^(model|ui|thread_end)$/) return "none"
        print "The test binary " name " is not listed in store_of (tests/run.sh)"
        broken["none"]++
        return "none"
    }
    function finish() { if (open) { broken[store]++; print "No result: " binary " was killed, or it crashed" } open = 0 }
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
        count = split("redis redlock etcd zookeeper postgres simulation memory rig none", order, " ")
        what["redis"] = "real Redis servers"; what["memory"] = "the store inside the process"
        what["redlock"] = "a majority of five real Redis servers"
        what["etcd"] = "real etcd clusters"
        what["postgres"] = "real Postgres servers, and a pooler"
        what["zookeeper"] = "real ZooKeeper servers"
        what["simulation"] = "simulated servers"
        what["rig"] = "the test rig itself, on a real Redis server"
        what["none"] = "unit tests, models and doctests: no store"
        printf "\n%-10s %6s %6s %7s %7s   %s\n", "store", "tests", "passed", "failed", "ignored", ""
        for (i = 1; i <= count; i++) {
            s = order[i]
            if (!seen[s] && !broken[s]) continue
            f = failed[s] + broken[s]
            printf "%-10s %6d %6d %7d %7d   %s\n", s, passed[s] + f, passed[s], f, ignored[s], what[s]
            all_passed += passed[s]; all_failed += f; all_ignored += ignored[s]
        }
        printf "\nThe slowest test binaries, in seconds\n"
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
