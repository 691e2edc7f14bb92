"""The steps of `shoal explain`: what a saved model's numbers are worth, from the data it was fitted to.

Each part is left out, with a sentence, where it cannot be had; the formulas are in the modules that have their names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns, widest
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.errors import ConfigError, DamagedFile, DataError, ResourceError, StateError
from shoal.files.parts import is_there
from shoal.fitting.model_file import SavedModel, load_model
from shoal.fitting.reports import finite
from shoal.fitting.summing import make_study
from shoal.fitting.wide import is_wide
from shoal.lazy.classes import dataclass
from shoal.models import Array, penalty_for
from shoal.results.answers.explanation import ModelExplanation
from shoal.results.fit import PredictionInterval
from shoal.results.plain import plain
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.settings.values import config_from, moved
from shoal.settings.when import CLASSES, RESAMPLED_LOSSES, is_penalised, mixes_penalties
from shoal.solve.conformal import prediction_interval
from shoal.solve.intervals import intervals_for, meaning
from shoal.solve.paths import solve
from shoal.tasks.outcomes.explain import LAYERS, PENALISED, intervals_of, of_rows
from shoal.tasks.train import coordinated
from shoal.tasks.workers import reachable
from shoal.utils import Progress, silent
from shoal.whatif.bootstrap import Resampled, bootstrap, check_resamples
from shoal.whatif.cells import CellMoments
from shoal.whatif.folds import FoldChoice, usual_way
from shoal.whatif.importance import drop_one
from shoal.whatif.study import Study

MOST_EXPLAINED = 1000  # columns of a table that is solved from its rows
SAME = 0.01  # of a standard error: coefficients that are nearer to the exact ones need no word about it


@dataclass(frozen=True)
class ExplainRequest:
    """What is asked about a model; alpha None: the model's own, fold_by "": by row, or by hash beside test rows."""

    resamples: int = 500
    confidence: float = 0.95
    alpha: float | None = None
    folds: int = 10
    fold_by: str = ""
    seed: int = 0

    def check(self, config: RunConfig) -> None:
        """Before any data are looked at."""
        check_resamples(self.resamples)
        self.choice(config)
        if not 0.5 <= self.confidence < 1:
            raise ConfigError(f"Expected a confidence from 0.5 to 0.9999, got {self.confidence!r}. 0.95 is usual.")
        if self.seed < 0:
            raise ConfigError(f"Expected a seed of at least 0, got {self.seed}. 0 is usual.")

    def choice(self, config: RunConfig) -> FoldChoice:
        return FoldChoice.parse(self.folds, self.fold_by or usual_way(config.test_every), config.seed)


def explain_model(
    path: Path, question: ExplainRequest, progress: Progress = silent, place: Mapping[str, Any] | None = None
) -> ModelExplanation:
    """All that can be said; its `as_dict` is the object that `explain --json` prints.

    `place`: the knobs that say where the work is done; where the model was fitted if none is given.
    """
    model = load_model(path)
    config = _config(model, question)
    config = moved(config, place) if place else reachable(config)
    question.check(config)
    found = _from_file(model, config, question)
    try:
        found |= (said := _from_data(model, config, question, progress)) | {"notes": found["notes"] + said["notes"]}
    except (DataError, StateError, ResourceError) as error:
        if question.alpha is not None:
            raise  # the file of the model has nothing to say about another alpha
        found["notes"].append(f"{error} So this is what the model file itself says.")
    return ModelExplanation.from_dict(finite(found))


def _from_data(model: SavedModel, config: RunConfig, question: ExplainRequest, progress: Progress) -> dict[str, Any]:
    if model.report.penalty:
        raise StateError(f"Its penalty '{model.report.penalty}' is a plug-in's, which has no formulas here.")
    if config.nonnegative:
        raise StateError(
            "Intervals, resamples and importance are not worked out for coefficients that are held at 0 or more."
        )
    if not is_there(config.file):
        raise DataError(f"Its file '{config.file}' is not there any more.")
    with coordinated(config, progress) as coordinator:

        def explained() -> dict[str, Any]:
            dataset = coordinator.open(config)
            if dataset.manifest.content != model.file.data.content:
                raise StateError(f"Its file '{config.file}' is not what it was when the model was fitted.")
            if model.outcome or model.network is not None:
                return _of_outcome(coordinator, dataset, model, config, question)
            check_width(dataset, config)
            return _Explanation(coordinator, dataset, model, config, question).parts()

        return coordinator.cache.mending(explained)


