"""Builds the tests once, runs several test binaries at a time, and counts the results by store. `run.sh` calls it.

`cargo test` determines what runs, with which arguments and in which environment. It hands each test binary to a runner,
which is this file: it writes the call down instead of making it. The calls are then made from here, several at a time,
while cargo compiles and runs the doctests.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve()
QUEUE = "LOCK_TEST_QUEUE"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2

# The longest time of one test binary, before it counts as hung.
LIMIT = float(os.environ.get("LOCK_TEST_SECONDS", 1800))

# The largest number of failed tests that run once more, alone. If more tests fail, they have a common cause.
AGAIN = int(os.environ.get("LOCK_TEST_AGAIN", 5))

# The binaries that compute. One of them runs at a time, next to binaries that mostly wait for servers. After the last of
# them, one more of the others runs.
COMPUTING = ["simulation", "messages", "model"]
# The number of waiting binaries that run at a time.
WAITING = int(os.environ.get("LOCK_TEST_BINARIES", max(2, min(CORES, 4))))
# The binaries that take longest start first.
LONGEST = ["postgres", "zookeeper", "etcd", "console_browser", "lockctl", "soak", "redis_cluster", "redis", "redlock",
           "redis_process", "redlock_cases", "redis_cases", "redis_sentinel", "locks"]

# The stores, in the order in which they are printed.
STORES = {
    "redis": "real Redis servers",
    "redlock": "a majority of five real Redis servers",
    "etcd": "real etcd clusters",
    "zookeeper": "real ZooKeeper servers",
    "postgres": "real Postgres servers, and a pooler",
    "simulation": "simulated servers",
    "memory": "the store inside the process",
    "console": "the page of the console in a browser, on two stores",
    "lockctl": "the program `lockctl`, on four stores",
    "soak": "each store, with keys that are used once",
    "rig": "the test rig itself, on a real Redis server",
    "none": "unit tests, models and doctests: no store",
}
MEMORY = "locks contract_memory observe testing quorum config attribute http http_console bare".split()
NONE = "model messages thread_end lock_core lock_macros lock_axum lock_tests import_worker scheduler".split()


def store_of(name):
    """Returns the store of a test binary. One of the package `lock-tests` has the name of its store as its first word
    (`redis`, `redis_process`); those of the other packages use the memory store, or none."""
    if name in MEMORY:
        return "memory"
    if name in NONE or name.startswith("doctests of "):
        return "none"
    word = name.split("_")[0]
    return word if word in STORES else None


class Binary:
    """A test binary: its call as cargo would have made it, its output, and what it took."""

    def __init__(self, call):
        self.call = call
        self.name = re.sub(r"-[0-9a-f]+$", "", Path(call["argv"][0]).name)
        self.output, self.status, self.took, self.cpu = "", 0, 0.0, 0.0

    def title(self):
        package = self.call["env"].get("CARGO_PKG_NAME", "")
        return self.name if package in ("", "lock-tests") else f"{self.name} ({package})"

    def alone(self, test):
        """Returns the same binary with one test."""
        call = {**self.call, "argv": [*self.call["argv"], "--exact", test]}
        return Binary(call)

    def run(self):
        """Runs it to its end, or kills it after the limit."""
        started = time.monotonic()
        with tempfile.TemporaryFile() as file:
            child = subprocess.Popen(
                self.call["argv"], cwd=self.call["cwd"], env=self.call["env"],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )
            killer = threading.Timer(LIMIT, os.kill, (child.pid, 9))
            killer.start()
            _, status, usage = os.wait4(child.pid, 0)
            killer.cancel()
            child.returncode = self.status = os.waitstatus_to_exitcode(status)
            self.took, self.cpu = time.monotonic() - started, usage.ru_utime + usage.ru_stime
            file.seek(0)
            self.output = file.read().decode(errors="replace")


class Results:
    """What has ended, by store."""

    def __init__(self):
        self.counts = {}
        self.took = []
        self.failures = []
        # The tests that failed while others ran: the binary and the name.
        self.beside = []
        # The tests among them that passed alone.
        self.unsteady = []
        self.lock = threading.Lock()

    def add(self, name, title, output, status, took=0.0, cpu=0.0, binary=None):
        """Counts one output, and prints it whole."""
        with self.lock:
            print(f"\n     Running {title}", flush=True)
            sys.stdout.write(output)
            store = store_of(name)
            count = self.counts.setdefault(store or "none", Counter())
            lines = re.findall(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", output, re.M)
            for passed, failed, ignored in lines:
                count.update(passed=int(passed), failed=int(failed), ignored=int(ignored))
            failed = re.findall(r"^test (.+?)(?: - should panic)? \.\.\. FAILED$", output, re.M)
            self.failures += [f"{title}: {test}" for test in failed]
            wrong = None
            if store is None:
                wrong = f"The test binary {name} is not listed in store_of ({HERE.name})"
            elif status != 0 and (not lines or not any(int(failed) for _, failed, _ in lines)):
                hung = f", which takes longer than LOCK_TEST_SECONDS, {LIMIT:.0f} s" if took >= LIMIT else ""
                wrong = f"No result: {title} was killed{hung}, or it crashed (status {status})"
            if binary and not wrong:
                self.beside += [(binary, test) for test in failed]
            if wrong:
                print(wrong)
                count["failed"] += 1
                self.failures.append(wrong)
            if took:
                self.took.append((took, cpu, title))
            sys.stdout.flush()

    def again(self):
        """Runs the tests that failed beside the others once more, one at a time: a machine that is too busy makes some
        fail, and a fault fails alone too. Both results are printed."""
        if len(self.beside) > AGAIN:
            return
        for binary, test in self.beside:
            alone = binary.alone(test)
            alone.run()
            print(f"\n     Running {binary.title()} again, {test} alone")
            sys.stdout.write(alone.output)
            if alone.status == 0 and re.search(r"^test result: ok\. 1 passed", alone.output, re.M):
                failure = f"{binary.title()}: {test}"
                self.failures.remove(failure)
                self.unsteady.append(failure)
                self.counts[store_of(binary.name)].update(passed=1, failed=-1)

    def report(self):
        """Prints the table, and returns whether all is well."""
        print(f"\n{'store':<10} {'tests':>6} {'passed':>6} {'failed':>7} {'ignored':>7}")
        total = Counter()
        for store, what in STORES.items():
            if count := self.counts.get(store):
                passed, failed, ignored = count["passed"], count["failed"], count["ignored"]
                print(f"{store:<10} {passed + failed:6} {passed:6} {failed:7} {ignored:7}   {what}")
                total.update(count)
        print("\nThe slowest test binaries: seconds, and seconds of CPU time")
        for took, cpu, title in sorted(self.took, reverse=True)[:12]:
            print(f"{took:8.1f} {cpu:8.1f}  {title}")
        if self.unsteady:
            print("\nFailed beside the others, and passed alone: see above whether the machine was busy")
            print("\n".join(f"  {failure}" for failure in self.unsteady))
        if self.failures:
            print("\nFailed")
            print("\n".join(f"  {failure}" for failure in self.failures))
        if total["ignored"]:
            print(f"\n{total['ignored']} tests were IGNORED")
        print(f"\n{total['passed']} passed, {total['failed']} failed", flush=True)
        return not self.failures and total["failed"] == 0 and total["passed"] > 0


def enqueue(argv):
    """Is called by cargo for each test binary, and by rustdoc for each doctest. Only the former wait for their turn."""
    if Path(argv[0]).parent.name not in ("deps", "examples"):
        try:
            return subprocess.run(argv, timeout=LIMIT).returncode
        except subprocess.TimeoutExpired:
            return 124
    environment = {name: value for name, value in os.environ.items() if name != QUEUE}
    call = {"argv": argv, "cwd": os.getcwd(), "env": environment}
    part = Path(os.environ[QUEUE], f"{time.time_ns()}.part")
    part.write_text(json.dumps(call))
    part.rename(part.with_suffix(".json"))
    return 0


def environment_of_cargo(directory):
    """Returns the environment in which cargo calls this file as the runner of test binaries."""
    # The name of a runner must not contain spaces, so the PATH is used to find it.
    runner = Path(directory, "lock-test-runner")
    runner.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}" --enqueue "$@"\n')
    runner.chmod(0o755)
    about = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    host = re.search(r"^host: (.+)$", about, re.M).group(1).upper().replace("-", "_")
    # Tests on a real server mostly wait, so more of them than cores can run at once.
    threads = os.environ.get("RUST_TEST_THREADS", str(max(6, CORES)))
    return {
        **os.environ,
        QUEUE: directory,
        "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}",
        f"CARGO_TARGET_{host}_RUNNER": runner.name,
        "RUST_TEST_THREADS": threads,
    }


class Cargo:
    """`cargo test`, which queues the binaries and runs the doctests."""

    def __init__(self, arguments, directory):
        command = ["cargo", "test", "--workspace", "--all-features", "--no-fail-fast", *arguments]
        self.process = subprocess.Popen(
            command, env=environment_of_cargo(directory), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        # This event is set when all binaries are in the queue: when the first doctests begin, or at the end.
        self.queued = threading.Event()

    def follow(self, results):
        """Reads its output to the end, and counts the doctests."""
        name, lines, other, failed = None, [], [], results.counts
        for line in self.process.stdout:
            found = re.match(r"\s+Doc-tests (\S+)$", line)
            if found:
                self.queued.set()
                if name:
                    results.add(name, name, "".join(lines), 0)
                name, lines = f"doctests of {found.group(1)}", []
            elif not re.match(r"\s+(Running|Finished|Executable|Blocking) ", line):
                (lines if name else other).append(line)
        status = self.process.wait()
        self.queued.set()
        if name:
            results.add(name, name, "".join(lines), status)
        elif status != 0:
            results.add("doctests of no crate", "cargo test", "".join(other), status)


def work(queues, lock, results):
    """Runs one binary after the other, until all queues are empty. Takes each from the first queue that has one."""
    while True:
        with lock:
            queue = next(filter(None, queues), None)
            if queue is None:
                return
            binary = queue.pop(0)
        binary.run()
        results.add(binary.name, binary.title(), binary.output, binary.status, binary.took, binary.cpu, binary)


def run(arguments):
    """Runs everything, and returns whether all is well."""
    results = Results()
    with tempfile.TemporaryDirectory(prefix="lock-tests-") as directory:
        cargo = Cargo(arguments, directory)
        follower = threading.Thread(target=cargo.follow, args=(results,))
        follower.start()
        cargo.queued.wait()
        calls = [json.loads(file.read_text()) for file in sorted(Path(directory).glob("*.json"))]
        binaries = [Binary(call) for call in calls]
        rank = {name: number for number, name in enumerate([*COMPUTING, *LONGEST])}
        binaries.sort(key=lambda binary: rank.get(binary.name, len(rank)))
        computing = [binary for binary in binaries if binary.name in COMPUTING]
        waiting = [binary for binary in binaries if binary.name not in COMPUTING]
        for binary in computing:
            # With fewer threads they would end last, and everything would wait for them.
            binary.call["env"]["RUST_TEST_THREADS"] = os.environ.get("RUST_TEST_THREADS", str(CORES))
        lock = threading.Lock()
        workers = [
            threading.Thread(target=work, args=(queues, lock, results), daemon=True)
            for queues in [[computing, waiting]] + [[waiting]] * WAITING
        ]
        for thread in workers:
            thread.start()
        for thread in [*workers, follower]:
            thread.join()
    results.again()
    return results


def main(arguments):
    if arguments[:1] == ["--enqueue"]:
        return enqueue(arguments[1:])
    os.chdir(HERE.parent.parent)
    print("\n== Building the tests (minutes, the first time)", flush=True)
    started = time.monotonic()
    build = ["cargo", "test", "--workspace", "--all-features", "--no-run", *arguments]
    if subprocess.run(build).returncode != 0:
        print("The tests do not compile; see above.", file=sys.stderr)
        return 1
    built = time.monotonic()
    print("\n== Running the tests", flush=True)
    results = run(arguments)
    print(f"\n== Built in {built - started:.0f} s, ran in {time.monotonic() - built:.0f} s")
    return 0 if results.report() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
