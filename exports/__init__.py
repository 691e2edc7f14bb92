"""Models in other languages, each proven on trial rows before it is handed out; importing this loads nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.utils import Progress, silent

if TYPE_CHECKING:
    from shoal.exports.proof import Proof
    from shoal.results.model import ModelFile


def export(model: str | Path | ModelFile, to: str, out: str | Path, table: str | None = None) -> Proof:
    """Write a model (the path of its file, or what is in it) as `to`; the file is there only if it was proven."""
    from shoal.exports.proof import proven_export

    return proven_export(Path(model) if isinstance(model, str) else model, to, out, table)


def report(model: str | Path | ModelFile, out: str | Path, progress: Progress = silent) -> tuple[str, ...]:
    """Write one HTML page about a model, for people, with what its training rows say; returns what is missing in it."""
    from shoal.exports.proof import model_and_output
    from shoal.report.page import card_beside, write_report

    source = Path(model) if isinstance(model, str) else model
    card = card_beside(source) if isinstance(source, Path) else None
    return write_report(*model_and_output(source, out), card, progress)
