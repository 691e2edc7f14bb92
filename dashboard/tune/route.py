"""The route behind the sliders of the Tune page: one question in the address, one answer as JSON, from an open study.

    GET /api/tune/{job}?model=&ratio=&alpha=&predict=&out=      a model, and its curve unless `have` names it
    GET /api/tune/{job}/worth?...                               what each column is worth at this alpha
    GET /api/tune/{job}/doubt?...                               how sure its coefficients are
    GET /api/tune/{job}/command?...                             the same on the command line

`alpha` is a number, `best`, `one_se` or `place:N` (of the path). A curve that takes long comes later: `pending`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from shoal.dashboard.parts import wording
from shoal.dashboard.tune import studies
from shoal.dashboard.tune.state import TuneState, checked_alpha, command_lines
from shoal.errors import ConfigError, DamagedFile, StateError, TrainingError
from shoal.models import Array
from shoal.whatif.answers import BEST, ONE_SE, WIDE, WhatIf
from shoal.whatif.courses import Course, Point, Question, Scores
from shoal.words import compared, term_shown

log = logging.getLogger("shoal")

AT_ONCE = 0.06  # seconds of a course that an answer waits for; where they take longer the model comes first
AT_FIRST = 1.0  # seconds that the first answer waits: nothing is on the page yet
AT_LEISURE = 20.0  # seconds that an answer waits where the page has nothing else to ask
MIDDLE = "place:50"  # of a path
WAITING = 8  # answers that may wait like that at a time; others wait for their turn
Parameters = Mapping[str, str]
Answer = dict[str, Any]
_Part = Callable[[studies.OpenStudy, Parameters], Answer]


def routes() -> list[BaseRoute]:
    parts = {"": answer, "/progress": progress, "/worth": worth, "/doubt": doubt, "/command": command}
    waiting = asyncio.Semaphore(WAITING)
    return [
        Route(f"/api/tune/{{job}}{ending}", _answering(part, waiting), methods=["GET"])
        for ending, part in parts.items()
    ]


def _answering(part: _Part, waiting: asyncio.Semaphore) -> Callable[[Request], Any]:
    async def answering(request: Request) -> Response:
        job, asked = request.path_params["job"], dict(request.query_params)
        # A page that is asked for something else gives up its wait, which its thread does not hear of: such threads
        # must not be all that the server has.
        async with waiting if asked.get("wait") else contextlib.nullcontext():
            return await run_in_threadpool(_safely, part, job, asked)

    return answering


def _safely(part: _Part, job: str, asked: Parameters) -> Response:
    """One plain sentence whatever goes wrong; a question without an answer is no failure of the server."""
    try:
        study = studies.opened(job)
    except StateError as error:
        return _json({"problem": wording.told(error)}, 410)
    try:
        return _json(part(study, asked))
    except DamagedFile:
        studies.forget(job)
        problem = "The sums behind this page were damaged on the disk. Reload the page: they are made again."
        return _json({"problem": problem}, 410)
    except TrainingError as error:
        return _json({"problem": wording.told(error)})
    except Exception:
        log.exception("A question of the Tune page failed.")
        return _json(
            {"problem": "This could not be worked out for an unforeseen reason. The log has the details."}, 500
        )


def _json(found: Answer, status: int = 200) -> Response:
    body = json.dumps(found, separators=(",", ":"), allow_nan=False)
    return Response(body, status, {"Cache-Control": "no-store"}, "application/json")


# ------------------------------------------------------------------ a model and its curve


def answer(study: studies.OpenStudy, asked: Parameters) -> Answer:
    whatif = study.whatif
    state = TuneState.parse(asked)
    question = state.question(whatif)
    patience = _patience(whatif, question, asked)
    course = whatif.course(question, patience) if patience else whatif.ready(question)
    alpha = _alpha(whatif, question, course, state.alpha, asked)
    found: Answer = {
        "key": _key(question),
        "pending": course is None,
        "place": course.place(alpha) if course else None,
        "point": _point(whatif.first_point(question, alpha)),
    }
    if course is None:
        whatif.course(question, 0.0)  # only now: it would take time from the answer
    if asked.get("have") != found["key"]:
        encoding = whatif.setting(question).encoding
        found |= {
            "terms": [term_shown(term.name) for term in encoding.terms],
            "owners": [list(term.columns) for term in encoding.terms],
            "compared": compared(encoding.references),
        }
        if course is not None:
            found["curve"] = _curve(course)
    return found


def progress(study: studies.OpenStudy, asked: Parameters) -> Answer:
    """How much of a curve is worked out, for a page that waits for it."""
    question = TuneState.parse(asked).question(study.whatif)
    return {"key": _key(question), "share": study.whatif.progress(question)}


def _patience(whatif: WhatIf, question: Question, asked: Parameters) -> float:
    """Seconds to wait for a course. Without an L1 part it is nearly as quick as one model."""
    if asked.get("wait") or question.model not in ("lasso", "elasticnet"):
        return AT_LEISURE
    if whatif.pace is None:
        return AT_FIRST if len(whatif.cells.base.terms) <= WIDE else 0.0  # of so many it does not come in that time
    return 2 * AT_ONCE if whatif.pace < AT_ONCE else 0.0


def _alpha(whatif: WhatIf, question: Question, course: Course | None, wanted: str, asked: Parameters) -> float:
    if question.model == "linear":
        return 0.0
    if wanted in (BEST, ONE_SE):
        if course is not None:
            return float(course.alphas[course.cv.best if wanted == BEST else course.cv.one_se])
        near = checked_alpha(asked.get("near", MIDDLE))  # for the moment
        wanted = MIDDLE if near in (BEST, ONE_SE) else near
    if wanted.startswith("place:"):
        alphas = whatif.alphas(question)
        return float(alphas[min(int(wanted.removeprefix("place:")), len(alphas) - 1)])
    return float(wanted)


def _key(question: Question) -> str:
    return hashlib.sha256(repr(question).encode()).hexdigest()[:16]


def _point(point: Point) -> Answer:
    certificate = point.certificate
    return {
        "alpha": point.alpha,
        "weights": _plain(point.w),
        "coefficients": _plain(point.coef),
        "intercept": _number(point.intercept),
        "cv": {"mse": _number(point.cv_mean), "se": _number(point.cv_se), **_scores(point.cross_validated)},
        "train": _scores(point.train),
        "test": _scores(point.test) if point.test else None,
        "certificate": {"kind": certificate.kind, "relative": _number(certificate.relative)},
    }


def _scores(scores: Scores) -> Answer:
    return {"rmse": _number(scores.rmse), "r2": _number(scores.r2)}


def _curve(course: Course) -> Answer:
    cv = course.cv
    return {
        "alphas": course.alphas.tolist(),
        "mean": _plain(cv.mean),
        "se": _plain(cv.standard_error),
        "best": cv.best,
        "one_se": cv.one_se,
        "path": base64.b64encode(course.path.W.astype("<f4").tobytes()).decode(),
    }


def _plain(values: Array) -> list[float | None]:
    found: list[float | None] = values.tolist()
    return found if np.isfinite(values).all() else [_number(value) for value in found]


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# ------------------------------------------------------------------ what takes longer


def _asked_at(study: studies.OpenStudy, asked: Parameters) -> tuple[TuneState, Question, float]:
    """A question at the alpha that the page shows."""
    state = TuneState.parse(asked)
    question = state.question(study.whatif)
    course = study.whatif.course(question) if state.alpha in (BEST, ONE_SE) else None
    return state, question, _alpha(study.whatif, question, course, state.alpha, asked)


def worth(study: studies.OpenStudy, asked: Parameters) -> Answer:
    _, question, alpha = _asked_at(study, asked)
    found = study.whatif.importance(question, alpha)
    return {
        "key": _key(question),
        "alpha": alpha,
        "error": _number(found.error),
        "rises": {column: _number(rise) for column, rise in found.rises.items()},
    }


def doubt(study: studies.OpenStudy, asked: Parameters) -> Answer:
    from shoal.dashboard.tune.doubt import told

    _, question, alpha = _asked_at(study, asked)
    return {"key": _key(question), "alpha": alpha, **told(study, question, alpha)}


def command(study: studies.OpenStudy, asked: Parameters) -> Answer:
    state, question, alpha = _asked_at(study, asked)
    lines = command_lines(study.run, state.settings(question, alpha))
    if lines is None:
        raise ConfigError("Flags cannot say these settings. Use a YAML file instead.")
    return {"lines": lines}
