"""The commands that change a detached run, from pause and resume to delete; those that show one are in `runs`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.cli.flags import Add, add_detach, add_set, pairs, settings
from shoal.cli.runs import finish, found_run, go, of_run
from shoal.errors import ConfigError, Remedy, StateError
from shoal.home import by_beginning
from shoal.words import file_size

if TYPE_CHECKING:
    from shoal.runs.launch import Run

ANSWER = 2.0  # seconds that a command is given to be answered
POSITIONAL = {
    "kill_worker": ("rank",), "hang_worker": ("rank",), "remove_worker": ("rank",), "slow_worker": ("rank", "factor"),
    "shards": ("count",), "kill_shard": ("shard",), "add_worker": (), "pause": (), "resume": (), "stop": (),
    "checkpoint": (), "set": (),
}  # fmt: skip


def add_commands(add: Add) -> None:
    """The subcommands, each with its function."""
    finish(of_run(add("pause", help="pause a run; it keeps its workers")), _pause)
    resume = of_run(add("resume", help="go on with a run that is paused, stopped, failed or interrupted"))
    resume.add_argument("-f", "--follow", action="store_true", help="watch it")
    resume.add_argument("--engine", metavar="NAME", help="with other workers: inline, processes or ray")
    resume.add_argument("--cluster", metavar="HOST:PORT", help="on the cluster at this address, with engine ray")
    resume.add_argument("--open-cluster", action="store_true", help="which may be one that asks nobody for a token")
    finish(resume, _resume, as_json=True)
    finish(of_run(add("stop", help="stop a run; the model that it has so far is kept")), _stop)
    send = of_run(add("send", help="a command to a run: set learning_rate=0.1, kill_worker 1, slow_worker 1 4, ..."))
    send.add_argument("name", metavar="COMMAND", help=", ".join(POSITIONAL))
    send.add_argument("arguments", metavar="ARGUMENT", nargs="*")
    finish(send, _send)
    fork = of_run(add("fork", help="a new run from a checkpoint of another"))
    fork.add_argument("--from", dest="step", type=int, metavar="STEP", help="the newest checkpoint, if not given")
    add_set(fork)
    add_detach(fork)
    finish(fork, _fork, as_json=True)
    finish(of_run(add("archive", help="pack a run that has ended into one compressed file")), _archive)
    finish(of_run(add("restore", help="bring an archived run back")), _restore)
    delete = of_run(add("delete", help="remove a run that has ended, or an archived one, for good"))
    delete.add_argument("--yes", action="store_true", help="do not ask")
    finish(delete, _delete)


def arguments_of(name: str, words: Sequence[str]) -> dict[str, Any]:
    """The arguments of a command: rank=1, or the values alone where the command has an order for them."""
    plain = [word for word in words if "=" not in word]
    order = POSITIONAL.get(name)
    if plain and (not order or len(plain) > len(order)):
        if name not in POSITIONAL:
            raise ConfigError(
                f"Expected one of the commands {', '.join(POSITIONAL)}, got '{name}'. Choose one of them."
            )
        wanted = " ".join(part.upper() for part in order or ()) or "arguments such as learning_rate=0.1 or none"
        raise ConfigError(f"Expected {wanted} after '{name}', got '{' '.join(words)}'. Correct it and try again.")
    named = zip(order or (), plain, strict=False)
    return {key: _value(value) for key, value in (*named, *pairs(w for w in words if "=" in w).items())}


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


# ------------------------------------------------------------------ commands


def _pause(chosen: argparse.Namespace) -> None:
    _command(found_run(chosen.run), "pause", {})


def _stop(chosen: argparse.Namespace) -> None:
    _command(found_run(chosen.run), "stop", {})


def _send(chosen: argparse.Namespace) -> None:
    arguments = arguments_of(chosen.name, chosen.arguments)
    _command(found_run(chosen.run), chosen.name, arguments)


def _command(run: Run, name: str, arguments: dict[str, Any]) -> None:
    """Post it, wait a moment for the outcome, and say it; a refusal is an error."""
    from shoal.runs.commands import post, wait_settled

    outcome, round_ = wait_settled(run, post(run, name, arguments), ANSWER)
    if outcome is None:
        print(f"{name}: the run has not answered yet; it will act on it when it can. See: shoal show {run.id}")
    elif outcome != "done":
        raise StateError(f"The run did not do '{name}': {outcome}")
    else:
        print(f"{name}: done" + (f", in effect from round {round_:,}" if round_ is not None else ""))


def _resume(chosen: argparse.Namespace) -> int:
    from shoal.runs.launch import resume

    run = found_run(chosen.run)
    asked = {"engine": chosen.engine, "cluster": chosen.cluster, "open_cluster": chosen.open_cluster}
    elsewhere = {name: value for name, value in asked.items() if value}
    if run.state == "paused" and not elsewhere:
        _command(run, "resume", {})
    else:
        resume(run, elsewhere)
        if not chosen.follow and not chosen.json:
            print(f"run {run.id} is {run.state}. See it with: shoal show {run.id}")
    return go(run, detach=not chosen.follow, as_json=chosen.json) if chosen.follow or chosen.json else 0


def _fork(chosen: argparse.Namespace) -> int:
    from shoal.runs.launch import fork

    made = fork(found_run(chosen.run), chosen.step, settings(chosen.settings or ()))
    return go(made, chosen.detach, chosen.json)


# ------------------------------------------------------------------ archive and delete


def _archive(chosen: argparse.Namespace) -> None:
    from shoal.library.archives import archive

    path = archive(found_run(chosen.run))
    print(f"archived in {path} ({file_size(path.stat().st_size)}). Bring it back with: shoal restore {_id(path)}")


def _restore(chosen: argparse.Namespace) -> None:
    from shoal.library.archives import restore

    print(f"run {restore(_archived(chosen.run)).id} is back")


def _delete(chosen: argparse.Namespace) -> int:
    from shoal.library.archives import archive_size, delete, delete_archived, size_of

    try:
        run = found_run(chosen.run)
    except StateError:
        name = _archived(chosen.run)
        if not _sure(chosen, f"the archived run {name} ({file_size(archive_size(name))})"):
            return 1
        freed = delete_archived(name)
    else:
        name = run.id
        if not _sure(chosen, f"the run {name}, which is {run.state} ({file_size(size_of(run.directory))})"):
            return 1
        freed = delete(run)
    print(f"run {name} is deleted, {file_size(freed)} are free again")
    return 0


def _sure(chosen: argparse.Namespace, what: str) -> bool:
    """Ask, where there is somebody to ask."""
    if chosen.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError(f"Expected --yes to delete {what} without asking. Add it if you are sure.")
    return input(f"Delete {what} for good? [y/N] ").strip().lower() in ("y", "yes")


def _archived(name: str) -> str:
    """The archived run of a name, or of a beginning that only one has."""
    from shoal.library.accounts import summaries

    archived = {run.id: run.id for run in summaries(archived=True) if run.archived}
    if found := by_beginning(name, archived, "archived run"):
        return found
    raise StateError(
        f"Expected the name of an archived run, or a beginning of it, got '{name}'.",
        Remedy.run("See them", "runs --archived", "--all"),
    )


def _id(path: Path) -> str:
    return path.name.partition(".")[0]
