"""A client of another library: the locks of kazoo. Reads calls from its input, one a line, and prints the answers."""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

client = KazooClient(hosts=sys.argv[1])
client.start()
locks = {}


def lock(key):
    if key not in locks:
        locks[key] = client.Lock("/locks/" + key, "kazoo", extra_lock_patterns=["-lock-"])
    return locks[key]


for line in sys.stdin:
    call, key, *rest = line.split()
    try:
        if call == "try":
            answer = lock(key).acquire(blocking=False)
        elif call == "acquire":
            answer = lock(key).acquire(timeout=float(rest[0]))
        elif call == "contenders":
            answer = len(client.get_children("/locks/" + key))
        else:
            answer = lock(key).release()
    except LockTimeout:
        answer = "LockTimeout"
    print(answer, flush=True)
