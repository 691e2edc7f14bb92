"""Whose tables, runs and models are, and who sees them, for programs; what it means is in `people.rights`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.dashboard.api.datasets import table_of
from shoal.dashboard.api.models import model_of
from shoal.dashboard.api.operations import ApiRequest, Given, Operation
from shoal.dashboard.api.runs import run_named
from shoal.home import models_directory
from shoal.people import deeds
from shoal.people.belongings import thing_at

Place = Callable[[ApiRequest], Path]


def operations() -> list[Operation]:
    """Two for each kind: look, and say."""
    found = []
    for kind, (path, place) in PLACES.items():
        whole = f"{path}/sharing"
        found += [
            Operation("GET", whole, f"get{kind}Sharing", "Whose it is, and whether others see it", _looking(place),
                      {200: "Sharing"}, problems=(404,)),
            Operation("PUT", whole, f"share{kind}", "Let others see what is yours, or not", _saying(place),
                      {200: "Sharing"}, "write", "Share", problems=(404, 409, 507)),
        ]  # fmt: skip
    return found


def _dataset(asked: ApiRequest) -> Path:
    return table_of(asked.path["dataset"]).path


def _run(asked: ApiRequest) -> Path:
    return run_named(asked.path["run"]).directory


def _model(asked: ApiRequest) -> Path:
    return models_directory() / model_of(asked).name


PLACES: dict[str, tuple[str, Place]] = {
    "Dataset": ("/datasets/{dataset}", _dataset), "Run": ("/runs/{run}", _run), "Model": ("/models/{model}", _model),
}  # fmt: skip


def said(path: Path) -> dict[str, Any]:
    thing = thing_at(path)
    return {"owners": sorted(thing.owners), "private": thing.private}


def _looking(place: Place) -> Callable[[ApiRequest], Given]:
    return lambda asked: Given(said(place(asked)))


def _saying(place: Place) -> Callable[[ApiRequest], Given]:
    def say(asked: ApiRequest) -> Given:
        path = place(asked)
        deeds.share(path, bool(asked.body["private"]))
        return Given(said(path))

    return say