def _of_outcome(
    coordinator: Coordinator, dataset: Dataset, model: SavedModel, config: RunConfig, question: ExplainRequest
) -> dict[str, Any]:
    """What columns are worth, and beside a penalty how far coefficients move in resamples."""
    found: dict[str, Any] = {"notes": list(dataset.repairs)}
    if config.model in RESAMPLED_LOSSES and config.shrink != "none":
        how = coordinator, dataset, config, question.resamples, question.confidence, question.seed
        try:
            found["bootstrap"] = _drawn(*how).as_dict(list(model.report.coefficients))
        except (StateError, ResourceError) as error:
            found["notes"].append(str(error))
    return found | {"importance": of_rows(coordinator, dataset, model, config).as_dict()}


def _drawn(coordinator: Coordinator, dataset: Dataset, config: RunConfig, *how: Any) -> Resampled:
    if config.model == CLASSES:
        from shoal.tasks.outcomes.class_bootstrap import resampled_classes  # here: other models need none of it

        return resampled_classes(coordinator, dataset, config, *how)
    from shoal.tasks.outcomes.bootstrap import resampled

    return resampled(coordinator, dataset, config, *how)


def check_width(dataset: Dataset, config: RunConfig) -> None:
    """Intervals and resamples take matrices of columns x columns, and of thousands of columns minutes to hours."""
    width = widest(choose_columns(dataset, config), config)
    if width > MOST_EXPLAINED and is_wide(dataset, config):
        raise StateError(
            f"Intervals, resamples and importance are worked out for up to {MOST_EXPLAINED:,} columns where rows are "
            f"fewer, and this model has {width:,}. Fit one of the columns that matter (features), and explain that."
        )


def _config(model: SavedModel, question: ExplainRequest) -> RunConfig:
    config = config_from({**model.file.config, "solver": "exact", "out": None})
    if question.alpha is None:
        return dataclasses.replace(config, alpha=strength(config) if model.report.alpha is None else model.report.alpha)
    if model.outcome:
        raise ConfigError(
            f"Another alpha is tried from sums, which a {config.model} model does not have. Train it at that alpha."
        )
    if config.model == "linear":
        raise ConfigError("Expected no alpha: a linear model has no penalty. Leave it out.")
    penalty_for(config.model, question.alpha, config.l1_ratio, 1.0)
    return dataclasses.replace(config, alpha=question.alpha)


def _from_file(model: SavedModel, config: RunConfig, question: ExplainRequest) -> dict[str, Any]:
    """What needs no data."""
    report = model.report
    linear, said = report.inference, None
    if linear and abs(linear.confidence - question.confidence) < 1e-9:
        said = {"kind": "linear", "meaning": meaning("linear", question.confidence), **plain(linear)}
    intervals = intervals_of(model, question.confidence) if model.outcome else [said] if said else []
    return {
        "model": config.model,
        "target": report.target,
        "alpha": strength(config) if is_penalised(config.as_dict()) else None,
        "l1_ratio": config.l1_ratio if mixes_penalties(config.as_dict()) else None,
        "file": config.file,
        "rows": report.train.rows,
        "intercept": report.intercept,
        "intercepts": report.intercepts,
        "coefficients": report.coefficients,
        "references": model.encoding.references,
        "dates": [name for name in report.dates if name != report.target],
        "confidence": question.confidence,
        "intervals": intervals,
        "bootstrap": None,
        "importance": None,
        "prediction_interval": plain(report.prediction_interval),
        "notes": _told_apart(model),
    }


