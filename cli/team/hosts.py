"""The commands about run hosts and the queue of a team: start a host, list jobs, cancel, move, limit people."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from shoal.errors import ConfigError, StateError
from shoal.home import runs_directory
from shoal.words import duration, plural

NEWEST = 50  # jobs in the list, unless all are asked for


def add_commands(add: Callable[..., Any]) -> None:
    host = add(
        "run-host", help="take runs of the team (SHOAL_DATABASE) and do them on this machine, until it is stopped"
    )
    host.add_argument(
        "--slots", type=int, metavar="N", help="runs at a time, counted in workers; one a core if not given"
    )
    host.add_argument("--name", default="", metavar="NAME", help="what to call this host in lists")
    host.set_defaults(command=_run_host)
    queue = add("queue", help="jobs and run hosts of the team", usage="shoal queue [DEED]")
    queue.add_argument(
        "words", metavar="WORD", nargs="*",
        help="cancel RUN...; priority RUN N (higher ones first); limit PERSON N (runs at a time; or none); "
        "ledger RUN: what happened to it",
    )  # fmt: skip
    queue.add_argument("--all", action="store_true", help=f"all jobs that are open, not only the first {NEWEST}")
    queue.add_argument("--json", action="store_true", help="print one JSON object")
    queue.set_defaults(command=_queue)


def _run_host(chosen: argparse.Namespace) -> int:
    import platform

    from shoal.processes.host import main
    from shoal.queueing.homes import home_mark
    from shoal.queueing.jobs import RunHost
    from shoal.queueing.team import needed_queue
    from shoal.runs.slots import slots

    queue = needed_queue()
    if chosen.slots is not None and chosen.slots < 1:
        raise ConfigError(f"Expected --slots of at least 1, got {chosen.slots}. Give a number such as 2.")
    name = chosen.name.strip()[:120] or f"{platform.node()}-{os.getpid()}"
    host = RunHost(name, chosen.slots or slots(), os.urandom(8).hex(), home=home_mark())
    return main(queue, host, lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True))


def _queue(chosen: argparse.Namespace) -> int:
    from shoal.queueing.team import needed_queue

    queue = needed_queue()
    deed, *words = chosen.words or [""]
    deeds: dict[str, Callable[[Any, Sequence[str], bool], None]] = {
        "cancel": _cancel, "priority": _priority, "limit": _limit, "ledger": _ledger,
    }  # fmt: skip
    if not deed:
        _list(queue, chosen.all, chosen.json)
    elif deed in deeds:
        deeds[deed](queue, words, chosen.json)
    else:
        raise ConfigError(f"Expected one of cancel, priority, limit, ledger, or nothing for the list, got '{deed}'.")
    return 0


def _list(queue: Any, everything: bool, as_json: bool) -> None:
    from shoal.queueing.jobs import OPEN

    now, jobs, hosts = queue.tables.now(), queue.jobs(OPEN), queue.living_hosts()
    if as_json:
        found = {"jobs": [asdict(job) for job in jobs], "hosts": [asdict(host) for host in hosts],
                 "counts": queue.tables.counts(), "limits": queue.tables.limits(), "now": now}  # fmt: skip
        print(json.dumps(found))
        return
    homes = {one.home for one in (*jobs, *hosts) if one.home}

    def files(home: str) -> str:
        return f", home {home}" if home and len(homes) > 1 else ""

    for host in hosts:
        held = [job for job in jobs if job.host == host.name and job.state == "running"]
        ends = ", ends when they are done" if host.draining else ""
        busy = f"{plural(len(held), 'run')} on {plural(host.slots, 'slot')}"
        print(f"host {host.name}: {busy}, up for {duration(now - host.since)}{files(host.home)}{ends}")
    if not hosts:
        print("no run host is up; start one with `shoal run-host`")
    shown = jobs if everything else jobs[:NEWEST]
    for job in shown:
        where = f" at {job.host}" if job.state == "running" else ""
        tried = f", try {job.tries} of {job.allowed}" if job.tries else ""
        print(
            f"{job.id}  {job.state}{where}, {job.owner or 'nobody'}, priority {job.priority}, "
            f"{duration(now - job.put_at)} old{files(job.home)}{tried}"
        )
    if rest := len(jobs) - len(shown):
        print(f"... and {rest:,} more; --all prints them")
    elif not jobs:
        print("no job waits or is at work")


def _cancel(queue: Any, words: Sequence[str], as_json: bool) -> None:
    from shoal.runs.commands import post
    from shoal.runs.folder import Run, find_run

    if not words:
        raise ConfigError("Expected the runs to cancel: shoal queue cancel RUN...")
    for name in (_job_of(queue, word) for word in words):
        run: Run | None = find_run(name)
        if run is not None and run.is_active:
            post(run, "stop", {})
        job = queue.cancel(name)
        said = "is stopped by its host" if job.is_open else f"is {job.state}"
        print(json.dumps(asdict(job)) if as_json else f"{name} {said}")


def _job_of(queue: Any, word: str) -> str:
    """The job that a person means: by the name or the beginning of a run, or of one whose folder is not here."""
    from shoal.library.accounts import find_named

    try:
        return find_named(word).id
    except StateError:
        if queue.get(word) is None:
            raise
        return word


def _priority(queue: Any, words: Sequence[str], as_json: bool) -> None:
    from shoal.people.deeds import allow
    from shoal.people.rights import Verb

    if len(words) != 2 or not _is_number(words[1]):
        raise ConfigError("Expected a run and a whole number: shoal queue priority RUN 5")
    name = _job_of(queue, words[0])
    allow(Verb.CHANGE, runs_directory() / name, f"priority {int(words[1])}")
    job = queue.set_priority(name, int(words[1]))
    print(json.dumps(asdict(job)) if as_json else f"{job.id} has priority {job.priority}")


def _limit(queue: Any, words: Sequence[str], as_json: bool) -> None:
    from shoal.people.deeds import allow
    from shoal.people.rights import SERVICE, Verb

    if len(words) != 2 or not (_is_number(words[1]) or words[1] == "none"):
        raise ConfigError("Expected a person and a whole number, or none: shoal queue limit ann 4")
    most = None if words[1] == "none" else int(words[1])
    allow(Verb.ADMINISTER, SERVICE, f"limit of {words[0]}: {'none' if most is None else most}")
    queue.set_limit(words[0], most)
    told = "any number of runs" if most is None else plural(most, "run")
    print(json.dumps({"limits": queue.tables.limits()}) if as_json else f"{words[0]} may have {told} at a time")


def _ledger(queue: Any, words: Sequence[str], as_json: bool) -> None:
    from shoal.queueing.jobs import LEDGER_DAYS

    if len(words) != 1:
        raise ConfigError("Expected a run: shoal queue ledger RUN")
    entries = queue.tables.ledger(_job_of(queue, words[0]))
    if as_json:
        print(json.dumps([asdict(entry) for entry in entries]))
        return
    for entry in entries:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
        print(f"{at}  {entry.event}{f' at {entry.host}' if entry.host else ''}  {entry.words}".rstrip())
    if not entries:
        print(f"The ledger has nothing of {words[0]}: what is older than {LEDGER_DAYS} days is removed.")


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal() and len(text) < 9
