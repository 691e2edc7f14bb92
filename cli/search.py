"""The command about searches: start, follow, list, show, continue, stop, save; the work is in `processes`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shoal.cli.flags import Add, Outline, add_files, add_knobs
from shoal.cli.printing import print_json, table
from shoal.errors import ConfigError, StateError, TrainingError
from shoal.words import short, tiny

if TYPE_CHECKING:
    from shoal.search.folder import Search
    from shoal.search.plan import Account, Trial

LOOK = 0.2  # seconds between two looks at a search that is followed
SHOWN = 30  # trials in a table, the best first
LIMITS = ("trials", "seconds", "reach", "at_once", "within", "seed", "name")
NOT_ASKED = {"solver", "tolerance", "finish_passes", "max_seconds", "patience", "out", "checkpoint_seconds", "seed",
             "keep_checkpoints", "checkpoint_strategy", "recovery", "callbacks", "penalty", "confidence"}  # fmt: skip
WORDS = {"reached": "reached it", "short": "fell short", "pruned": "given up", "diverged": "diverged",
         "failed": "failed", "running": "goes on"}  # fmt: skip


def add_commands(add: Add) -> None:
    search = add(
        "search", help="try settings of gradient runs, and find those that reach the exact optimum soonest",
        usage="shoal search FILE --target COLUMN [flags] | --continue ID | --stop ID | --show ID | --save ID | --list",
    )  # fmt: skip
    if isinstance(search, Outline):
        return
    from shoal.search.plan import PASSES
    from shoal.search.space import KNOBS, example
    from shoal.settings.config import RunConfig

    add_files(search, needed=False)
    what = search.add_argument_group("existing searches")
    what.add_argument("--list", action="store_true", help="all searches")
    what.add_argument("--show", metavar="ID", help="its trials, the best first; 'last' for the newest")
    what.add_argument("--continue", dest="go_on", metavar="ID", help="go on with one that has ended")
    what.add_argument("--stop", metavar="ID", help="stop it; it can be continued")
    what.add_argument("--save", metavar="ID", help="save the model of its best trial among the models")
    limits = search.add_argument_group("limits and goal")
    limits.add_argument("--trials", type=int, metavar="N", help="trials in all (default: 30)")
    limits.add_argument(
        "--seconds", type=float, metavar="S", help="seconds of training that a trial may take (default: 20)"
    )
    limits.add_argument("--reach", type=float, metavar="D", help="the distance to the optimum to reach (default: 1e-6)")
    limits.add_argument(
        "--within", type=float, metavar="S", help="seconds of the whole search; 0 for no limit (default: 0)"
    )
    limits.add_argument(
        "--at-once", type=int, metavar="N", help="trials at the same time; 0: as many as the cores allow (default: 0)"
    )
    limits.add_argument("--seed", type=int, metavar="N", help="the seed of the search and of its runs (default: 0)")
    limits.add_argument("--name", help="what to call the search, or the model with --save")
    tried = search.add_argument_group(
        "what is tried", "a,b,c: these values; LOW..HIGH: all between; one value: that knob is not searched"
    )
    for knob in KNOBS:
        told = RunConfig.knobs()[knob].metadata["help"].replace("%", "%%")
        tried.add_argument(f"--{knob.replace('_', '-')}", metavar=example(knob), dest=knob, help=told)
    add_knobs(search, set(RunConfig.knobs()) - set(KNOBS) - NOT_ASKED, linear=True, epochs=str(PASSES))
    search.add_argument("--detach", action="store_true", help="return at once; see it with --show")
    search.add_argument("--json", action="store_true", help="print one JSON object")
    search.set_defaults(command=_search)


def _search(chosen: argparse.Namespace) -> int:
    asked = [name for name in ("list", "show", "go_on", "stop", "save") if getattr(chosen, name)]
    asked += ["file"] if chosen.file else []
    if len(asked) != 1:
        raise ConfigError(
            "Expected a file to search on, or one of --list, --show, --continue, --stop and --save, "
            f"got {len(asked) or 'none'} of them. See 'shoal search --help'."
        )
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "list": _list, "show": _show, "go_on": _continue, "stop": _stop, "save": _save, "file": _start,
    }  # fmt: skip
    return commands[asked[0]](chosen)


# ------------------------------------------------------------------ start and follow


def _start(chosen: argparse.Namespace) -> int:
    from dataclasses import replace

    from shoal.search.folder import start
    from shoal.search.plan import PASSES, SearchPlan
    from shoal.search.space import KNOBS, chosen_space
    from shoal.settings.config import RunConfig
    from shoal.settings.meaning import understood
    from shoal.settings.values import config_from

    space, fixed = chosen_space({knob: getattr(chosen, knob) for knob in KNOBS if getattr(chosen, knob) is not None})
    given = {k: v for k, v in vars(chosen).items() if k in RunConfig.knobs() and k not in KNOBS and v is not None}
    limits = {name: value for name in LIMITS if (value := getattr(chosen, name)) is not None}
    config = config_from({"epochs": PASSES, **given, **fixed})
    understood(replace(config, solver="gradient"), {*given, "solver"})
    _check_columns(config)
    return _go(start(config, SearchPlan(space, **limits)), chosen)


def _check_columns(config: Any) -> None:
    """Before any trial: a wrong name would fail them all. The file has to be read anyway, and is then in the cache."""
    from dataclasses import replace

    from shoal.data.columns import choose_columns
    from shoal.tasks.train import coordinated

    if config.target:
        with coordinated(replace(config, solver="exact")) as coordinator:
            choose_columns(coordinator.open(config), config)


def _continue(chosen: argparse.Namespace) -> int:
    from shoal.search.folder import go_on, resolve

    return _go(go_on(resolve(chosen.go_on), chosen.trials, chosen.within), chosen)


def _go(search: Search, chosen: argparse.Namespace) -> int:
    if chosen.detach:
        if chosen.json:
            print_json({"search": search.id, "state": search.standing.state, "directory": str(search.directory)})
        else:
            print(f"search {search.id} is {search.standing.state}. See it with: shoal search --show {search.id}")
        return 0
    return _follow(search, chosen)


def _follow(search: Search, chosen: argparse.Namespace) -> int:
    """Say what comes of every trial until the search has ended; Ctrl-C stops it, a second one leaves it to itself."""
    stopped, told = False, {trial.number for trial in search.account.trials if trial.is_done}
    if not chosen.json:
        print(f"search {search.id}; Ctrl-C stops it", file=sys.stderr, flush=True)
    while True:
        try:
            active = search.is_active
            if not chosen.json:
                _say(search.account, told)
            if not active:
                break
            time.sleep(LOOK)
        except KeyboardInterrupt:
            if stopped:
                print(
                    f"shoal: the search {search.id} goes on without this terminal; it may still be stopping.",
                    file=sys.stderr,
                )
                return 130
            stopped = True
            _ask_to_stop(search)
    _end(search, chosen)
    return 130 if stopped else 0 if search.standing.state == "finished" else 1


def _ask_to_stop(search: Search) -> None:
    from shoal.search.folder import stop

    for _ in range(20):
        try:
            stop(search)
            break
        except StateError:  # its process is about to start, or it ended meanwhile
            if not search.is_active:
                break
            time.sleep(LOOK)
    print("stopping its trials; Ctrl-C again returns without waiting", file=sys.stderr, flush=True)


def _say(account: Account, told: set[int]) -> None:
    from shoal.search.space import in_words

    for trial in account.trials:
        if trial.is_done and trial.number not in told:
            told.add(trial.number)
            mark = " *" if account.best is not None and account.best.number == trial.number else ""
            text = f"trial {trial.number:>3} {WORDS[trial.state]}: {trial.cause} ({in_words(trial.knobs)}){mark}"
            print(text, file=sys.stderr, flush=True)


def _end(search: Search, chosen: argparse.Namespace) -> None:
    standing = search.standing
    state, cause = standing.state, str(standing)
    if chosen.json:
        print_json(as_json(search))
    else:
        _describe(search)
    if state in ("failed", "interrupted"):
        raise StateError(f"The search {search.id} {'failed' if state == 'failed' else 'was interrupted'}: {cause}")


# ------------------------------------------------------------------ show


def as_json(search: Search) -> dict[str, Any]:
    """What `--json` prints."""
    account, standing = search.account, search.standing
    best = account.best
    return {
        "search": search.id, "state": standing.state, "cause": str(standing), "reason": standing.reason,
        "directory": str(search.directory), "plan": search.plan.as_dict(), "config": search.folder.config,
        "best": best.number if best else None,
        **account.as_dict(),
    }  # fmt: skip


def _show(chosen: argparse.Namespace) -> int:
    from shoal.search.folder import resolve

    search = resolve(chosen.show)
    if chosen.json:
        print_json(as_json(search))
    else:
        _describe(search)
    return 0


def _describe(search: Search) -> None:
    account, standing, plan = search.account, search.standing, search.plan
    state, cause = standing.state, str(standing)
    print(f"search {search.id} is {state}" + (f": {cause}" if cause else ""))
    done = f"{account.done} of {plan.trials} trials"
    aim = f"to reach a distance of {plan.reach:g} within {plan.seconds:g} s"
    print(f"{search.title}: {done} in {account.seconds:.0f} s, {aim}")
    if not account.trials:
        return
    print()
    ranked = sorted(account.trials, key=_rank)
    table(
        ("trial", "", "seconds", "distance", "passes", "settings"),
        [_row(t) for t in ranked[:SHOWN]],
        right={0, 2, 3, 4},
    )
    if len(ranked) > SHOWN:
        print(f"(the best {SHOWN} of {len(ranked)}; --json gives all)")
    _show_best(search, account)


def _rank(trial: Trial) -> tuple[int, float, int]:
    order = {"reached": 0, "short": 1, "running": 2, "pruned": 3, "diverged": 4}.get(trial.state, 5)
    return order, trial.score if trial.score is not None else 0.0, trial.number


def _row(trial: Trial) -> tuple[str, ...]:
    from shoal.search.space import in_words

    distance = "-" if trial.distance is None else tiny(trial.distance)
    own = " (your own settings)" if trial.own else ""
    cells = (str(trial.number), WORDS.get(trial.state, trial.state), f"{trial.seconds:.3g}", distance)
    return (*cells, f"{trial.passes:.3g}", in_words(trial.knobs) + own)


def _show_best(search: Search, account: Account) -> None:
    best, own = account.best, account.own
    print()
    if account.importance:
        shares = ", ".join(f"{knob} {share:.0%}" for knob, share in list(account.importance.items())[:6])
        print(f"what matters most: {shares}")
    if best is None:
        print("No trial has finished yet.")
        return
    than = f"; your own settings: {own.cause.rstrip('.')}" if own and own.number != best.number else ""
    print(f"best: trial {best.number}, the run {best.run}: {best.cause.rstrip('.')}{than}")
    print(f"save its model with: shoal search --save {search.id}")


def _list(chosen: argparse.Namespace) -> int:
    from shoal.search.folder import list_searches

    searches = list_searches()
    if chosen.json:
        print_json({"searches": [_line(search) for search in searches]})
    elif not searches:
        print("There are no searches yet. Start one with: shoal search FILE --target COLUMN")
    else:
        rows = [_cells(_line(search)) for search in searches]
        table(("search", "state", "what", "trials", "best"), rows, right={3})
    return 0


def _line(search: Search) -> dict[str, Any]:
    account, wanted = search.account, None
    with contextlib.suppress(TrainingError):
        wanted = search.plan.trials
    return {
        "search": search.id, "state": search.standing.state, "title": search.title, "done": account.done,
        "trials": wanted, "best": account.best.cause.rstrip(".") if account.best else None,
    }  # fmt: skip


def _cells(line: dict[str, Any]) -> tuple[str, ...]:
    done = f"{line['done']}/{short(line['trials'])}"
    return line["search"], line["state"], line["title"], done, line["best"] or "-"


# ------------------------------------------------------------------ stop and save


def _stop(chosen: argparse.Namespace) -> int:
    from shoal.search.folder import resolve, stop

    search = resolve(chosen.stop)
    stop(search)
    print(f"search {search.id} is stopping its trials. Go on with: shoal search --continue {search.id}")
    return 0


def _save(chosen: argparse.Namespace) -> int:
    from shoal.search.folder import resolve, save_best

    version = save_best(resolve(chosen.save), chosen.name)
    if chosen.json:
        print_json({"model": version.name, "version": version.number, "path": str(version.model_path)})
    else:
        print(f"the model of the best trial is saved as {version.name}, version {version.number}")
    return 0
