"""The commands that start, list and show detached runs; what changes one is in `steer`, how it looks in `following`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.cli.flags import Add, config_of
from shoal.cli.printing import print_json, said_beside, show_fit, show_solver, table
from shoal.errors import ConfigError, Remedy, StateError, TrainingError
from shoal.files.output import Output
from shoal.files.parts import check_there, title
from shoal.settings.config import RunConfig
from shoal.words import duration, epochs_told, short, shortened, tiny

if TYPE_CHECKING:
    from shoal.client.service import RemoteShoal
    from shoal.library.accounts import Summary
    from shoal.library.time_spent import Spent
    from shoal.runs.launch import Run

NEWEST = 30  # runs in the list, unless all are asked for
EVENTS = 12  # in `show`


def add_commands(add: Add) -> None:
    """The subcommands, each with its function."""
    runs = add("runs", help="all detached runs and what they are doing")
    runs.add_argument(
        "words", metavar="WORD", nargs="*", help="only those with all of these words in name, file or tags"
    )
    runs.add_argument("--all", action="store_true", help=f"also those before the newest {NEWEST}")
    runs.add_argument("--archived", action="store_true", help="also those in the archive")
    finish(runs, list_here, as_json=True)
    name = of_run(add("name", help="call a run by a name of your own"))
    name.add_argument("name", metavar="NAME", help="at most 120 letters; '' for none")
    finish(name, _name)
    finish(of_run(add("show", help="one run: state, progress, workers, events, result")), _show, as_json=True)
    spent = of_run(add("profile", help="where the time of a run went, and what to change"))
    finish(spent, _profile, as_json=True)
    logs = of_run(add("logs", help="the log of a run"))
    logs.add_argument("-f", "--follow", action="store_true", help="keep printing until the run has ended")
    finish(logs, _logs)


def _profile(chosen: argparse.Namespace) -> None:
    from shoal.library.time_spent import time_spent

    spent = time_spent(found_run(chosen.run))
    if chosen.json:
        print_json(spent.as_dict())
        return
    _print_parts(f"{duration(spent.seconds)} in all", spent.stages)
    if spent.workers:
        _print_parts("of the time of all workers", spent.workers)
    for advice in spent.advice:
        print(advice)


def _print_parts(title: str, parts: Sequence[Spent]) -> None:
    rows = [[duration(part.seconds), f"{part.share:.0%}", part.name] for part in parts if part.seconds >= 0.001]
    table(["time", "share", title], rows, right={0, 1})
    print()


def of_run(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("run", metavar="RUN", help="its number or a beginning of it, its name, or 'last'")
    return parser


def finish(parser: argparse.ArgumentParser, command: Any, as_json: bool = False) -> None:
    if as_json:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=command)


# ------------------------------------------------------------------ words to values


def found_run(name: str) -> Run:
    """By the name that a person gave it (the newest of those), or by its own."""
    from shoal.library.accounts import find_named

    return find_named(name)


# ------------------------------------------------------------------ start and follow


def train_detached(config: RunConfig, detach: bool, as_json: bool, name: str = "") -> int:
    """Launch a run; unless it is left to itself, follow it to its end. Returns the exit code."""
    from shoal.cli import following  # noqa: F401 - before the launch: from then on Ctrl-C has to find somebody who follows
    from shoal.library import notes
    from shoal.runs.launch import launch as launch_run
    from shoal.tasks.train import suited_to_rows

    name = notes.checked_name(name)
    config = suited_to_rows(config)  # what rows have no way for is told here, not by a run that fails

    def launch(config: RunConfig) -> Run:
        run = launch_run(config)
        if name:
            notes.give_name(run, name)
        return run

    output = _check(config)
    if output is None or output.is_plain:
        return go(launch(config), detach, as_json)
    if detach:  # pipes of this terminal are not there for a run that is left to itself
        raise ConfigError(
            f"Expected a file to write the model of a detached run to, got '{output.name}'.",
            Remedy.choose("Name a file", "out"),
        )
    run = launch(dataclasses.replace(config, out=None))
    with said_beside(output.name):
        code = go(run, detach, as_json)
    if run.model_path.exists():
        from shoal.runs.made_files import prove_model

        output.write(prove_model(run.model_path).read_bytes())
    return code


def train_there(chosen: argparse.Namespace, there: RemoteShoal) -> int:
    """Send the file to another machine, train there, and show what came of it; the model comes here with --out."""
    from shoal.results.fit import FitReport

    config = config_of(chosen)
    output = _check(config)
    usual = RunConfig().as_dict()
    apart = {"file", "out", "target", "model"}
    knobs = {name: value for name, value in config.as_dict().items() if name not in apart and value != usual[name]}
    run = there.start(Path(config.file), config.target, config.model, name=chosen.run_name, **knobs)
    if chosen.detach:
        print_json({"run_id": run.id, "state": run.state}) if chosen.json else print(
            f"run {run.id} is {run.state} there"
        )
        return 0
    run.wait()
    if run.result is None:
        raise StateError(f"The run {run.id} {_ended(run.state)}: {run.cause}")
    if output is not None:
        run.model().save(output.name)
    report = FitReport.from_dict(run.result)
    with said_beside(config.out):
        print_json(report.as_dict()) if chosen.json else show_fit(report)
    return 0 if run.state == "finished" else 1


def _check(config: RunConfig) -> Output | None:
    """What would make the run fail at once is said before there is a run; where its model goes, if that was said."""
    config.ready()
    check_there(config.file)
    return Output(config.out, {"the file that the model is trained on": config.file}).check() if config.out else None


def go(run: Run, detach: bool, as_json: bool) -> int:
    if detach:
        if as_json:
            print_json({"run_id": run.id, "state": run.state, "directory": str(run.directory)})
        else:
            print(f"run {run.id} is {run.state}. See it with: shoal show {run.id}")
        return 0
    return _follow(run, as_json)


def _follow(run: Run, as_json: bool) -> int:
    from shoal.cli.following import Follower

    follower = Follower(run, quiet=as_json)
    if not follower.follow():
        return 130  # a second Ctrl-C: the run was left to itself
    state, cause, report = run.state, run.cause, run.report
    if report is None:
        raise StateError(f"The run {run.id} {_ended(state)}: {cause}")
    if as_json:
        print_json(report.as_dict())
    else:
        show_fit(report)
        show_solver(report)
    if state == "stopped" and follower.stopped:
        return 130
    return 0 if state == "finished" else 1  # the person's own stop rules (time, patience) finish a run


def _ended(state: str) -> str:
    return {"failed": "failed", "stopped": "was stopped", "interrupted": "was interrupted"}.get(state, f"is {state}")


# ------------------------------------------------------------------ runs


def list_here(chosen: argparse.Namespace) -> None:
    from shoal.library import accounts
    from shoal.runs.scheduling import keep_going

    keep_going()
    runs = [run for run in accounts.summaries(archived=chosen.archived) if run.has_words(chosen.words)]
    rows = [_account(run) for i, run in enumerate(runs) if chosen.all or i < NEWEST or run.is_active]
    _show_list(chosen, rows, len(runs))


def list_there(chosen: argparse.Namespace, there: RemoteShoal) -> None:
    """The same of another machine."""
    runs = [{**one, "run": one["id"], "archived": False} for one in there.runs(words=" ".join(chosen.words) or None)]
    rows = [run for i, run in enumerate(runs) if chosen.all or i < NEWEST]
    _show_list(chosen, rows, len(runs))


def _show_list(chosen: argparse.Namespace, rows: list[dict[str, Any]], count: int) -> None:
    if chosen.json:
        print_json({"runs": rows})
    elif not rows and chosen.words:
        print(
            f"No run has {' and '.join(repr(word) for word in chosen.words)} in its name, file, target, tags or note."
        )
    elif not rows:
        print("There are no runs yet. Start one with: shoal train FILE --target COLUMN --solver gradient")
    else:
        names = any(row["name"] for row in rows)
        head = (
            "run",
            *(("name",) if names else ()),
            "state",
            "model",
            "target",
            "file",
            "epochs",
            "distance",
            "started",
        )
        table(head, [_row(row, names) for row in rows], right={5 + names, 6 + names})
        if len(rows) < count:
            print(f"(the newest of {count:,}; --all shows all)")


def overview(run: Run) -> dict[str, Any]:
    """A run in one line: what it is and how far it came."""
    from shoal.library.accounts import summary_of

    return _account(summary_of(run))


def _account(run: Summary) -> dict[str, Any]:
    return {
        "run": run.id, "name": run.name, "state": run.state, "cause": run.cause, "reason": run.reason,
        "solver": run.solver, "model": run.model, "target": run.target, "file": run.file, "epochs": run.epochs,
        "distance": run.distance,
        "epochs_wanted": run.epochs_wanted, "started": run.started, "tags": list(run.tags), "archived": run.archived,
    }  # fmt: skip


def _row(row: dict[str, Any], names: bool) -> tuple[str, ...]:
    wanted, done, distance = row["epochs_wanted"], row["epochs"], row["distance"]
    epochs = "-" if wanted is None else epochs_told(done or 0.0, wanted, "/")
    name = title(row["file"] or "") or "-"
    state = f"{row['state']}, archived" if row["archived"] else row["state"]
    called = (shortened(row["name"], 40) or "-",) if names else ()
    words = (row["run"], *called, state, row["model"] or "-", row["target"] or "-", name)
    return (*words, epochs, "-" if distance is None else tiny(distance), _time(row["started"]))


def _time(at: float | None) -> str:
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _name(chosen: argparse.Namespace) -> None:
    from shoal.library import notes

    run = found_run(chosen.run)
    name = notes.give_name(run, chosen.name).name
    print(f"run {run.id} is called {name}" if name else f"run {run.id} has no name of its own any more")


# ------------------------------------------------------------------ show


def _show(chosen: argparse.Namespace) -> None:
    run = found_run(chosen.run)
    found = everything(run)
    if chosen.json:
        print_json(found)
        return
    print(f"run {run.id} is {found['state']}" + (f": {found['cause']}" if found["cause"] else ""))
    config = found["config"]
    if config:  # else it was said that it cannot be read
        print(f"{config.get('model')} model of {config.get('target')}, {config.get('file')}")
    if came := found["job"].get("forked_from"):
        print(f"forked from {came['run']} at step {came['step']}")
    pid = f", process {found['pid']}" if found["pid"] else ""
    print(f"started {_time(found['started'])}{pid}; folder {run.directory}")
    _show_training(found)
    report = run.report if found["result"] else None  # one that cannot be read is the cause above
    if report:
        print()
        show_fit(report)
        show_solver(report)


def everything(run: Run) -> dict[str, Any]:
    """What `show --json` prints."""
    found: dict[str, Any] = {
        **overview(run), "directory": str(run.directory), "pid": run.pid, "job": run.job, "config": run.config,
        "last_round": None, "workers": [], "events": [], "commands": [], "result": run.result,
    }  # fmt: skip
    if run.is_gradient:
        from shoal.runs.commands import records_told

        try:
            found |= records_told(run)
        except TrainingError as error:  # of their file; what came of the run is another one
            found["problem"] = str(error)
    return found


def _show_training(found: dict[str, Any]) -> None:
    if problem := found.get("problem"):
        print(f"note: {problem}")
    if last := found["last_round"]:
        from shoal.cli.following import describe

        print("; ".join(describe(last, found["config"].get("epochs"))))
    if found["workers"] and found["pid"]:
        print()
        head = ("worker", "state", "process", "cpu", "memory", "rows", "staleness", "wait")
        rows = [
            (str(w["rank"]), w["state"], str(w["pid"]), f"{w['cpu']:.0%}", f"{w['memory'] / 2**20:.0f} MB",
             f"{w['rows']:,}", short(w["staleness"]), f"{w['wait']:.0%}")
            for w in found["workers"]
        ]  # fmt: skip
        table(head, rows, right=set(range(2, len(head))))
    if found["events"]:
        print()
    for event in found["events"][-EVENTS:]:
        print(f"{event['seconds']:9.1f} s  {event['kind']:<10}  {event['text']}")


# ------------------------------------------------------------------ logs


def _logs(chosen: argparse.Namespace) -> int:
    run = found_run(chosen.run)
    try:
        log = (run.directory / "log.txt").open(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StateError(f"Expected the log of {run.id} in its folder, got: {error.strerror}.") from None
    with log:
        try:
            while True:
                active = run.is_active  # before the rest is read: an ended run writes no more
                sys.stdout.write(log.read())
                sys.stdout.flush()
                if not (chosen.follow and active):
                    return 0
                time.sleep(0.2)
        except KeyboardInterrupt:
            return 130
