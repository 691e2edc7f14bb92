"""What `import shoal` hands out about versions of saved models: `compare`, `promote`, `rollback`,
`history`, `drift`."""

from __future__ import annotations

from pathlib import Path

from shoal.library import alias_history, aliases
from shoal.library.alias_history import AliasMove
from shoal.library.saved_models import Model, find_model
from shoal.results.answers.comparison import PromotionAnswer, VersionComparison
from shoal.results.answers.drift import DriftReport
from shoal.settings.config import RunConfig


def compare(first: str | Path, second: str | Path, data: str | Path) -> VersionComparison:
    """The second model against the first (files, NAME:3, NAME@champion) on the rows of a file with their target."""
    from shoal.registry.comparing import compare as compared

    labels = (str(first), str(second))
    return compared(aliases.model_path(first), aliases.model_path(second), RunConfig(file=str(data)), labels=labels)


def promote(version: str, data: str | Path, to: str = aliases.CHAMPION, not_worse_by: float = 0.0) -> PromotionAnswer:
    """Give an alias to a version (NAME:3), if its score on a file is not worse than that of the one that has it by more
    than `not_worse_by`; `promoted` says whether it was, `why` says why or why not."""
    from shoal.registry.promotion import promote as promoted

    return promoted(aliases.resolve(version), to, RunConfig(file=str(data)), not_worse_by)


def rollback(model: str, alias: str = aliases.CHAMPION) -> str:
    """Let an alias mean again what it meant before; the version, such as NAME:2."""
    return aliases.roll_back(_named(model), alias).label


def history(model: str) -> list[AliasMove]:
    """Every move of an alias of a model, the newest first."""
    return alias_history.moves(_named(model).name)[::-1]


def drift(model: str, days: int | None = None) -> DriftReport:
    """How far the rows that a version has predicted are from those that it was trained on: NAME is its champion, or
    else the latest. `days` are the last ones with predictions; all that are kept, if not given."""
    from shoal.registry.drift import report

    version = aliases.resolve(model) if set(model) & set("@:") else aliases.chosen_version(_named(model))
    return report(version, days)


def _named(text: str) -> Model:
    found = find_model(aliases.resolve(text).name)
    assert found is not None
    return found
