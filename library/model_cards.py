"""The card beside the model file of a saved version: made from what a run says, read back and proven."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile, StateError
from shoal.files import sealed
from shoal.results.card import ModelCard
from shoal.results.plain import Malformed

CARD = "card.json"  # in the folder of a version


def read_card(directory: Path, label: str) -> ModelCard:
    """StateError, with what to do, if it cannot be read."""
    path = directory / CARD
    try:
        return ModelCard.from_dict(sealed.read(path, CARD, sealed.never_sealed))
    except OSError as error:
        why = f"Expected the card of {label} at '{path}', got: {error.strerror}."
    except DamagedFile as error:
        why = f"The card of {label} cannot be read. {error.message}"
    except Malformed as error:
        why = f"The card of {label} is damaged ({error}): '{path}'."
    raise StateError(
        f"{why} Its model file is another and may be whole. Write a note on it to make the card anew, or delete it."
    )


def card_of(contents: Mapping[str, Any], run_id: str, result: Mapping[str, Any]) -> ModelCard:
    """What is said about a model without opening its file; `result` is what the run said at its end."""
    config, data = dict(contents.get("config") or {}), dict(contents.get("data") or {})
    said = {**contents, **result}
    plain = ("target", "model", "alpha", "l1_ratio", "train", "test", "certificate", "rows_read", "rows_dropped")
    gradient = ("mode", "epochs", "rounds", "distance_to_optimum", "converged", "cause", "penalty")
    return ModelCard.from_dict({
        **{key: said.get(key) for key in (*plain, *gradient)},
        "run": run_id, "created": time.time(), "state": said.get("state"), "solver": config.get("solver"),
        "coefficients": len(contents.get("coefficients") or {}), "seconds": (said.get("timings") or {}).get("total"),
        "data": {**data, "path": config.get("file", "")}, "config": config,
    })  # fmt: skip
