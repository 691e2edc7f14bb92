"""What the Tune page's address says of the model at hand, and what that means as settings of a run."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

from shoal.dashboard.parts.places import BY_PANEL
from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.runs.launch import Run
from shoal.settings.config import RunConfig
from shoal.settings.levels import levels_by_column
from shoal.settings.pairs import split_pair
from shoal.settings.text import command_line
from shoal.settings.transforms import parts_by_column
from shoal.settings.values import page_config, set_by_pages
from shoal.whatif.answers import BEST, ONE_SE, WhatIf
from shoal.whatif.cells import instead
from shoal.whatif.courses import Question

PARTS = BY_PANEL  # of the address


@dataclass(frozen=True)
class TuneState:
    """The model at hand: `predict` is empty for the study's own target, `out` are the columns without a tick."""

    predict: str = ""
    out: tuple[str, ...] = ()
    model: str = "lasso"
    ratio: float = 0.5
    alpha: str = BEST

    @classmethod
    def parse(cls, asked: Mapping[str, str]) -> TuneState:
        """From an address; what cannot be is refused."""
        return cls(
            asked.get("predict", ""),
            _names(asked.get("out", "[]")),
            asked.get("model", "lasso"),
            _ratio(asked.get("ratio", "0.5")),
            checked_alpha(asked.get("alpha", BEST)),
        )

    def question(self, whatif: WhatIf) -> Question:
        return whatif.question(self.predict or whatif.cells.base.target, self.out, self.model, self.ratio)

    def settings(self, question: Question, alpha: float) -> dict[str, Any]:
        """The knobs of a run that fits this model."""
        values: dict[str, Any] = {"target": question.target, "model": question.model}
        if question.model != "linear":
            values["alpha"] = alpha
        if question.model == "elasticnet":
            values["l1_ratio"] = question.l1_ratio
        if self.out:
            values["exclude"] = [name for name in self.out if name != question.target]
        return values

    @property
    def address(self) -> dict[str, str]:
        """Only what differs from where one begins."""
        usual = TuneState()
        said = {
            "predict": self.predict, "out": json.dumps(list(self.out)) if self.out else "", "model": self.model,
            "ratio": f"{self.ratio:g}", "alpha": self.alpha,
        }  # fmt: skip
        same = {"model": usual.model, "ratio": f"{usual.ratio:g}", "alpha": usual.alpha}
        return {part: text for part, text in said.items() if text and text != same.get(part)}


def _names(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ConfigError("Expected a list of columns without a tick in the address. Open the page again.")
    return tuple(found)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 0 <= ratio <= 1:
        raise ConfigError(f"Expected a mixing ratio from 0 to 1, got '{text[:40]}'. Move the slider.")
    return ratio


def checked_alpha(text: str) -> str:
    if text in (BEST, ONE_SE):
        return text
    place = text.removeprefix("place:")
    if place != text and place.isascii() and place.isdigit() and len(place) < 6:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"Expected alpha to be 0 or more, got '{text[:40]}'. Move the slider.")
    return text


# ------------------------------------------------------------------ as a run


def run_config(study: Run, settings: Mapping[str, Any]) -> RunConfig:
    """The study's own preparation with this model: an ordinary exact run. Squares, interactions and shapes go with
    their columns, and a target that another takes the place of is one of the columns to use."""
    before, prepared = str(study.config["target"]), set_by_pages(study.config)
    if chosen := prepared.get("features"):
        prepared["features"] = instead(chosen, before, str(settings.get("target", before)))
    config = page_config(study.config["file"], {**prepared, **settings})
    gone = {config.target, *config.exclude}
    columns = {*(study.result or {}).get("columns", ()), before, *gone}
    shapes = parts_by_column(config.transform, columns)
    lost = {part.of(name) for name in gone & set(shapes) for part in shapes[name]}
    return dataclasses.replace(
        config,
        squares=tuple(name for name in config.squares if name not in gone),
        interactions=tuple(pair for pair in config.interactions if not gone & set(split_pair(pair, columns))),
        transform=tuple(text for text in config.transform if not levels_by_column([text], columns).keys() & gone),
        reference=tuple(text for text in config.reference if not levels_by_column([text], lost)),
    )


def command_lines(study: Run, settings: Mapping[str, Any]) -> list[str] | None:
    """`shoal train` for this very model, and `shoal tune` for its curve; None where flags cannot say it."""
    config = run_config(study, settings)
    train = command_line(config)
    tune = command_line(dataclasses.replace(config, alpha=RunConfig().alpha))
    if train is None or tune is None:
        return None
    folds = ["--folds", str(study.job["folds"]), "--fold-by", str(study.job["fold_by"])]
    return [train, f"{tune.replace('shoal train', 'shoal tune', 1)} {shlex.join(folds)}"]


__all__ = ["BEST", "ONE_SE", "PARTS", "TuneState", "checked_alpha", "command_lines", "run_config"]
