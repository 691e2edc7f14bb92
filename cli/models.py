"""The commands about saved models; how a model is applied to a file is in `tasks.predict`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.cli.flags import Add
from shoal.cli.printing import print_json, table
from shoal.results.fit import FitScores
from shoal.words import short

if TYPE_CHECKING:
    from shoal.library.saved_models import Model


def add_commands(add: Add) -> None:
    models = add("models", help="all saved models with their latest version")
    models.add_argument("--json", action="store_true", help="print one JSON object")
    models.set_defaults(command=_models)


def model_path(text: str) -> Path:
    """A file of that name, or else the model file of a saved model."""
    path = Path(text)
    if path.exists() or path.suffix == ".json" or len(path.parts) > 1:
        return path
    from shoal.library.saved_models import resolve

    return resolve(text).model_path


def _models(chosen: argparse.Namespace) -> None:
    from shoal.library.saved_models import list_models

    models = list_models()
    if chosen.json:
        print_json({"models": [_as_json(model) for model in models]})
    elif models:
        head = ("model", "version", "kind", "target", "R2", "of rows", "saved")
        table(head, [_row(model) for model in models], right={1, 4})
        for damage in filter(None, (model.latest.damage for model in models)):
            print(damage)
    else:
        print("There are no saved models yet. Every detached run that finishes saves one: shoal train --detach")


def _as_json(model: Model) -> dict[str, Any]:
    latest = model.latest
    said = latest.known.as_dict() if latest.known else {"damaged": str(latest.damage)}
    return {"name": model.name, "versions": list(model.numbers), "path": str(latest.model_path), **said}


def _row(model: Model) -> tuple[str, ...]:
    latest, card = model.latest, model.latest.known
    scores, part = card.honest if card else (FitScores(), "-")
    saved = time.strftime("%Y-%m-%d %H:%M", time.localtime(latest.created))
    return (
        model.name,
        str(latest.number),
        card.model if card else "damaged",
        latest.target or "-",
        short(scores.r2),
        part,
        saved,
    )
