"""Models in other languages, each proven on trial rows before it is handed out; importing this loads nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exports.proof import Proof


def export(model: Path | Mapping[str, Any], to: str, out: Path, table: str | None = None) -> Proof:
    """Write a model (the path of its file, or its contents) as `to`; the file is there only if it was proven."""
    from exports.proof import proven_export

    return proven_export(model, to, out, table)


def report(model: Path | Mapping[str, Any], out: Path) -> None:
    """Write one HTML page about a model, for people."""
    from exports.html_report import write_report
    from exports.proof import model_of

    write_report(model_of(model, out), out)
