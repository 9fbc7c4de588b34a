#!/usr/bin/env bash
# Runs every test of the workspace, including the doctests, with several test binaries at a time. At the end it prints
# the number of tests on each store, and the test binaries that took longest.
#
#   tests/run.sh [arguments for cargo test]
#
# Needs cargo, a C compiler, redis-server, etcd with etcdctl, zookeeper, postgres with psql, pgbouncer, promtool, python3 with redis-py and
# kazoo, a JDK with Curator, Chromium with its driver, and npm for one file. What is missing, except cargo, is installed with apt-get
# where that is possible; otherwise the script prints the command to run and stops.
#
#   LOCK_REDIS_SERVER=/path/to/server   the server to test on: another version of Redis, or Valkey
#   LOCK_POSTGRES_BIN=/path/to/bin      the programs of another version of Postgres
#   LOCK_ZOOKEEPER_JAR=/path/to.jar     the class path of another version of ZooKeeper
#   LOCK_TEST_SCALE=5                   how large the tests are that compute: five times the worlds of the simulation
#   LOCK_TEST_SECONDS=1800              how long one test binary may take before it counts as hung
#   LOCK_TEST_BINARIES=2                how many test binaries that wait for servers run at once, beside one that computes
#   LOCK_TEST_AGAIN=5                   how many tests that failed beside the others run once more, alone; 0: none
#   RUST_TEST_THREADS=6                 how many tests of a binary run at once
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }
fail() { echo "$*" >&2; exit 1; }

# install PACKAGE..: installs with apt-get as root. If that is not possible, it prints the command for the user.
install() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
        fail "The tests need $*, which is not installed. On Debian or Ubuntu, run: apt-get install -y $*"
    fi
    say "Installing $*"
    "${as_root[@]}" apt-get update -q >/dev/null &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null ||
        fail "apt-get could not install $*, which the tests need."
}

command -v python3 >/dev/null || install python3

# Some tests compare with redis-py, a client in Python. The first python3 on the path may not be the one for which
# apt-get installs packages.
has_redis_py() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -I -c 'import redis' 2>/dev/null && return
    done
    return 1
}

# The same check for kazoo, the ZooKeeper client in Python.
has_kazoo() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -I -c 'import kazoo' 2>/dev/null && return
    done
    return 1
}

# rustup installs cargo in this folder. A shell without its start-up files does not find cargo there.
command -v cargo >/dev/null || PATH="$PATH:${HOME:-}/.cargo/bin"
command -v cargo >/dev/null || fail "The tests need cargo, which is not installed; see https://rustup.rs."
# Rust needs a C compiler to link. The Lua interpreter of the simulation and a clock that tests can set are written in
# C.
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
# Debian does not put the programs of the server on the path.
has_postgres() {
    local program
    for program in "${LOCK_POSTGRES_BIN:-/none}"/initdb /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$program" ] && return
    done
    command -v initdb >/dev/null
}
{ has_postgres && command -v psql >/dev/null; } || install postgresql
command -v pgbouncer >/dev/null || install pgbouncer
# promtool checks the alerting rules and the dashboard.
command -v promtool >/dev/null || install prometheus
{ [ -e "${LOCK_ZOOKEEPER_JAR:-/usr/share/java/zookeeper.jar}" ] && command -v java >/dev/null; } || install zookeeper
has_kazoo || install python3-kazoo
# A test compiles a program with Curator, the ZooKeeper client in Java.
[ -e /usr/share/java/curator-recipes.jar ] || install libcurator-recipes-java
command -v javac >/dev/null || install default-jdk-headless

# The tests of the console's page need a browser.
command -v chromedriver >/dev/null || install chromium chromium-driver
command -v npm >/dev/null || install npm
tests/axe-core.sh

export CARGO_TERM_COLOR=never
exec python3 tests/run.py "$@"
