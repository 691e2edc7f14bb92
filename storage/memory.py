"""The records of a run in this process's memory, for tests and for runs that nobody else looks at."""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from shoal.metrics import Event, HostSample, LinkSample, Record, Round, WorkerSample
from shoal.storage.base import POINTS, Command, Storage, as_json, forward, unknown_command, writable
from shoal.storage.thinning import Bucket, chosen, newly_full, spread


class MemoryStorage(Storage):
    def __init__(self) -> None:
        self._rounds: list[Round] = []
        self._buckets: list[list[Bucket]] = [[]]  # by level, as in `thinning`
        self._workers: defaultdict[int, list[WorkerSample]] = defaultdict(list)
        self._links: dict[int, LinkSample] = {}
        self._hosts: list[HostSample] = []
        self._events: list[Event] = []
        self._commands: dict[int, Command] = {}
        self._taken = 0  # commands up to this id

    def add(self, records: Sequence[Record]) -> None:
        events = [writable(record) for record in records if isinstance(record, Event)]  # before anything is kept
        self._add_rounds(forward(record for record in records if isinstance(record, Round)))
        for record in records:
            if isinstance(record, WorkerSample):
                self._workers[record.rank].append(record)
            elif isinstance(record, LinkSample):
                self._links[record.rank] = record
            elif isinstance(record, HostSample):
                self._hosts.append(record)
        self._events += events

    def _add_rounds(self, rounds: list[Round]) -> None:
        if not rounds:
            return
        self.forget_after(rounds[0].round - 1)
        before = len(self._rounds)
        self._rounds += rounds
        self._buckets[0] += [Bucket(i, r.loss, i, r.loss) for i, r in enumerate(rounds, before)]
        for level, _, buckets in newly_full(self._look, before, len(self._rounds)):
            if level == len(self._buckets):
                self._buckets.append([])
            self._buckets[level] += buckets

    def _look(self, level: int, first: int, stop: int) -> list[Bucket]:
        return self._buckets[level][first:stop]

    def _place_after(self, round: int) -> int:
        return bisect_right(self._rounds, round, key=lambda record: record.round)

    def _thinned(self, start: int, points: int) -> list[Round]:
        return [self._rounds[place] for place in chosen(self._look, start, len(self._rounds), points)]

    def rounds(self, points: int = POINTS) -> list[Round]:
        return self._thinned(0, points)

    def rounds_since(self, round: int, limit: int = POINTS) -> list[Round]:
        return self._thinned(self._place_after(round), limit)

    def last_round(self) -> Round | None:
        return self._rounds[-1] if self._rounds else None

    def workers(self) -> list[WorkerSample]:
        return [self._workers[rank][-1] for rank in sorted(self._workers)]

    def worker_history(self, rank: int, points: int = POINTS) -> list[WorkerSample]:
        samples = self._workers.get(rank, [])
        return [samples[place] for place in spread(len(samples), points)]

    def links(self) -> list[LinkSample]:
        return [self._links[rank] for rank in sorted(self._links)]

    def hosts(self, points: int = POINTS) -> list[HostSample]:
        return [self._hosts[place] for place in spread(len(self._hosts), points)]

    def events(
        self, since: int = 0, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[tuple[int, Event]]:
        after = enumerate(self._events[max(since, 0) :], max(since, 0) + 1)
        found = [(number, event) for number, event in after if kinds is None or event.kind in kinds]
        return found[max(len(found) - max(limit, 0), 0) :]

    def forget_after(self, round: int) -> None:
        count = self._place_after(round)
        del self._rounds[count:]
        for level, buckets in enumerate(self._buckets):
            del buckets[count >> 2 * level :]

    def post(self, name: str, arguments: dict[str, Any]) -> int:
        id = len(self._commands) + 1
        self._commands[id] = Command(id, name, json.loads(as_json(arguments, f"command '{name}'")), time.time())
        return id

    def take(self) -> list[Command]:
        found = [command for command in self._commands.values() if command.id > self._taken]
        self._taken = len(self._commands)
        return found

    def settle(self, id: int, round: int, outcome: str) -> None:
        if id not in self._commands:
            raise unknown_command(id)
        self._commands[id] = replace(self._commands[id], round=round, outcome=outcome)

    def commands(self) -> list[Command]:
        return list(self._commands.values())

    def wait_at_most(self, seconds: float) -> None:
        return  # nobody else is here

    def close(self) -> None:
        pass
