"""What a model that is trained from the Tune page keeps of what the page has shown of it."""

from __future__ import annotations

import math

from shoal.results.tuned import BY_HAND, CrossValidated
from shoal.whatif.answers import BEST, ONE_SE, WhatIf
from shoal.whatif.courses import Question


def kept(whatif: WhatIf, question: Question, alpha: float, chosen: str) -> CrossValidated:
    """Its error over the folds, worked out here: what a browser says counts only where the curve agrees."""
    point, course, choice = whatif.point(question, alpha), whatif.ready(question), whatif.cells.choice
    marks = {} if course is None else {BEST: course.cv.best, ONE_SE: course.cv.one_se}
    named = {name: float(course.alphas[place]) for name, place in marks.items()} if course is not None else {}
    right = chosen if chosen in named and named[chosen] == alpha else BY_HAND
    return CrossValidated(
        choice.count, choice.text, right, _known(point.cv_mean), _known(point.cv_se), point.cross_validated.rmse,
        point.cross_validated.r2, 1 if course is None else len(course.alphas), named.get(BEST), named.get(ONE_SE),
    )  # fmt: skip


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