def _told_apart(model: SavedModel) -> list[str]:
    """Why there are no intervals."""
    if model.network is not None:
        return [LAYERS]
    return [PENALISED] if model.outcome and model.outcome.shrink != "none" else []


class _Explanation:
    """What the data add."""

    def __init__(
        self, coordinator: Coordinator, dataset: Dataset, model: SavedModel, config: RunConfig, question: ExplainRequest
    ) -> None:
        self.coordinator, self.dataset, self.model = coordinator, dataset, model
        self.config, self.question = config, question
        self.notes = list(dataset.repairs)

    def parts(self) -> dict[str, Any]:
        config, question = self.config, self.question
        study = make_study(self.coordinator, self.dataset, config, question.choice(config))
        encoding, problem = study.cells.problem()
        names = encoding.names
        penalised = config.model, strength(config), config.l1_ratio
        exact = solve(problem, penalty_for(*penalised, problem.n))
        intervals = [one.as_dict(names) for one in intervals_for(problem, *penalised, question.confidence)]
        found: dict[str, Any] = {"rows": int(problem.n), "intervals": intervals, "notes": self.notes}
        if question.alpha is None:
            self._compare(names, exact.coef, intervals[0]["coefficients"])
        else:
            found |= {"coefficients": dict(zip(names, exact.coef.tolist(), strict=True)), "intercept": exact.intercept}
            self.notes.append(
                "These are the coefficients at the alpha that was asked for, not those of the model file."
            )
        for part, made in (("bootstrap", self._bootstrap), ("importance", self._importance)):
            try:
                found[part] = made(study)
            except DamagedFile:
                raise  # it is made again, and all of this with it
            except (DataError, StateError, ResourceError) as error:
                self.notes.append(str(error))
        return found | {"prediction_interval": plain(self._prediction_interval(exact.coef, exact.intercept))}

    def _compare(self, names: list[str], exact: Array, rows: dict[str, Any]) -> None:
        """A gradient run may have stopped short of the optimum that the intervals are of."""
        own = np.array([self.model.report.coefficients.get(name, np.nan) for name in names])
        error = np.array([rows[name]["std_error"] for name in names])
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.abs(own - exact) / error
        away = away[np.isfinite(away)]
        if len(away) and away.max() > SAME:
            self.notes.append(
                "The intervals are those of the exact optimum. The coefficients of this model differ from it by up to "
                f"{away.max():.2g} standard errors."
            )

    def _bootstrap(self, study: Study) -> dict[str, Any]:
        config, question = self.config, self.question
        drawn = bootstrap(
            study.cells, study.drawn_from, config.model, strength(config), config.l1_ratio,
            resamples=question.resamples, confidence=question.confidence, seed=question.seed,
        )  # fmt: skip
        return drawn.as_dict(study.cells.problem()[0].names)

    def _importance(self, study: Study) -> dict[str, Any]:
        cells: CellMoments = study.cells
        found = drop_one(cells, self.config.model, strength(self.config), self.config.l1_ratio)
        choice = cells.choice
        ordered = sorted(found.rises.items(), key=lambda item: -item[1])
        return {
            "folds": choice.count,
            "fold_by": choice.text,
            "error": found.error,
            "rises": dict(ordered),
            "meaning": meaning("importance"),
        }

    def _prediction_interval(self, coef: Array, intercept: float) -> PredictionInterval:
        """As the model file has it; by a pass over the rows for another alpha, or where the file has none."""
        said = self.model.report.prediction_interval
        if self.question.alpha is None:
            coef, intercept = self.model.coef, self.model.intercept
            if said and (said.rows or not self.model.report.test.rows):
                return said
        config = self.config
        split = Split(config.test_every, config.test_fraction, config.seed)
        encoding = dataclasses.replace(self.model.encoding, target=config.target, drop_missing=config.impute == "drop")
        at = np.zeros_like(coef), np.ones_like(coef)
        sums = self.coordinator.score(self.dataset, encoding, split, coef, intercept, *at)
        return prediction_interval(sums.calibration, sums.test.rows)
