"""The rows of a queue by SQL that SQLite and PostgreSQL both speak; connections, locks and transactions are theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

from shoal.queueing.jobs import FINISHED, OPEN, RUNNING, WAITING, Entry, Job, RunHost

Execute = Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]  # a statement with ? and its values, to its rows

COLUMNS = [field.name for field in fields(Job) if field.name != "after"]
SELECTED = ", ".join(f"j.{name}" for name in COLUMNS)
HOST = [field.name for field in fields(RunHost)]
READY = f"""
SELECT {SELECTED} FROM queue_jobs j
LEFT JOIN (SELECT owner, count(*) AS many FROM queue_jobs WHERE state = '{RUNNING}' GROUP BY owner) r
  ON r.owner = j.owner
LEFT JOIN queue_limits l ON l.owner = j.owner
WHERE j.state = '{WAITING}' AND j.ready_at <= ? AND j.home IN ('', ?)
  AND (l.most IS NULL OR coalesce(r.many, 0) < l.most)
  AND NOT EXISTS (SELECT 1 FROM queue_after a JOIN queue_jobs o ON o.id = a.other
                  WHERE a.job = j.id AND o.state <> '{FINISHED}')
"""
FIRST = " ORDER BY j.priority DESC, coalesce(r.many, 0), j.number LIMIT 1"


class SqlRows:
    """Statements within one transaction; `lock` is what follows a SELECT of rows that are to be changed."""

    lock, lock_free, lock_still = "", "", ""

    def __init__(self, execute: Execute, now: Callable[[], float]) -> None:
        self._execute, self.now = execute, now

    def _one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        return next(iter(self._execute(statement, values)), None)

    def _job(self, row: tuple[Any, ...] | None) -> Job | None:
        return None if row is None else job_of(row, self._after(row[0]))

    def _after(self, job: str) -> tuple[str, ...]:
        rows = self._execute("SELECT other FROM queue_after WHERE job = ? ORDER BY place", (job,))
        return tuple(str(other) for (other,) in rows)

    def get(self, job: str) -> Job | None:
        return self._job(self._one(f"SELECT {SELECTED} FROM queue_jobs j WHERE j.id = ?{self.lock}", (job,)))

    def look_at(self, jobs: Sequence[str]) -> dict[str, Job]:
        found = {}
        for name in sorted(set(jobs)):
            row = self._one(f"SELECT {SELECTED} FROM queue_jobs j WHERE j.id = ?{self.lock_still}", (name,))
            if row is not None:
                found[name] = job_of(row)
        return found

    def add(self, job: Job) -> bool:
        marks = ", ".join("?" for _ in COLUMNS)
        statement = (
            f"INSERT INTO queue_jobs ({', '.join(COLUMNS)}) VALUES ({marks}) ON CONFLICT DO NOTHING RETURNING id"
        )
        if self._one(statement, values_of(job)) is None:
            return False
        for place, other in enumerate(job.after):
            self._do("INSERT INTO queue_after (job, place, other) VALUES (?, ?, ?)", (job.id, place, other))
        return True

    def _do(self, statement: str, values: Sequence[Any]) -> None:
        self._execute(statement, values)

    def write(self, job: Job) -> None:
        setting = ", ".join(f"{name} = ?" for name in COLUMNS)
        self._do(f"UPDATE queue_jobs SET {setting} WHERE id = ?", (*values_of(job), job.id))

    def requeue(self, job: Job) -> None:
        self.write(job)
        self._do("UPDATE queue_jobs SET number = (SELECT max(number) + 1 FROM queue_jobs) WHERE id = ?", (job.id,))

    def first_ready(self, now: float, home: str) -> Job | None:
        return self._job(self._one(f"{READY}{FIRST}{self.lock_free}", (now, home)))

    def overdue(self, now: float) -> list[Job]:
        where = f"j.state = '{RUNNING}' AND j.lease_until < ? ORDER BY j.id{self.lock_free}"
        rows = list(self._execute(f"SELECT {SELECTED} FROM queue_jobs j WHERE {where}", (now,)))
        return [job_of(row, self._after(row[0])) for row in rows]

    def waiting_for(self, job: str) -> list[Job]:
        where = f"a.other = ? AND j.state = '{WAITING}' ORDER BY j.id{self.lock}"
        statement = f"SELECT {SELECTED} FROM queue_jobs j JOIN queue_after a ON a.job = j.id WHERE {where}"
        return [job_of(row, self._after(row[0])) for row in list(self._execute(statement, (job,)))]

    def note(self, entry: Entry) -> None:
        values = (entry.at, entry.job, entry.fence, entry.host, entry.event, entry.words)
        self._do("INSERT INTO queue_ledger (at, job, fence, host, event, words) VALUES (?, ?, ?, ?, ?, ?)", values)

    def trim(self, before: float) -> int:
        still, names = _among("state", OPEN)
        statement = (
            "DELETE FROM queue_ledger WHERE at < ? AND job NOT IN "
            f"(SELECT id FROM queue_jobs WHERE {still}) RETURNING number"
        )
        return len(list(self._execute(statement, [before, *names])))

    def set_limit(self, owner: str, most: int | None) -> None:
        self._do("DELETE FROM queue_limits WHERE owner = ?", (owner,))
        if most is not None:
            self._do("INSERT INTO queue_limits (owner, most) VALUES (?, ?)", (owner, most))

    def write_host(self, host: RunHost) -> None:
        setting = ", ".join(f"{name} = excluded.{name}" for name in HOST if name != "name")
        marks = ", ".join("?" for _ in HOST)
        statement = (
            f"INSERT INTO queue_hosts ({', '.join(HOST)}) VALUES ({marks}) ON CONFLICT (name) DO UPDATE SET {setting}"
        )
        self._do(statement, [getattr(host, name) for name in HOST])

    def drop_host(self, name: str, mark: str) -> None:
        self._do("DELETE FROM queue_hosts WHERE name = ? AND mark = ?", (name, mark))

    def host(self, name: str) -> RunHost | None:
        row = self._one(f"SELECT {', '.join(HOST)} FROM queue_hosts WHERE name = ?", (name,))
        return None if row is None else _host_of(row)


class SqlLooks:
    """Looks at all rows, each a statement by itself."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def jobs(self, states: Sequence[str], most: int, ids: Sequence[str] | None = None) -> list[Job]:
        which, values = _among("j.state", states)
        if ids is not None:
            named, names = _among("j.id", ids)
            which, values = f"{which} AND {named}", [*values, *names]
        order = f"WHERE {which} ORDER BY j.priority DESC, j.number LIMIT ?"
        rows = list(self._execute(f"SELECT {SELECTED} FROM queue_jobs j {order}", [*values, most]))
        after: dict[str, list[str]] = {}
        if rows:
            links = (
                "SELECT a.job, a.other FROM queue_after a JOIN queue_jobs j ON j.id = a.job "
                f"WHERE {which} ORDER BY a.job, a.place"
            )
            for job, other in self._execute(links, values):
                after.setdefault(str(job), []).append(str(other))
        return [job_of(row, tuple(after.get(row[0], ()))) for row in rows]

    def counts(self) -> dict[str, int]:
        return {str(state): int(many) for state, many in
                self._execute("SELECT state, count(*) FROM queue_jobs GROUP BY state", ())}  # fmt: skip

    def ledger(self, job: str | None) -> list[Entry]:
        where, values = ("WHERE job = ?", [job]) if job is not None else ("", [])
        statement = f"SELECT at, job, fence, host, event, words FROM queue_ledger {where} ORDER BY number"
        return [Entry(*row) for row in self._execute(statement, values)]

    def limits(self) -> dict[str, int]:
        return {str(owner): int(most) for owner, most in self._execute("SELECT owner, most FROM queue_limits", ())}

    def hosts(self) -> list[RunHost]:
        return [_host_of(row) for row in self._execute(f"SELECT {', '.join(HOST)} FROM queue_hosts ORDER BY name", ())]


def _among(column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
    return f"{column} IN ({', '.join('?' for _ in values)})", list(values)


def values_of(job: Job) -> list[Any]:
    return [getattr(job, name) for name in COLUMNS]


def job_of(row: tuple[Any, ...], after: tuple[str, ...] = ()) -> Job:
    known = dict(zip(COLUMNS, row, strict=True))
    return Job(**{**known, "stopping": bool(known["stopping"])}, after=after)


def _host_of(row: tuple[Any, ...]) -> RunHost:
    known = dict(zip(HOST, row, strict=True))
    return RunHost(**{**known, "draining": bool(known["draining"])})
