"""Rules of plug-ins that a table has to keep: asked when it is inspected and before a fit; what is built in is in
`guidance`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import plugins
from shoal.data.dataset import Column, Dataset
from shoal.errors import ConfigError, DataError, Remedy, TrainingError
from shoal.fitting.reports import Trained
from shoal.lazy.classes import dataclass
from shoal.results.findings import LEAVE_OUT, Finding
from shoal.settings.config import RunConfig
from shoal.words import did_you_mean, list_text

MOST = 20  # remarks of one rule that are told
KIND = "rule:"  # of a finding, before the name of the rule that it is of


@dataclass(frozen=True)
class Remark:
    """What a rule has found: a sentence, the columns that it is about, and what to do, without a full stop."""

    said: str
    columns: tuple[str, ...] = ()
    advice: str = "Look at these rows, or correct the file"
    leave_out: bool = False  # whether a click may leave these columns out of the model


class CheckedTable:
    """What a rule may look at: facts of all rows, which cost nothing, and the values of a column, which are read."""

    def __init__(self, dataset: Dataset, target: str) -> None:
        self._dataset, self.target = dataset, target  # empty where nobody has said what to predict

    @property
    def rows(self) -> int:
        """Those that could be read."""
        return self._dataset.rows - self._dataset.manifest.bad_count

    @property
    def columns(self) -> tuple[Column, ...]:
        """In their order: `name`, `type`, `missing`, `minimum`, `maximum`, `levels`."""
        return self._dataset.manifest.columns

    def has(self, name: str) -> bool:
        return name in self._dataset.columns

    def column(self, name: str) -> Column:
        if name not in self._dataset.columns:
            hint = did_you_mean(name, list(self._dataset.columns))
            raise DataError(f"Expected a column '{name}', which this table does not have.{hint}")
        return self._dataset.columns[name]

    def values(self, name: str) -> Iterator[npt.NDArray[Any]]:
        """In the order of the rows, block by block: numbers as float64 with NaN, dates as days since 1970, texts as
        objects with None. A text column with more levels than are remembered has None for the others too."""
        column = self.column(name)
        levels = np.array([*column.levels, None], object)
        for block in self._dataset.blocks:
            if column.is_number:
                found: npt.NDArray[Any] = np.array(self._dataset.numbers(block)[:, column.slot])
            else:
                found = levels[self._dataset.codes(block, column.slot)]
            yield np.delete(found, block.bad) if block.bad else found


class ValidationRule:
    """One thing that is to hold of tables; made without arguments."""

    def check(self, table: CheckedTable) -> Iterable[Remark]:
        """What was found; nothing where all is well. A DataError refuses the table: no model is fitted to it."""
        raise NotImplementedError


def checked(dataset: Dataset, config: RunConfig) -> tuple[Finding, ...]:
    """What the rules of a config find; an error where one refuses the table, or could not be applied."""
    found: list[Finding] = []
    for name in dict.fromkeys(config.rules):
        rule, leave = plugins.make(plugins.VALIDATION_RULES, name, ValidationRule), _without(config, name)
        try:
            remarks = list(itertools.islice(rule.check(CheckedTable(dataset, config.target)), MOST + 1))
        except DataError as error:
            raise DataError(f"The rule '{name}' refuses this table: {error.message}", *error.remedies, leave) from None
        except (Exception, SystemExit) as error:
            said = str(error) if isinstance(error, TrainingError) else f"{type(error).__name__}: {error}"
            raise ConfigError(
                f"The rule '{name}' could not be applied to this table ({said}), so nothing is fitted to it.", leave,
                knobs=["rules"],
            ) from error  # fmt: skip
        found += _findings(name, remarks, leave)
    return tuple(found)


def looked_over(dataset: Dataset, config: RunConfig) -> tuple[Finding, ...]:
    """The same for those who only look: what refuses the table is a finding too."""
    found: list[Finding] = []
    for name in dict.fromkeys(config.rules):
        try:
            found += checked(dataset, replace(config, rules=(name,)))
        except (DataError, ConfigError) as error:
            found.append(Finding(KIND + name, (), error.message, "No model is fitted to it so"))
    return tuple(found)


def with_findings(trained: Trained, found: tuple[Finding, ...]) -> Trained:
    """A fit with what rules found before all else that is worth knowing: somebody asked for them."""
    if not found:
        return trained
    said = replace(trained.report, findings=(*found, *trained.report.findings))
    return replace(trained, report=said, model=replace(trained.model, report=replace(said, timings={}, run_id="")))


def _findings(name: str, remarks: list[Any], leave: Remedy) -> Iterator[Finding]:
    if not all(isinstance(remark, Remark) for remark in remarks):
        wrong = next(remark for remark in remarks if not isinstance(remark, Remark))
        raise ConfigError(
            f"Expected remarks (shoal.fitting.rules.Remark) of the rule '{name}', got {wrong!r}.",
            leave,
            knobs=["rules"],
        )
    for remark in remarks[:MOST]:
        knob, values = (LEAVE_OUT, tuple(remark.columns)) if remark.leave_out and remark.columns else ("", ())
        yield Finding(KIND + name, tuple(remark.columns), str(remark.said), str(remark.advice), knob, values)
    if len(remarks) > MOST:
        yield Finding(KIND + name, (), f"The rule '{name}' found more than these {MOST}.", "Mend them first")


def _without(config: RunConfig, name: str) -> Remedy:
    others = [other for other in config.rules if other != name]
    return Remedy.set("To go on without that rule, name the others alone", "rules", list_text(others)) if others else (
        Remedy.say("To go on without that rule, leave it out")
    )  # fmt: skip
