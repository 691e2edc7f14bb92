"""The command line: flags to config, results to tables or JSON, errors to one plain paragraph on stderr."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from shoal import __version__
from shoal.cli import completion as cli_completion
from shoal.cli import dashboard as cli_dashboard
from shoal.cli import disk as cli_disk
from shoal.cli import explain as cli_explain
from shoal.cli import export as cli_export
from shoal.cli import models as cli_models
from shoal.cli import runs as cli_runs
from shoal.cli import search as cli_search
from shoal.cli import steer
from shoal.cli import tune as cli_tune
from shoal.cli.flags import STANDARD_INPUT, Parser, add_knobs, add_set, config_of, forget_pipes
from shoal.cli.printing import clear_line, literal_streams, print_json, said_beside, show_fit, table
from shoal.errors import ConfigError, TrainingError
from shoal.files.output import Output
from shoal.home import keep_private, tightened
from shoal.settings.config import DIALECT
from shoal.utils import THREAD_LIMITS
from shoal.words import plural, short

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
    parser = _parser()
    try:
        chosen = parser.parse(arguments)
        return int(chosen.command(chosen) or 0)
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


def _parser() -> Parser:
    parser = Parser(
        prog="shoal",
        description="Linear models on CSV files of any size: exact, or trained by gradient steps of many workers.",
    )
    parser.add_argument("--version", action="version", version=f"shoal {__version__}")
    add = parser.add_commands()

    inspect = add("inspect", help="what is in a file: dialect, columns, rows that cannot be read")
    inspect.add_argument("file", metavar="FILE")
    add_knobs(inspect, {"target", "categorical", "numeric", "workers", "engine", *DIALECT})
    inspect.add_argument("--all", action="store_true", help=f"print all columns, not only the first {COLUMNS}")
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    inspect.set_defaults(command=_inspect)

    train = add("train", help="fit a model to a file", usage="shoal train FILE --target COLUMN [flags]")
    train.add_argument("file", metavar="FILE", nargs="?")
    add_knobs(train, None)
    train.add_argument("--config", metavar="run.yaml", help="a YAML file with the same knobs; flags win over it")
    add_set(train)
    cli_runs.add_detach(train)
    train.add_argument("--json", action="store_true", help="print one JSON object")
    train.set_defaults(command=_train)

    predict = add("predict", help="apply a model to a file")
    predict.add_argument("model", metavar="MODEL", help="a model file, or a saved model: NAME or NAME:VERSION")
    predict.add_argument("file", metavar="FILE")
    predict.add_argument("--out", required=True, metavar="predictions.csv", help="the file; - for standard output")
    predict.add_argument(
        "--interval", type=float, metavar="LEVEL",
        help="adds the columns lower and upper: 0.9 for intervals that hold nine of ten new targets",
    )  # fmt: skip
    add_knobs(predict, {"workers", "engine", *DIALECT})
    predict.add_argument("--json", action="store_true", help="print one JSON object")
    predict.set_defaults(command=_predict)

    cli_export.add_commands(add, _progress)
    cli_tune.add_command(add, _progress)
    cli_explain.add_command(add, _progress)
    cli_runs.add_commands(add)
    steer.add_commands(add)
    cli_models.add_commands(add)
    cli_search.add_commands(add)
    cli_disk.add_commands(add)
    cli_dashboard.add_commands(add)
    cli_completion.add_commands(add, parser)
    return parser


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
    from shoal.data.notation.words import offers
    from shoal.tasks.train import look

    found = look(config_of(chosen), _progress(chosen.json))
    clear_line()
    if chosen.json:
        print_json(found)
        return
    dialect = found["dialect"]
    print(f"{found['file']}: {found['rows']:,} rows, {len(found['columns']):,} columns")
    print(
        f"encoding {dialect['encoding']}, delimiter {dialect['delimiter']!r}, decimal mark {dialect['decimal']!r}, "
        f"{'with' if dialect['header'] else 'no'} header"
    )
    shown = found["columns"] if chosen.all else found["columns"][:COLUMNS]
    rows = [
        (c["name"], c["type"], f"{c['missing']:,}", ("" if c["distinct_exact"] else "~") + f"{c['distinct']:,}",
         short(c["min"]), short(c["max"]), _remarks(c))
        for c in shown
    ]  # fmt: skip
    table(("column", "type", "missing", "distinct", "min", "max", "flags"), rows, right={2, 3, 4, 5})
    if rest := len(found["columns"]) - len(shown):
        print(f"... and {rest:,} more columns; --all prints them")
    bad = found["bad_rows"]
    if bad["count"]:
        print(f"\n{bad['count']:,} rows could not be read:")
        for entry in bad["first"][:10]:
            print(f"  line {entry['line']}: {entry['problem']}")
    for note in found["notes"]:
        print(f"note: {note}")
    for column in found["columns"]:
        for line in offers(column):
            print(f"note: {line}")


def _remarks(column: dict[str, Any]) -> str:
    return ", ".join([*column["flags"], *([f"written {column['written']}"] if column["written"] else [])])


# ------------------------------------------------------------------ train


def _train(chosen: argparse.Namespace) -> int:
    if chosen.file == STANDARD_INPUT and chosen.detach:
        raise ConfigError(
            "Expected a file for a detached run, got a pipe, which ends with this command. Save it first."
        )
    config = config_of(chosen)
    _check_apart(chosen, config.out)
    if config.solver == "gradient" or chosen.detach:
        return cli_runs.train_detached(config, detach=chosen.detach, as_json=chosen.json)
    from shoal.tasks.train import train

    found = train(config, _progress(chosen.json)).report
    clear_line()
    with said_beside(config.out):
        if chosen.json:
            print_json(found.as_dict())
        else:
            show_fit(found)
    return 0


def _check_apart(chosen: argparse.Namespace, out: str | None) -> None:
    """The settings are no place for the model either; the data are kept apart by whoever writes it."""
    if out and getattr(chosen, "config", None):
        Output(out, {"the file with the settings": chosen.config}).check()


# ------------------------------------------------------------------ predict


def _predict(chosen: argparse.Namespace) -> None:
    from shoal.tasks.predict import predict_file

    config = config_of(argparse.Namespace(**{k: v for k, v in vars(chosen).items() if k not in ("out", "model")}))
    model, progress = cli_models.model_path(chosen.model), _progress(chosen.json)
    found = predict_file(model, config, chosen.out, progress, chosen.interval)
    clear_line()
    with said_beside(chosen.out):
        if chosen.json:
            print_json(found)
        else:
            _show_predicted(found)


def _show_predicted(found: dict[str, Any]) -> None:
    made, without = found["rows"] - found["bad_rows"], found["bad_rows"]
    beside = f"; {plural(without, 'row')} without one" if without else ""
    print(f"{plural(made, 'prediction')} of {found['target']} written to {found['out']}{beside}")
    if found["half_width"] is not None:
        print(f"with intervals of {100 * found['interval']:g} %: the prediction ± {short(found['half_width'])}")
    for warning in found["warnings"]:
        print(f"note: {warning}")


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
    code = _begin() or main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    entry()
