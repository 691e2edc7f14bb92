"""Answers about one study, fast enough for a slider: the path and the cross-validated errors for a target, columns, a
model and a mixing ratio; one alpha of it; what each column is worth. Answers are kept. No rows, no files, no page.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from shoal.errors import ConfigError
from shoal.kernels.path_kernel import sparse_path
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, Array, penalty_for
from shoal.settings.when import check_linear
from shoal.solve.least_squares import LeastSquares
from shoal.solve.moments import mean_squares
from shoal.solve.paths import alpha_grid, follow, solve, weights_along
from shoal.whatif.cells import CellMoments
from shoal.whatif.courses import Course, Point, Question, Setting, point_at
from shoal.whatif.curve import CrossValidation
from shoal.whatif.importance import Importance, drop_one

ALPHAS = 100
BEST, ONE_SE = "best", "one_se"
RATIOS = tuple(round(0.05 * step, 2) for step in range(21))  # where a slider of the mixing ratio stops
KEPT_BYTES = 256 << 20  # of answers, and as much of problems
STILL = 0.5  # seconds for which a course makes way at most
WIDE = 300  # coefficients from which on the problems of all folds take longer to make than somebody likes to wait
QUICK = 1.0  # seconds of a course after which the others of its kind are not made ahead of time


@dataclass(eq=False)
class _CourseRequest:
    """A course that somebody wants or may want soon."""

    done: threading.Event = field(default_factory=threading.Event)
    waiting: int = 0
    asked: bool = False  # by somebody, not only ahead of time
    course: Course | None = None
    error: Exception | None = None


class _GivenUp(Exception):
    """Nobody waits for this course any more."""


class _Kept:
    """The answers used last, up to so many bytes together (at least one)."""

    def __init__(self, budget: int) -> None:
        self.budget, self.used = budget, 0
        self.found: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        if key in self.found:
            self.found.move_to_end(key)
        return self.found.get(key)

    def put(self, key: Hashable, value: Any) -> None:
        if key in self.found:
            return
        self.found[key] = value
        self.used += value.size
        while self.used > self.budget and len(self.found) > 1:
            self.used -= self.found.popitem(last=False)[1].size


class WhatIf:
    """All questions about the cells of one study, from any thread.

    One thread of its own works on courses, the latest request first; it ends when there is nothing left to do.
    """

    def __init__(self, cells: CellMoments) -> None:
        self.cells = cells
        self._lock = threading.Lock()
        self._settings, self._courses = _Kept(KEPT_BYTES), _Kept(KEPT_BYTES)
        self._values: OrderedDict[Hashable, Importance] = OrderedDict()
        self._requests: OrderedDict[Question, _CourseRequest] = OrderedDict()  # the last one is worked on next
        self._worker: threading.Thread | None = None
        self._closed = False
        self._at_hand = 0  # questions that somebody waits for right now
        self._preparing = threading.Lock()  # one problem at a time: two who need the same one make it once
        self._progress: tuple[Question | None, float] = (None, 0.0)  # of the course that is worked on
        self.pace: float | None = None  # seconds that the last course took

    # ---- what is held

    @property
    def size(self) -> int:
        """Bytes, nearly, of the answers that are kept."""
        with self._lock:
            return self._settings.used + self._courses.used

    def close(self) -> None:
        """Give back what is kept, and make nothing ahead of time any more; whoever waits for an answer gets it."""
        with self._lock:
            self._closed = True
            self._settings, self._courses = _Kept(KEPT_BYTES), _Kept(KEPT_BYTES)
            self._values.clear()
            for question in [question for question, request in self._requests.items() if not request.waiting]:
                del self._requests[question]

    # ---- what can be asked

    @property
    def columns(self) -> list[str]:
        """Every column that can predict or be predicted, the study's own target among them."""
        return [*self.cells.columns, self.cells.base.target]

    @property
    def targets(self) -> list[str]:
        return [self.cells.base.target, *self.cells.targets]

    def question(self, target: str, left_out: Iterable[str], model: str, l1_ratio: float = 0.5) -> Question:
        """Checked, and the same for all that mean the same."""
        check_linear(model, "answers from sums")
        if not 0 <= l1_ratio <= 1:
            raise ConfigError(f"Expected a mixing ratio from 0 to 1, got {l1_ratio}. Give a share such as 0.5.")
        out = {*left_out, target}
        columns = tuple(name for name in self.columns if name not in out)
        if not columns:
            raise ConfigError("Expected at least one column to predict from, got none. Tick one.")
        return Question(target, columns, model, l1_ratio if model == "elasticnet" else 0.5)

    # ---- answers

    def setting(self, question: Question) -> Setting:
        with self._lock:
            found: Setting | None = self._settings.get(question.setting)
        if found is not None:
            return found
        with self._preparing:
            with self._lock:
                found = self._settings.get(question.setting)
            if found is None:
                found = Setting.of(self.cells.toward(question.target).only(question.columns))
                with self._lock:
                    self._settings.put(question.setting, found)
        return found

    def alphas(self, question: Question) -> Array:
        if question.model == "linear":
            return np.zeros(1)
        return alpha_grid(self.setting(question).problem, question.model, question.l1_ratio, ALPHAS)

    def ready(self, question: Question) -> Course | None:
        """The course, if it is there already."""
        with self._lock:
            found: Course | None = self._courses.get(question)
        return found

    def course(self, question: Question, patience: float | None = None) -> Course | None:
        """The course of a question; None where it is not ready within so many seconds (it comes all the same)."""
        request = self._request(question)
        if isinstance(request, Course):
            return request
        request.done.wait(patience)
        with self._lock:
            request.waiting -= 1
        if request.error is not None:
            raise request.error
        return request.course

    def progress(self, question: Question) -> float:
        """The share of a course that is done."""
        if self.ready(question) is not None:
            return 1.0
        asked, share = self._progress
        return share if asked == question else 0.0

    def first_point(self, question: Question, alpha: float) -> Point:
        """As `point`, but without its errors over folds where their problems are not made yet and take a while."""
        setting = self.setting(question)
        if self.ready(question) is None and not setting.has_folds and len(setting.problem.z) > WIDE:
            with self._in_hand():
                return self._between(question, alpha, tested=False)
        return self.point(question, alpha)

    def point(self, question: Question, alpha: float) -> Point:
        """The model at an alpha, on the path or between; does not wait for a course."""
        course = self.ready(question)
        place = course.place(alpha) if course else None
        if course is not None and place is not None:
            return course.point(place)
        with self._in_hand():
            return self._between(question, alpha)

    def importance(self, question: Question, alpha: float) -> Importance:
        key = (question, alpha)
        with self._lock:
            found = self._values.get(key)
        if found is None:
            cells = self.setting(question).cells
            found = drop_one(cells, question.model, alpha, question.l1_ratio)
            with self._lock:
                self._values[key] = found
                while len(self._values) > 50:
                    self._values.popitem(last=False)
        return found

    # ---- one alpha that no course has

    def _between(self, question: Question, alpha: float, tested: bool = True) -> Point:
        setting, model, l1_ratio = self.setting(question), question.model, question.l1_ratio
        problem = setting.problem
        penalty = penalty_for(model, alpha, l1_ratio, problem.n)
        start = self._nearest(question, penalty) if penalty.l1 else None
        if penalty.l1 and start is None:
            start = self._led(question, alpha)
        w = _weights(problem, penalty, start)
        if not tested:
            return point_at(setting, alpha, penalty, w, None)
        errors = setting.errors(lambda fold: _weights(fold, penalty_for(model, alpha, l1_ratio, fold.n), w)[None])
        return point_at(setting, alpha, penalty, w, CrossValidation(np.array([alpha]), errors))

    def _nearest(self, question: Question, penalty: L1L2) -> Array | None:
        """Weights to start from: of a course of the same columns, where the L1 penalty is most alike."""
        with self._lock:
            known = {key: course for key, course in self._courses.found.items() if key.setting == question.setting}
        alike = [key for key in known if _share(key)]
        if not alike:
            return None
        key = min(alike, key=lambda key: abs(_share(key) - _share(question)))
        place = int(np.argmin(np.abs(known[key].alphas * _share(key) - penalty.l1)))
        return np.asarray(known[key].path.W[place])

    def _led(self, question: Question, alpha: float) -> Array:
        """Weights to start from: down the path from where there are none, many small steps being quicker than one."""
        problem, alphas = self.setting(question).problem, self.alphas(question)
        steps = [penalty_for(question.model, float(a), question.l1_ratio, problem.n) for a in alphas if a > alpha]
        l1, l2 = (np.array([getattr(step, part) for step in steps]) for part in ("l1", "l2"))
        W, settled = _sparse(problem, l1, l2, None)
        return np.asarray(W[settled - 1]) if settled else np.zeros(len(problem.z))

    @contextmanager
    def _in_hand(self) -> Iterator[None]:
        """Meanwhile courses that nobody waits for so urgently stand still."""
        with self._lock:
            self._at_hand += 1
        try:
            yield
        finally:
            with self._lock:
                self._at_hand -= 1

    def _stand_still(self) -> None:
        """Between two folds: make way for what is urgent, and give up what nobody wants any more."""
        with self._lock:
            if self._closed and not any(request.waiting for request in self._requests.values()):
                raise _GivenUp
        deadline = time.monotonic() + STILL
        while self._at_hand and time.monotonic() < deadline:
            time.sleep(0.001)

    # ---- courses, in a thread of their own

    def _request(self, question: Question) -> Course | _CourseRequest:
        with self._lock:
            course: Course | None = self._courses.get(question)
            if course is not None:
                return course
            request = self._requests.setdefault(question, _CourseRequest())
            request.waiting += 1
            request.asked = True
            self._requests.move_to_end(question)
            for other, older in list(self._requests.items()):
                if not older.waiting and other.setting != question.setting:
                    del self._requests[other]  # the hand has moved on
            self._begin()
            return request

    def _begin(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="what-if", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._requests:
                    self._worker = None
                    return
                question, request = next(reversed(self._requests.items()))
            try:
                request.course = self._followed(question)
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                request.error = error
            with self._lock:
                again = self._requests.pop(
                    question, request
                )  # another where the hand moved on meanwhile, and came back
                again.course, again.error = request.course, request.error
                if request.course is not None:
                    self._courses.put(question, request.course)
                    self.pace = request.course.seconds
                    if again.asked:
                        self._look_ahead(question, request.course.seconds)
            request.done.set()
            again.done.set()

    def _look_ahead(self, question: Question, seconds: float) -> None:
        """Mixing ratios are likely to be asked for next, the nearest first."""
        if self._closed or not _share(question) or seconds > QUICK:
            return
        for ratio in sorted(RATIOS, key=lambda ratio: abs(ratio - question.l1_ratio)):
            other = question._replace(model="elasticnet", l1_ratio=ratio)
            if other not in self._requests and self._courses.get(other) is None:
                self._requests[other] = _CourseRequest()
                self._requests.move_to_end(other, last=False)

    def _followed(self, question: Question) -> Course:
        began = time.perf_counter()
        setting = self.setting(question)
        alphas = self.alphas(question)
        path = follow(setting.problem, question.model, alphas, question.l1_ratio)
        steps = (2 if setting.keeps_folds else 1) * len(
            setting.cells.tested
        ) + 1  # making the problem of a fold takes about as long as its path
        done = iter(range(1, steps))

        def next_step() -> None:
            self._progress = (question, next(done, steps) / steps)
            self._stand_still()

        setting.make_folds(next_step)
        errors = setting.errors(
            lambda problem: weights_along(problem, question.model, alphas, question.l1_ratio), next_step
        )
        return Course(
            path,
            CrossValidation(alphas, errors),
            mean_squares(setting.train, path.coef, path.intercepts),
            None if setting.held is None else mean_squares(setting.held, path.coef, path.intercepts),
            setting.train.take([-1]),
            None if setting.held is None else setting.held.take([-1]),
            time.perf_counter() - began,
        )


def _share(question: Question) -> float:
    """Of the L1 part in alpha."""
    return {"lasso": 1.0, "elasticnet": question.l1_ratio}.get(question.model, 0.0)


def _sparse(problem: LeastSquares, l1: Array, l2: Array, start: Array | None) -> tuple[Array, int]:
    return sparse_path(problem.gram / problem.n, problem.R.T @ problem.z / problem.n, l1, l2, start)


def _weights(problem: LeastSquares, penalty: L1L2, start: Array | None) -> Array:
    """At one penalty; the quick way where that settles."""
    if (
        problem.nonnegative or penalty.l1 == 0 or start is None or len(start) != len(problem.z)
    ):  # a level may be missing in a fold
        return solve(problem, penalty).w
    W, settled = _sparse(problem, np.array([penalty.l1]), np.array([penalty.l2]), start)
    return W[0] if settled else solve(problem, penalty, W[0]).w
