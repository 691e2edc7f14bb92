"""The command `export`: a model file or a saved model for another program, or as a report; how is in `exports`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from shoal.cli import models as cli_models
from shoal.cli.flags import Add
from shoal.cli.printing import clear_line, print_json, said_beside
from shoal.exports.names import FORMATS, REPORT, ending
from shoal.utils import Progress


def add_commands(add: Add, progress: Callable[[bool], Progress]) -> None:
    export = add("export", help="write a model for another program, verified on 1,000 rows first")
    export.add_argument("model", metavar="MODEL", help="a model file, or a saved model: NAME or NAME:VERSION")
    export.add_argument("--to", required=True, choices=[*FORMATS, REPORT], help="the format; report is for people")
    export.add_argument(
        "--out", metavar="FILE",
        help="the file, - for standard output; if not given: beside a model file; a saved model goes to this folder",
    )  # fmt: skip
    export.add_argument(
        "--table", metavar="NAME", help="sql only: the table; named like the training file, if not given"
    )
    export.add_argument("--json", action="store_true", help="print one JSON object")
    export.set_defaults(command=lambda chosen: _export(chosen, progress(chosen.json)))


def _export(chosen: argparse.Namespace, progress: Progress) -> None:
    model = cli_models.model_path(chosen.model)
    out = chosen.out or _usual_path(chosen.model, model, chosen.to)
    if chosen.to == REPORT:
        _report(chosen, model, out, progress)
        return
    from shoal.exports import export
    from shoal.exports.base import format_named

    proof, use = export(model, chosen.to, out, chosen.table), format_named(chosen.to).use
    with said_beside(out):
        if chosen.json:
            print_json({"format": chosen.to, "out": str(out), "proof": proof.as_dict(), "use": use})
        else:
            print(f"written to {out}\n{proof}\n{use}")


def _report(chosen: argparse.Namespace, model: Path, out: str | Path, progress: Progress) -> None:
    from shoal.errors import ConfigError
    from shoal.exports import report

    if chosen.table is not None:
        raise ConfigError("Expected the name of a table with the format sql only. Leave it out.")
    notes = report(model, out, progress)
    clear_line()
    with said_beside(out):
        if chosen.json:
            print_json({"format": REPORT, "out": str(out), "notes": list(notes)})
            return
        print(f"written to {out}")
        for note in notes:
            print(f"note: {note}")


def _usual_path(named: str, model: Path, to: str) -> Path:
    """Beside a model file; the store of saved models is no place for anything else."""
    if model == Path(named):
        return model.with_name(model.stem + ending(to))
    return Path(f"{model.parent.parent.name}-{model.parent.name}{ending(to)}")
