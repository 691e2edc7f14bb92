"""How sure the coefficients of the model at hand are: intervals by formula and by resampling, for the Tune page."""

from __future__ import annotations

import math
from typing import Any

from shoal.dashboard.parts import wording
from shoal.dashboard.tune.studies import OpenStudy
from shoal.errors import DamagedFile, StateError, TrainingError
from shoal.models import Array
from shoal.solve.intervals import Intervals, intervals_for
from shoal.whatif.bootstrap import Resampled, bootstrap
from shoal.whatif.courses import Question
from shoal.words import term_shown

RESAMPLES = 500


def told(study: OpenStudy, question: Question, alpha: float) -> dict[str, Any]:
    """Each way with its meaning in words; a way that cannot be gone says why."""
    setting = study.whatif.setting(question)
    names = [term_shown(term.name) for term in setting.encoding.terms]
    ways = [_formula(found) for found in intervals_for(setting.problem, question.model, alpha, question.l1_ratio)]
    found: dict[str, Any] = {"terms": names, "ways": ways}
    try:
        if study.study.drawn_from is None:
            raise StateError("Too many columns were summed to keep anything to resample from; use fewer columns.")
        drawn = bootstrap(
            setting.cells, study.study.drawn_from, question.model, alpha, question.l1_ratio, resamples=RESAMPLES
        )
    except DamagedFile:
        raise  # no answer at all: the study is made again
    except TrainingError as error:
        return {**found, "problem": wording.told(error)}
    ways.append(_resampled(drawn, names))
    if drawn.selected is not None:
        words = str(drawn.as_dict(names)["selection"]["meaning"])
        found["selection"] = {"meaning": words, "shares": _finite(drawn.selected)}
    return found


TITLES = {
    "linear": "Formula", "ridge": "Formula, ridge", "debiased": "Formula, penalty taken out",
    "desparsified": "Formula, penalty taken out",
}  # fmt: skip


def _formula(found: Intervals) -> dict[str, Any]:
    return {
        "title": TITLES.get(found.kind, "Formula"),
        "of": "Coefficient" if found.kind in ("linear", "ridge") else "Without the penalty",
        "meaning": found.meaning,
        "confidence": found.confidence,
        "estimate": _finite(found.estimate),
        "low": _finite(found.low),
        "high": _finite(found.high),
    }


def _resampled(found: Resampled, names: list[str]) -> dict[str, Any]:
    low, high = found.ends
    return {
        "title": f"{found.resamples:,} resamples",
        "meaning": str(found.as_dict(names)["meaning"]),
        "confidence": found.confidence,
        "estimate": _finite(found.estimate),
        "low": _finite(low),
        "high": _finite(high),
    }


def _finite(values: Array) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
