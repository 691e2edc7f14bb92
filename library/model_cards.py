"""The card beside the model file of a saved version: made from what a run says, read back and proven."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile, StateError
from shoal.files import sealed
from shoal.results.card import ModelCard
from shoal.results.model import END, checksum_at_end
from shoal.results.outcome import headline_of
from shoal.results.plain import Malformed
from shoal.results.plain import plain as plain_values
from shoal.shelf.base import CARD

ANSWER = ("target", "intercept", "coefficients")  # said by a run's result and in its model file alike


class AnotherModel(StateError):
    """The model file beside a card is not the one that it is about."""


def read_card(directory: Path, label: str) -> ModelCard:
    """Of a model file and the card beside it; StateError, with what to do, if it cannot be read."""
    mark = ""
    with contextlib.suppress(OSError), (directory / "model.json").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - END))
        mark = checksum_at_end(file.read()) or ""
    return card_in(lambda name: (directory / name).read_bytes(), CARD, str(directory / CARD), mark, label)


def card_in(read: Callable[[str], bytes], document: str, where: str, mark: str, label: str) -> ModelCard:
    """Of a document that `read` gets; `mark` is the checksum that the model file names, empty if that is not known."""
    kind: type[StateError] = StateError
    try:
        card = ModelCard.from_dict(sealed.proven(read(document), where, CARD, sealed.never_sealed))
        if not (card.file_checksum and mark and mark != card.file_checksum):
            return card
        other = f"expected one for the checksum {mark}, got {card.file_checksum}"
        why = f"The card of {label} and its model file do not belong together: {other}, in '{where}'."
        kind = AnotherModel
    except OSError as error:
        why = f"Expected the card of {label} at '{where}', got: {error.strerror}."
    except DamagedFile as error:
        why = f"The card of {label} cannot be read. {error.message}"
    except Malformed as error:
        why = f"The card of {label} is damaged ({error}): '{where}'."
    raise kind(
        f"{why} Its model file is another and may be whole. Write a note on it to make the card anew, or delete it."
    )


def card_of(contents: Mapping[str, Any], run_id: str, result: Mapping[str, Any]) -> ModelCard:
    """What is said about a model without opening its file; `result` is what the run said at its end."""
    if any(result.get(name, contents.get(name)) != contents.get(name) for name in ANSWER):
        raise Malformed("its model file is of another fit than its result")
    config, data = dict(contents.get("config") or {}), dict(contents.get("data") or {})
    said = {**contents, **result}
    plain = ("target", "model", "alpha", "l1_ratio", "train", "test", "certificate", "rows_read", "rows_dropped",
             "cross_validation")  # fmt: skip
    gradient = ("mode", "epochs", "rounds", "distance_to_optimum", "converged", "cause", "penalty")
    return ModelCard.from_dict({
        **{key: said.get(key) for key in (*plain, *gradient)},
        "headline": plain_values(headline_of(said.get("outcome"))),
        "run": run_id, "created": time.time(), "state": said.get("state"), "solver": config.get("solver"),
        "coefficients": len(contents.get("coefficients") or {}), "seconds": (said.get("timings") or {}).get("total"),
        "data": {**data, "path": config.get("file", "")}, "config": config,
    })  # fmt: skip


def card_anew(model: Path, contents: Mapping[str, Any], created: float) -> ModelCard:
    """From the model file alone, of a version whose card cannot be read."""
    checksum = checksum_at_end(model.read_bytes())
    return dataclasses.replace(card_of(contents, "", {}), created=created, file_checksum=checksum)
