"""The command line: flags to config, results to tables or JSON, errors to one plain paragraph on stderr."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from config import DIALECT
from errors import ConfigError, TrainingError
from utils import THREAD_LIMITS

os.environ.update(THREAD_LIMITS)  # before NumPy is imported: the workers are the parallel part
gc.set_threshold(100_000, 50, 50)  # imports make many objects and no garbage: looking for it is a tenth of the start


SHOWN = 40  # coefficients in a table


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 only on success."""
    parser = _parser()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the terminal cannot show stop nothing
    try:
        chosen = parser.parse_args(arguments)
        chosen.command(chosen)
    except TrainingError as error:
        _clear_line()
        print(f"shoal: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        _clear_line()
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
    return 0


def _unforeseen(error: Exception) -> int:
    import traceback

    from utils import home

    log = home() / "error.log"
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


class _Parser(argparse.ArgumentParser):
    """Wrong flags are a plain sentence as well."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[:1].upper()}{message[1:]}. See 'shoal {self.prog.split(' ')[-1]} --help'.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="shoal", description="Exact linear models on CSV files of any size.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    inspect = commands.add_parser("inspect", help="what is in a file: dialect, columns, rows that cannot be read")
    inspect.add_argument("file", metavar="FILE")
    _add_knobs(inspect, {"target", "categorical", "numeric", "workers", "engine", *DIALECT})
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    inspect.set_defaults(command=_inspect)

    train = commands.add_parser("train", help="fit a model to a file")
    train.add_argument("file", metavar="FILE", nargs="?")
    _add_knobs(train, None)
    train.add_argument("--config", metavar="run.yaml", help="a YAML file with the same knobs; flags win over it")
    train.add_argument("--json", action="store_true", help="print one JSON object")
    train.set_defaults(command=_train)

    predict = commands.add_parser("predict", help="apply a model to a file")
    predict.add_argument("model", metavar="MODEL.json")
    predict.add_argument("file", metavar="FILE")
    predict.add_argument("--out", required=True, metavar="predictions.csv")
    _add_knobs(predict, {"workers", "engine", *DIALECT})
    predict.add_argument("--json", action="store_true", help="print one JSON object")
    predict.set_defaults(command=_predict)
    return parser


def _add_knobs(parser: argparse.ArgumentParser, wanted: set[str] | None) -> None:
    """A flag for every knob of the config (or those wanted); what is not given stays out of the namespace."""
    import dataclasses

    from config import RunConfig

    for knob in dataclasses.fields(RunConfig):
        if knob.name == "file" or (wanted is not None and knob.name not in wanted):
            continue
        flag = "--" + knob.name.replace("_", "-")
        help_ = knob.metadata["help"].replace("%", "%%")
        common: dict[str, Any] = {"dest": knob.name, "default": argparse.SUPPRESS, "help": help_}
        if str(knob.type).startswith("bool"):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
        else:
            parser.add_argument(
                flag, choices=knob.metadata.get("choices"), metavar=knob.metadata.get("metavar"), **common
            )


def _config(chosen: argparse.Namespace) -> Any:
    from config import RunConfig, config_from, read_yaml

    values = read_yaml(Path(chosen.config)) if getattr(chosen, "config", None) else {}
    names = RunConfig.__dataclass_fields__
    values |= {k: v for k, v in vars(chosen).items() if k in names and v is not None}
    return config_from(values)


# ------------------------------------------------------------------ progress


def _progress(quiet: bool) -> Any:
    """A bar on the terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        return lambda stage, fraction: None

    def show(stage: str, fraction: float) -> None:
        filled = int(30 * fraction)
        print(
            f"\r\x1b[2K{stage:<24} [{'#' * filled}{'.' * (30 - filled)}] {fraction:4.0%}",
            end="",
            file=sys.stderr,
            flush=True,
        )

    return show


def _print_json(found: dict[str, Any]) -> None:
    """As UTF-8 where the output takes it, else with escapes: valid JSON either way."""
    text = json.dumps(found, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(found)
    print(text)


def _clear_line() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


# ------------------------------------------------------------------ inspect


def _inspect(chosen: argparse.Namespace) -> None:
    from runs import look

    found = look(_config(chosen), _progress(chosen.json))
    _clear_line()
    if chosen.json:
        _print_json(found)
        return
    dialect = found["dialect"]
    print(f"{found['file']}: {found['rows']:,} rows, {len(found['columns'])} columns")
    print(
        f"encoding {dialect['encoding']}, delimiter {dialect['delimiter']!r}, decimal mark {dialect['decimal']!r}, "
        f"{'with' if dialect['header'] else 'no'} header"
    )
    rows = [
        (c["name"], c["type"], f"{c['missing']:,}", ("" if c["distinct_exact"] else "~") + f"{c['distinct']:,}",
         _short(c["min"]), _short(c["max"]), ", ".join(c["flags"]))
        for c in found["columns"]
    ]  # fmt: skip
    _table(("column", "type", "missing", "distinct", "min", "max", "flags"), rows, right={2, 3, 4, 5})
    bad = found["bad_rows"]
    if bad["count"]:
        print(f"\n{bad['count']:,} rows could not be read:")
        for entry in bad["first"][:10]:
            print(f"  line {entry['line']}: {entry['problem']}")
    for note in found["notes"]:
        print(f"note: {note}")


# ------------------------------------------------------------------ train


def _train(chosen: argparse.Namespace) -> None:
    from runs import train

    found = train(_config(chosen), _progress(chosen.json)).report
    _clear_line()
    if chosen.json:
        _print_json(found)
    else:
        _show_fit(found)


def _show_fit(found: dict[str, Any]) -> None:
    alpha = "" if found["alpha"] is None else f", alpha = {found['alpha']:g}"
    print(f"{found['model']} model of {found['target']}{alpha}")
    inference = found["inference"]
    head: tuple[str, ...] = ("column", "coefficient", "standardized")
    rows: list[tuple[str, ...]] = [("(intercept)", _short(found["intercept"]), "")]
    if inference:
        head += ("std. error", "t", "p", "low", "high")
        rows[0] += _worth(inference["intercept"])
    standardized = found["coefficients_standardized"]
    shown = set(sorted(standardized, key=lambda name: -abs(standardized[name]))[:SHOWN])
    for name in filter(shown.__contains__, standardized):
        row: tuple[str, ...] = (name, _short(found["coefficients"][name]), _short(standardized[name]))
        rows.append(row + (_worth(inference["coefficients"][name]) if inference else ()))
    _table(head, rows, right=set(range(1, len(head))))
    if len(shown) < len(standardized):
        print(f"(the {SHOWN} largest of {len(standardized)}, standardized; --json or --out gives all)")
    print()
    scores = [
        (
            part,
            f"{found[part]['rows']:,}",
            *(_short(found[part][k]) for k in ("r2", "adjusted_r2", "rmse", "mae")),
        )
        for part in ("train", "test")
        if found[part]["rows"]
    ]
    _table(("", "rows", "R2", "adjusted R2", "RMSE", "MAE"), scores, right={1, 2, 3, 4, 5})
    certificate = found["certificate"]
    print(
        f"\n{certificate['kind'].replace('_', ' ')} {certificate['relative']:.1e} (relative), from the "
        f"{certificate['rests_on']}; {found['rows_read']:,} rows read in {found['timings']['total']:.2f} s"
    )
    for reason, count in found["rows_dropped"].items():
        print(f"left out: {count:,} rows ({reason.replace('_', ' ')})")
    for warning in found["warnings"]:
        print(f"note: {warning}")


def _worth(estimate: dict[str, Any] | None) -> tuple[str, ...]:
    keys = ("std_error", "t", "p_value", "low", "high")
    return tuple(_short(estimate[k]) for k in keys) if estimate else ("",) * len(keys)


# ------------------------------------------------------------------ predict


def _predict(chosen: argparse.Namespace) -> None:
    from prediction import predict_file

    config = _config(argparse.Namespace(**{k: v for k, v in vars(chosen).items() if k not in ("out", "model")}))
    found = predict_file(Path(chosen.model), config, Path(chosen.out), _progress(chosen.json))
    _clear_line()
    if chosen.json:
        _print_json(found)
        return
    print(f"{found['rows']:,} predictions of {found['target']} written to {found['out']}")
    for warning in found["warnings"]:
        print(f"note: {warning}")


# ------------------------------------------------------------------ tables


def _short(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return (
            str(int(value))
            if value.is_integer() and abs(value) < 1e15
            else f"{value:.6g}"
            if math.isfinite(value)
            else "-"
        )
    return str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> None:
    widths = [max(len(str(row[i])) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        print("  ".join(cells).rstrip())


def entry() -> NoReturn:
    """`main`, and out at once: all is written and closed, and taking NumPy apart would take longer than a small fit."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    entry()
