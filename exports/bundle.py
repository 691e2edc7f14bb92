"""A model in every format at once, each proven or refused with a sentence; one format alone is in `proof`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.errors import TrainingError
from shoal.exports import export
from shoal.exports.names import FORMATS, ending
from shoal.exports.proof import use_of
from shoal.utils import Progress

STEM = "export"  # of the files' names; whoever hands them on gives them better ones


def export_all(model: Path, folder: Path, progress: Progress) -> dict[str, Any]:
    """Written to `folder`; by format, its file with the proof, or why there is none."""
    found: dict[str, Any] = {}
    for place, to in enumerate(FORMATS):
        progress(f"writing and proving {to}", place / len(FORMATS))
        found[to] = _exported(model, to, folder / f"{STEM}{ending(to)}")
    return {"formats": found}


def _exported(model: Path, to: str, out: Path) -> dict[str, Any]:
    try:
        proof = export(model, to, out)
        return {"file": out.name, "bytes": out.stat().st_size, "proof": proof.as_dict(), "use": use_of(to, proof)}
    except TrainingError as error:
        return {"refused": str(error)}
