"""Steps of plug-ins that columns of numbers take before a model sees them: found by name, kept in the model by name and
version, and applied again to the rows that it predicts. What is built in is in `basis`, `dates` and `asked`.

In an expression a step is an operation like any other, `step:winsorise@1/3`: its name, its version, and how many
operands it has, which are x and the quantiles of the training rows that it asks for.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from shoal import plugins
from shoal.errors import ConfigError, DataError, StateError, TrainingError
from shoal.models import Array
from shoal.settings.transforms import STEP

MOST = 100  # quantiles of one step
_WORD = re.compile(r"step:([\w.-]{1,100})@([\w.-]{1,50})/(\d{1,3})", re.ASCII)


class ColumnStep:
    """One number for each number of a column; made without arguments.

    `version` is that of what it computes: change it with that, and models of the other one are refused.
    """

    version = "1"
    quantiles: tuple[float, ...] = ()  # of the training rows, 0 to 1, that it wants to know

    def apply(self, x: Array, at: tuple[float, ...]) -> Array:
        """(n,) of values (n,), none of them missing; `at` are the values of these quantiles."""
        raise NotImplementedError


def step_named(name: str) -> ColumnStep:
    """The installed one of that name, checked for what it has to be."""
    step: ColumnStep = plugins.make(plugins.COLUMN_STEPS, name, ColumnStep)
    shares = step.quantiles
    if not (isinstance(shares, tuple) and len(shares) <= MOST and all(0 <= share <= 1 for share in shares)):
        raise _wrong(name, f"quantiles as a tuple of up to {MOST} numbers from 0 to 1, got {shares!r}")
    if not re.fullmatch(r"[\w.-]{1,50}", str(step.version), re.ASCII):
        raise _wrong(name, f"a version such as '1.2', got {step.version!r}")
    return step


def operation(name: str, at: Sequence[float]) -> str:
    """The word of a step in an expression whose operands are x and these numbers."""
    return f"{STEP}{name}@{step_named(name).version}/{len(at) + 1}"


def operands(word: str) -> int | None:
    """How many an operation has; None for what is no step."""
    found = _WORD.fullmatch(word)
    return int(found[3]) if found and int(found[3]) >= 1 else None


def applied(word: str, x: Array, at: Sequence[Array]) -> Array:
    """What a step makes of values; refused where it is not the one that the model was fitted with."""
    name, step = _known(word)
    try:
        found = np.asarray(step.apply(x, tuple(float(value) for value in at)), np.float64)
    except TrainingError:
        raise
    except (Exception, SystemExit) as error:
        raise DataError(
            f"The column step '{name}' failed ({type(error).__name__}: {error}). Correct it, or fit without it."
        ) from error
    if found.shape != x.shape:
        raise DataError(f"Expected {x.shape} numbers of the column step '{name}', got {found.shape}. Correct the step.")
    if (without := np.isfinite(x) & ~np.isfinite(found)).any():
        raise DataError(
            f"The column step '{name}' gives no finite number for {x[without][0]:g}, expected one for every value. "
            "Correct the step, or the rows."
        )
    return found


@functools.cache
def _known(word: str) -> tuple[str, ColumnStep]:
    """The step of an operation; asked for with every few rows."""
    found = _WORD.fullmatch(word)
    assert found is not None
    name, version, _ = found.groups()
    if name not in plugins.names(plugins.COLUMN_STEPS):
        raise StateError(
            f"Expected the column step '{name}', version {version}, which this model was fitted with; no plug-in that "
            "is installed here has it. Install the one that does, then try again."
        )
    step = step_named(name)
    if step.version != version:
        raise StateError(
            f"Expected version {version} of the column step '{name}', which this model was fitted with, got version "
            f"{step.version}. Install the plug-in that has it, or fit the model again."
        )
    return name, step


def _wrong(name: str, expected: str) -> ConfigError:
    return ConfigError(
        f"The column step '{name}' is not what it has to be: expected {expected}. Install a version that fits, or take "
        "it out of transform.", knobs=["transform"],
    )  # fmt: skip
