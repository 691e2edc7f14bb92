"""A host for tests of queues: `python queue_worker.py KIND PLACE NAME` claims jobs, holds each for a moment, and ends it.

It ends when nothing is open any more; killed at any time, it leaves its jobs to others.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from shoal.database.connections import Database
from shoal.queueing.jobs import RunHost
from shoal.queueing.postgres import PostgresTables
from shoal.queueing.queue import Queue
from shoal.queueing.sqlite import SqliteTables

LEASE = 1.0  # seconds


def opened(kind: str, place: str) -> Queue:
    tables = SqliteTables(Path(place)) if kind == "sqlite" else PostgresTables(Database(place))
    return Queue(tables, LEASE)


def work(queue: Queue, host: RunHost) -> None:
    while queue.jobs():
        job = queue.claim(host, 2)
        if job is None:
            time.sleep(0.01)
            continue
        time.sleep(random.uniform(0, 0.02))
        if queue.heartbeat(host, {job.id: job.fence})[job.id] == "yours" and random.random() < 0.9:
            queue.finish(job.id, job.fence)
        else:
            queue.give_back(job.id, job.fence)


if __name__ == "__main__":
    kind, place, name = sys.argv[1:]
    with opened(kind, place) as queue:
        host = queue.greet(RunHost(name, 2, name))
        print("up", flush=True)
        work(queue, host)
