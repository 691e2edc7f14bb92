"""Whether a version may have an alias: only if it does not predict worse than the one that has it, on a named file."""

from __future__ import annotations

import math

from shoal.errors import ConfigError, StateError
from shoal.library import aliases
from shoal.library.saved_models import Version, find_model
from shoal.registry.comparing import compare
from shoal.results.answers.comparison import PromotionAnswer
from shoal.settings.config import RunConfig
from shoal.utils import Progress, silent
from shoal.words import short


def promote(
    version: Version, alias: str, config: RunConfig, not_worse_by: float = 0.0, who: str = "",
    progress: Progress = silent,
) -> PromotionAnswer:  # fmt: skip
    """Give the alias if the version's score on the config's file is at most that of the present one and `not_worse_by`.

    Where nobody has the alias there is nothing to be worse than, and it is given.
    """
    aliases.check_word(alias)
    if not math.isfinite(not_worse_by) or not_worse_by < 0:
        raise ConfigError(f"Expected a number from 0 on for not_worse_by, got {not_worse_by}.")
    model = find_model(version.name)
    if model is None:
        raise StateError(f"Expected the model {version.name}, but it is gone. Choose another.")
    now = aliases.aliases(model).get(alias)
    if now == version.number:
        return _said(False, f"{version.name}@{alias} is version {version.number} already.", version, alias)
    present = model.version(now) if now is not None else None
    if present is None:
        why = f"Nothing was compared: no version had the alias {alias}."
        aliases.give(version, alias, who, why)
        return _said(True, f"{version.name}@{alias} is version {version.number} now. {why}", version, alias)
    found = compare(present.own_model, version.own_model, config, progress, (present.label, version.label))
    limit = found.first_score + not_worse_by
    allowed = f" and {short(not_worse_by)}" if not_worse_by else ""
    against = (
        f"its {found.score} on {found.file} is {short(found.second_score)}, that of {present.label} "
        f"{short(found.first_score)}{allowed}"
    )
    if found.second_score > limit:
        why = f"{version.name}@{alias} stays version {present.number}: {version.label} is worse, {against}."
        return PromotionAnswer(promoted=False, why=why, version=version.label, alias=alias, comparison=found)
    check = f"Checked: {against}."
    aliases.give(version, alias, who, check)
    why = f"{version.name}@{alias} is version {version.number} now; it was {present.number}. {check}"
    return PromotionAnswer(promoted=True, why=why, version=version.label, alias=alias, comparison=found)


def _said(promoted: bool, why: str, version: Version, alias: str) -> PromotionAnswer:
    return PromotionAnswer(promoted=promoted, why=why, version=version.label, alias=alias)
