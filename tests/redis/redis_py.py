"""Locks of redis-py on the server at `argv[1]`, a port. Each line of the input is one call; one line answers it.

acquire KEY LEASE WAIT   `True` or `False`; LEASE and WAIT in seconds
release KEY              `None`, or the name of the exception
extend KEY SECONDS       `True`, or the name of the exception
owned KEY                `True` or `False`
count KEY TIMES          adds 1 to `counter`, without INCR, so many times, each under the lock; `done`
"""

import sys

import redis

client = redis.Redis(port=int(sys.argv[1]), decode_responses=True)
locks = {}


def acquire(key, lease, wait):
    locks[key] = client.lock(key, timeout=float(lease), sleep=0.005, blocking_timeout=float(wait))
    return locks[key].acquire()


def release(key):
    return locks[key].release()


def extend(key, seconds):
    return locks[key].extend(float(seconds))


def owned(key):
    return locks[key].owned()


def count(key, times):
    for _ in range(int(times)):
        with client.lock(key, timeout=30, sleep=0.005):
            seen = int(client.get("counter") or 0)
            client.set("counter", seen + 1)
    return "done"


calls = {"acquire": acquire, "release": release, "extend": extend, "owned": owned, "count": count}
for line in sys.stdin:
    name, *arguments = line.split()
    try:
        answer = calls[name](*arguments)
    except redis.exceptions.LockError as error:
        answer = type(error).__name__
    print(answer, flush=True)
