"""A model as one standard SQL SELECT: COALESCE for gaps, CASE for levels; proven in SQLite."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from shoal.errors import StateError
from shoal.exports.base import (
    HIGHEST,
    ColumnValues,
    FactorColumn,
    LinearForm,
    NumberColumn,
    ProductPart,
    ShapedColumn,
    TextColumn,
    class_forms,
    linear_form,
)
from shoal.exports.shapes import in_sql
from shoal.fitting.model_file import SavedModel
from shoal.lazy.classes import dataclass
from shoal.models import Array

GROUP = 200  # terms between brackets: SQLite takes expressions of depth 1,000 at most
HEAD = """\
-- Predictions of {target} by a {kind} model; written by shoal export and proven in SQLite.
-- Missing is NULL (in text columns also ''); NaN, which some databases know, is not. Dates are {dates} since 1970.
-- Columns of levels have to be text that is compared exactly: cast others, and use a binary collation where the
-- usual one ignores case or trailing blanks (MySQL, SQL Server).
-- Names are in double quotes and texts in single ones, without backslash escapes. MySQL needs
-- SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'; BigQuery needs other quotes; Oracle takes no AS before t.
"""


@dataclass(frozen=True)
class Sql:
    """`table` is one name, taken as it is; that of the training file if not given."""

    table: str | None = None

    packages = ()
    runtime = f"SQLite {sqlite3.sqlite_version}"
    use = "Run it where the table is; it adds one column to all of the table's."

    def write(self, model: SavedModel, out: Path) -> None:
        if model.several:
            forms, outcome = class_forms(model), model.outcome
            names = outcome.classes if outcome else ()
            out.write_bytes(class_select(forms, names, self._table(forms[0])).encode())
            return
        form = linear_form(model)
        out.write_bytes(select(form, self._table(form)).encode())

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        form = class_forms(model)[0] if model.several else linear_form(model)
        last = slice(-len(model.coef), None) if model.several else -1  # of several classes one column each
        try:
            with closing(sqlite3.connect(":memory:")) as connection:
                _fill(connection, self._table(form), form, rows)
                found = {row[0]: row[last] for row in connection.execute(path.read_bytes().decode())}
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise StateError(
                f"SQLite cannot run the SELECT of this model: {error}. Rename what it complains about, or choose "
                "another format."
            ) from None
        return np.array([found[i] for i in range(len(found))], np.float64)

    def _table(self, form: LinearForm) -> str:
        return self.table or Path(form.source).name.split(".")[0] or "data"


def _fill(connection: sqlite3.Connection, table: str, form: LinearForm, rows: ColumnValues) -> None:
    """The trial rows as a table, with their number as first column: a SELECT may give them in any order."""
    texts = {column.name for column in form.texts}
    columns = [f"{name(form.unused_name('row'))} INTEGER"]
    columns += [f"{name(n)} {'TEXT' if n in texts else 'REAL'}" for n in rows]
    connection.execute(f"CREATE TABLE {name(table)} ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    each = ((i, *row) for i, row in enumerate(zip(*rows.values(), strict=True)))
    connection.executemany(f"INSERT INTO {name(table)} VALUES ({marks})", each)


def select(form: LinearForm, table: str) -> str:
    head, terms = _head(form), _terms(form)
    alias = name(form.unused_name("prediction"))
    summed = f"SELECT\n    t.*,\n    {_sum(terms)}\n    AS "
    if form.link == "identity":
        return f"{head}{summed}{alias}\nFROM {name(table)} AS t;\n"
    score = name(form.unused_name("score"))
    inner = f"{summed}{score}\nFROM {name(table)} AS t"
    return f"{head}SELECT\n    t.*,\n    {_mean(form.link, f't.{score}')}\n    AS {alias}\nFROM (\n{inner}\n) AS t;\n"


def class_select(forms: Sequence[LinearForm], classes: Sequence[str], table: str) -> str:
    """The likeliest class, then the probability of each: 1 / (the sum of e^(another score less the own one))."""
    unused = _unused(forms[0], [*(f"score_{place}" for place in range(len(forms))), "prediction",
                                *(f"probability_{one}" for one in classes)])  # fmt: skip
    scores, alias, probabilities = unused[: len(forms)], unused[len(forms)], unused[len(forms) + 1 :]
    sums = ",\n    ".join(
        f"{_sum(_terms(form))}\n    AS {name(score)}" for form, score in zip(forms, scores, strict=True)
    )
    inner = f"SELECT\n    t.*,\n    {sums}\nFROM {name(table)} AS t"
    own = [f"t.{name(score)}" for score in scores]
    likeliest = "".join(
        f"\n        WHEN {' AND '.join(f'{mine} >= {other}' for other in own if other != mine)} THEN {text(one)}"
        for mine, one in zip(own, classes, strict=True)
    )
    shares = []
    for mine, said in zip(own, probabilities, strict=True):
        others = ["1e0" if other == mine else _power(f"({other} - {mine})") for other in own]
        shares.append(f"1e0 / ({_sum(others)})\n    AS {name(said)}")
    return (
        f"{_head(forms[0])}SELECT\n    t.*,\n    CASE{likeliest}\n        END\n    AS {name(alias)},\n    "
        + ",\n    ".join(shares) + f"\nFROM (\n{inner}\n) AS t;\n"
    )  # fmt: skip


def _unused(form: LinearForm, wanted: Sequence[str]) -> list[str]:
    """Names that neither the columns nor one another have, in whatever case."""
    taken, found = {one.casefold() for one in (*form.columns, form.target)}, list[str]()
    for one in wanted:
        name_ = next(n for n in (one, *(f"{one}_{i}" for i in range(1, len(taken) + 2))) if n.casefold() not in taken)
        taken.add(name_.casefold())
        found.append(name_)
    return found


def _head(form: LinearForm) -> str:
    """One line each, whatever a model file says: what follows a line of comment is run."""
    return HEAD.format(target=json.dumps(form.target), kind=" ".join(form.kind.split()), dates=form.dates)


def _terms(form: LinearForm) -> list[str]:
    terms = [number(form.intercept)]
    for column in form.numbers:
        terms += _number_terms(column)
    terms += [_text_term(column) for column in form.texts if column.matters]
    terms += [_shaped(column) for column in form.shapes]
    return terms + [_product_term(part) for part in form.products]


def _mean(link: str, score: str) -> str:
    """The mean of a score; a power that is no double is cut, since some databases refuse it."""
    power = _power(f"-{score}" if link == "logit" else score)
    return f"1e0 / (1e0 + {power})" if link == "logit" else power


def _power(of: str) -> str:
    return f"EXP(CASE WHEN {of} > {number(HIGHEST)} THEN {number(HIGHEST)} ELSE {of} END)"


def _sum(terms: list[str]) -> str:
    if len(terms) <= GROUP:
        return "\n    + ".join(terms)
    groups = (terms[i : i + GROUP] for i in range(0, len(terms), GROUP))
    return "\n    + ".join(f"({_sum(group)})" for group in groups)


def _number_terms(column: NumberColumn) -> Iterator[str]:
    if column.coefficient:
        yield f"{_filled(column)} * {number(column.coefficient)}"
    if column.if_missing:
        yield f"CASE WHEN t.{name(column.name)} IS NULL THEN {number(column.if_missing)} ELSE 0e0 END"


def _shaped(column: ShapedColumn) -> str:
    value = in_sql(column.expression, _filled(column), number)
    if not column.levels:
        return f"{value} * {number(column.coefficient)}" if column.coefficient != 1 else value
    cases = "".join(f"\n        WHEN {number(is_)} THEN {number(adds)}" for is_, adds in column.levels.items())
    return f"CASE {value}{cases}\n        ELSE 0e0 END"


def _filled(column: NumberColumn | ShapedColumn) -> str:
    if math.isnan(column.fill):  # an offset: no value, no prediction
        return f"t.{name(column.name)}"
    return f"COALESCE(t.{name(column.name)}, {number(column.fill)})"


def _product_term(part: ProductPart) -> str:
    return f"{_side(part.left)} * {_side(part.right)}"


def _side(column: FactorColumn) -> str:
    if isinstance(column, TextColumn):
        return _text_term(column)
    if isinstance(column, ShapedColumn):
        return _shaped(column)
    return _filled(column) if column.coefficient == 1 else f"{_filled(column)} * {number(column.coefficient)}"


def _text_term(column: TextColumn) -> str:
    cases = _cases({level: value for level, value in column.levels.items() if value != column.other})
    given = f"COALESCE(NULLIF(t.{name(column.name)}, ''), '__missing__')"
    other = number(column.other) if column.other else "0e0"
    return f"CASE {given}{cases}\n        ELSE {other} END" if cases else other


def _cases(levels: Mapping[str, float]) -> str:
    return "".join(f"\n        WHEN {text(level)} THEN {number(value)}" for level, value in levels.items())


def name(identifier: str) -> str:
    """A delimited identifier: all characters stand for themselves but the quote, which is doubled."""
    return '"' + identifier.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def number(value: float) -> str:
    """All digits, with an exponent: that makes it a double, and not a decimal number, by the standard."""
    digits = repr(value)
    return digits if "e" in digits else f"{digits}e0"


FORMAT = Sql()
