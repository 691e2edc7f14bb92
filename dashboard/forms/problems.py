"""Why a config cannot be started on a table, said before anything is; and where forms keep what was filled in."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.targets import why_not
from shoal.errors import ConfigError
from shoal.results.answers.table import TableLook
from shoal.runs.forecast import TableShape
from shoal.settings.config import RunConfig
from shoal.settings.limits import allowed_bad_rows, check_sparse
from shoal.settings.pairs import split_pair
from shoal.words import plural

TRAIN_DRAFTS = "train:drafts"  # in the session: what was filled in for each table; a search begins with it


def problems_of(config: RunConfig, result: TableLook) -> list[str]:
    """Why this config cannot be started on this table, in plain sentences; none where it can."""
    types = {column.name: column.type for column in result.columns}
    problems = []
    if not config.target:
        problems.append("Choose the column to predict first.")
    elif why := why_not(result, config.target, config.model):
        problems.append(why)
    problems += _unread_rows(config, result)
    for name in (*config.features, *config.exclude):
        if name not in types:
            problems.append(f"There is no column '{name}' in this table. Take it out of the columns.")
    problems += product_problems(config, types)
    try:
        check_sparse(config)
    except ConfigError as error:
        problems.append(wording.told(error))
    if config.target and not TableShape.of(result, config, 0).design:
        problems.append("No column is left to predict from. Use more columns, or allow more levels of text columns.")
    if config.solver == "gradient" and config.penalty and config.model != "linear":
        problems.append(
            f"The penalty '{config.penalty}' takes the place of a model's own. Choose the linear model, or no plug-in."
        )
    return problems


def _unread_rows(config: RunConfig, result: TableLook) -> list[str]:
    """More rows that cannot be read than a fit lets pass; headers that come again do not count."""
    bad = result.bad_rows
    limit = allowed_bad_rows(config.on_bad_rows, result.rows, bad.count)
    if bad.lost <= limit:
        return []
    said = f"{plural(bad.lost, 'row')} could not be read, expected at most {limit:,}."
    skip = "leave such rows out on the Data page, under Reading options."
    if any(column.words for column in result.columns):
        return [f"{said} Treat words among numbers as missing, or {skip}"]
    if any(column.limits for column in result.columns):
        return [f"{said} Choose how limits among numbers are read, or {skip}"]
    return [f"{said} To go on without them, {skip}"]


def product_problems(config: RunConfig, types: Mapping[str, str]) -> list[str]:
    """What is wrong with squares and interactions, as far as the names and types of columns tell."""
    problems = []
    for name in config.squares:
        if types.get(name) not in ("numeric", "datetime"):
            problems.append(f"Expected a column of numbers to square, got '{name}'. Take it out of the squares.")
    for pair in config.interactions:
        try:
            left, right = split_pair(pair, list(types))
        except ConfigError as error:
            problems.append(wording.told(error))
            continue
        if left == right:
            problems.append(f"Expected two different columns in '{pair}'. Choose it among the squares instead.")
        elif config.target in (left, right):
            problems.append(f"The column to predict is in '{pair}'. Take that pair out.")
    return problems
