"""The command line: flags to config, results to tables or JSON, errors to one plain paragraph on stderr."""

from __future__ import annotations

import argparse
import contextlib
import gc
import getpass
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from shoal import __version__
from shoal.cli.flags import (
    SECTIONS,
    STANDARD_INPUT,
    Add,
    Parser,
    add_detach,
    add_files,
    add_knobs,
    add_set,
    asked_for,
    config_of,
    forget_pipes,
    server_of,
)
from shoal.cli.printing import (
    clear_line,
    literal_streams,
    offers,
    print_json,
    said_beside,
    show_fit,
    show_notes,
    show_predicted,
    show_sparse,
    table,
    words_of_many,
)
from shoal.errors import ConfigError, TrainingError
from shoal.home import keep_private, tightened
from shoal.people.acting import as_person
from shoal.people.person import at_command_line
from shoal.settings.config import DIALECT, ON_CLUSTER
from shoal.tracing import spans
from shoal.utils import THREAD_LIMITS, may_fork
from shoal.words import line_told, list_items, plural, short

if TYPE_CHECKING:
    from shoal.client.service import RemoteShoal
    from shoal.results.answers.table import ColumnLook

COLUMNS = 200  # that `inspect` prints unless all are wanted

os.environ.update(THREAD_LIMITS)  # before NumPy is imported: the workers are the parallel part
gc.set_threshold(100_000, 50, 50)  # imports make many objects and no garbage: looking for it is a tenth of the start


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 only on success."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the terminal cannot show stop nothing
    with literal_streams():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    server, words = server_of(sys.argv[1:] if arguments is None else arguments)
    parser = _parser(asked_for(words))
    try:
        chosen = parser.parse(words)
        acts = as_person(at_command_line(_user()))
        with acts, spans.tracing("shoal", _say), spans.span(f"shoal {' '.join(words[:1])}"):
            return _remotely(chosen, server) if server else int(chosen.command(chosen) or 0)
    except TrainingError as error:
        clear_line()
        print(f"shoal: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        clear_line()
        print("shoal: stopped by Ctrl-C; nothing was left behind.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it ends
        return 1
    except MemoryError:
        print(
            "shoal: there is not enough memory for this. Close other programs or use fewer columns.",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        where = f"'{error.filename}'" if error.filename else "a file or device"
        print(
            f"shoal: expected to read or write {where}, got: {error.strerror}. Check it and try again.", file=sys.stderr
        )
        return 1
    except Exception as error:  # noqa: BLE001 - a person gets a sentence, whatever happened
        return _unforeseen(error)
    finally:
        forget_pipes()


def _user() -> str:
    """Whom the log of deeds names."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an unnamed user"


def _say(text: str) -> None:
    print(f"shoal: {text}", file=sys.stderr)


def _unforeseen(error: Exception) -> int:
    import traceback

    from shoal.home import error_log

    log = error_log()
    details = f"The details are in {log}; please report them."
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(traceback.format_exception(error)), "utf-8", "replace")
    except OSError:
        details = f"The details could not be written to {log}."
    print(
        f"shoal: something went wrong that was not foreseen ({type(error).__name__}: {error}). {details}",
        file=sys.stderr,
    )
    return 1


def _parser(asked: str | None = None) -> Parser:
    """All commands by name and summary, with the flags of the one that is asked for, or of all; one of those that most
    people ask for has no others beside it, whose modules are then not imported."""
    parser = Parser(
        prog="shoal",
        description="Models of CSV files of any size - linear, logistic, Poisson, gamma and more - fitted exactly or "
        "trained by gradient steps of many workers.",
    )
    parser.add_argument("--version", action="version", version=f"shoal {__version__}")
    parser.add_argument(
        "--server", metavar="URL", help="do it at this dashboard, with the token in SHOAL_TOKEN: train, predict, runs"
    )
    parser.sections = {} if asked else SECTIONS
    add = parser.add_commands(asked)
    own = {"inspect": _add_inspect, "train": _add_train, "predict": _add_predict}
    for add_own in [own[asked]] if asked in own else own.values():
        add_own(add)
    if asked not in own:
        _add_others(parser, add)
    return parser


def _add_others(parser: Parser, add: Add) -> None:
    from shoal.cli import completion, dashboard, disk, explain, models, plan, runs, search, steer, tune
    from shoal.cli.team import backups, database, hosts

    models.add_export(add, _progress)
    for with_progress in (tune, explain, plan):
        with_progress.add_command(add, _progress)
    for module in (runs, steer, models, search, disk, dashboard, backups, database, hosts):
        module.add_commands(add)
    completion.add_commands(add, parser)


def _remotely(chosen: argparse.Namespace, server: str) -> int:
    """The same at another machine, for the commands that can be done there."""
    from shoal.cli import runs as cli_runs
    from shoal.client.service import RemoteShoal

    there = {_train: cli_runs.train_there, _predict: _predict_there, cli_runs.list_here: cli_runs.list_there}
    deed = there.get(chosen.command)
    if deed is None:
        raise ConfigError("--server is for train, predict and runs. Leave it out, or use shoal.connect in Python.")
    return int(deed(chosen, RemoteShoal(server)) or 0)


def _add_inspect(add: Add) -> None:
    inspect = add("inspect", help="what is in a file: dialect, columns, rows that cannot be read")
    add_files(inspect)
    add_knobs(
        inspect, {"target", "categorical", "numeric", "workers", "engine", *ON_CLUSTER, "parts", "rules", *DIALECT}
    )
    inspect.add_argument("--all", action="store_true", help=f"print all columns, not only the first {COLUMNS}")
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    inspect.set_defaults(command=_inspect)


def _add_train(add: Add) -> None:
    train = add("train", help="fit a model to a file", usage="shoal train FILE... --target COLUMN [flags]")
    add_files(train, needed=False)
    add_knobs(train, None)
    train.add_argument("--config", metavar="run.yaml", help="a YAML file with the same knobs; flags win over it")
    add_set(train)
    add_detach(train)
    train.add_argument(
        "--name",
        dest="run_name",
        default="",
        metavar="NAME",
        help="what to call this run in lists, 120 letters at most",
    )
    train.add_argument("--json", action="store_true", help="print one JSON object")
    train.set_defaults(command=_train)


def _add_predict(add: Add) -> None:
    predict = add("predict", help="apply a model to a file")
    predict.add_argument(
        "model", metavar="MODEL", help="a model file, or a saved model: NAME, NAME:VERSION or NAME@ALIAS"
    )
    add_files(predict)
    predict.add_argument("--out", required=True, metavar="predictions.csv", help="the file; - for standard output")
    predict.add_argument(
        "--interval", type=float, metavar="LEVEL",
        help="adds the columns lower and upper: 0.9 for intervals that hold nine of ten new targets; of a yes/no model "
        "the column set, with one value or both",
    )  # fmt: skip
    predict.add_argument(
        "--keep", metavar="a,b", default="",
        help="columns of the file to put before the prediction; all for all, ids for those that look like ids",
    )  # fmt: skip
    predict.add_argument(
        "--threshold", type=float, metavar="P",
        help="yes/no models: the probability from which on a row is called yes; 0.5, the likelier value, if not given",
    )  # fmt: skip
    predict.add_argument(
        "--like-file", action="store_true",
        help="write predictions with the delimiter, decimal mark and encoding of FILE, for the spreadsheet it is from; "
        "commas, points and UTF-8 if not given",
    )  # fmt: skip
    add_knobs(predict, {"workers", "engine", *ON_CLUSTER, "parts", *DIALECT})
    predict.add_argument("--json", action="store_true", help="print one JSON object")
    predict.set_defaults(command=_predict)


# ------------------------------------------------------------------ progress


def _progress(quiet: bool) -> Any:
    """A bar on the terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        return lambda stage, fraction: None

    def show(stage: str, fraction: float) -> None:
        filled = int(30 * fraction)
        clear_line()
        print(f"{stage:<24} [{'#' * filled}{'.' * (30 - filled)}] {fraction:4.0%}", end="", file=sys.stderr, flush=True)

    return show


# ------------------------------------------------------------------ inspect


def _inspect(chosen: argparse.Namespace) -> None:
    from shoal.results.findings import FindingKind
    from shoal.tasks.train import look

    found = look(config_of(chosen), _progress(chosen.json))
    clear_line()
    if chosen.json:
        print_json(found.as_dict())
        return
    if found.sparse:
        show_sparse(found)
        return
    dialect = found.dialect
    print(f"{found.file}: {found.rows:,} rows, {len(found.columns):,} columns")
    decimal = f"{dialect['decimal']!r}{found.decimal_told}"
    written = f"encoding {dialect['encoding']}, delimiter {dialect['delimiter']!r}, decimal mark {decimal}"
    if dialect.get("sheet"):
        written = f"sheet '{dialect['sheet']}'"
    print(f"{written}, {'with' if dialect['header'] else 'no'} header")
    shown = found.columns if chosen.all else found.columns[:COLUMNS]
    rows = [
        (c.name, c.type, f"{c.missing:,}", c.different,
         short(c.min), short(c.max), _remarks(c))
        for c in shown
    ]  # fmt: skip
    table(("column", "type", "missing", "distinct", "min", "max", "flags"), rows, right={2, 3, 4, 5})
    if rest := len(found.columns) - len(shown):
        print(f"... and {rest:,} more columns; --all prints them")
    if count := found.bad_rows.lost:
        print(f"\n{plural(count, 'row')} could not be read:")
        for entry in found.bad_rows.first[:10]:
            print(f"  {line_told(entry.as_dict())}")
    many = words_of_many(found.columns)
    lost = found.bad_rows.lost > 0
    offered = (*many, *(line for column in found.columns for line in offers(column, not many, lost)))
    others = (one for one in found.findings if one.kind != FindingKind.MISSING_CODE)  # which are offered already
    show_notes((*found.notes, *offered, *others))
    if target := found.target:
        way = f" It suits --model {' or '.join((target.model, *target.others))}." if target.model else ""
        print(f"to predict: {target.why}{way}")


def _remarks(column: ColumnLook) -> str:
    return ", ".join([*column.flags, *([f"written {column.written_told}"] if column.written else [])])


# ------------------------------------------------------------------ train


def _train(chosen: argparse.Namespace) -> int:
    if chosen.file == STANDARD_INPUT and chosen.detach:
        raise ConfigError(
            "Expected a file for a detached run, got a pipe, which ends with this command. Save it first."
        )
    config = config_of(chosen)
    if config.solver == "gradient" or chosen.detach or config.register or chosen.run_name:
        from shoal.cli.runs import train_detached

        return train_detached(config, chosen.detach, chosen.json, chosen.run_name)
    from shoal.tasks.workers import make_engine

    with make_engine(config) as hired:  # what cannot be forked starts while this is imported
        from shoal.tasks.train import train

        found = train(config, _progress(chosen.json), hired=hired).report
    clear_line()
    with said_beside(config.out):
        if chosen.json:
            print_json(found.as_dict())
        else:
            show_fit(found)
    return 0


# ------------------------------------------------------------------ predict


OF_PREDICTIONS = {"out", "model", "keep", "threshold", "like_file"}  # flags that are no knobs of reading


def _predict(chosen: argparse.Namespace) -> None:
    from shoal.cli import models as cli_models
    from shoal.tasks.predict import predict_file

    config = config_of(argparse.Namespace(**{k: v for k, v in vars(chosen).items() if k not in OF_PREDICTIONS}))
    model, progress = cli_models.model_path(chosen.model), _progress(chosen.json)
    keep = [name.strip() for name in list_items(chosen.keep) if name.strip()]
    found = predict_file(model, config, chosen.out, progress, chosen.interval, keep, chosen.threshold, summed=True,
                         like_file=chosen.like_file)  # fmt: skip
    clear_line()
    not_kept = cli_models.keep_seen(model, found.seen)
    with said_beside(chosen.out):
        if chosen.json:
            print_json(found.as_dict())
        else:
            show_predicted(found)
            show_notes(filter(None, [not_kept]))


def _predict_there(chosen: argparse.Namespace, there: RemoteShoal) -> None:
    from shoal.results.answers.predictions import FilePredictions

    keep = [name.strip() for name in list_items(chosen.keep) if name.strip()]
    found = there.predict(chosen.model, chosen.file, interval=chosen.interval, keep=keep, out=chosen.out,
                          threshold=chosen.threshold, like_file=chosen.like_file)  # fmt: skip
    print_json(found) if chosen.json else show_predicted(FilePredictions.from_dict(found))


def _begin() -> int:
    """What this process makes is for its owner only; what had to be done for that is said once."""
    try:
        keep_private()
        said = tightened()
    except TrainingError as error:
        print(f"shoal: {error}", file=sys.stderr)
        return 1
    if said:
        print(f"note: {said}", file=sys.stderr)
    return 0


def entry() -> NoReturn:
    """`main`, and out at once: all is written and closed, and taking NumPy apart would take longer than a small fit."""
    with may_fork():
        code = _begin() or main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    entry()
