"""A model as one standard SQL SELECT: COALESCE for gaps, CASE for levels; proven in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shoal.errors import StateError
from shoal.exports.base import (
    ColumnValues,
    FactorColumn,
    LinearForm,
    NumberColumn,
    ProductPart,
    TextColumn,
    linear_form,
)
from shoal.fitting.model_file import SavedModel
from shoal.models import Array

GROUP = 200  # terms between brackets: SQLite takes expressions of depth 1,000 at most
HEAD = """\
-- Predictions of {target} by a {kind} model; written by shoal export and proven in SQLite.
-- Missing is NULL (in text columns also ''); NaN, which some databases know, is not. Dates are seconds since 1970.
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
        form = linear_form(model)
        out.write_bytes(select(form, self._table(form)).encode())

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        form = linear_form(model)
        try:
            with closing(sqlite3.connect(":memory:")) as connection:
                _fill(connection, self._table(form), form, rows)
                found = {row[0]: row[-1] for row in connection.execute(path.read_bytes().decode())}
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
    terms = [number(form.intercept)]
    for column in form.numbers:
        terms += _number_terms(column)
    terms += [_text_term(column) for column in form.texts if column.matters]
    terms += [_product_term(part) for part in form.products]
    # One line each, whatever a model file says: what follows a line of comment is run.
    head = HEAD.format(target=json.dumps(form.target), kind=" ".join(form.kind.split()))
    alias = name(form.unused_name("prediction"))
    return f"{head}SELECT\n    t.*,\n    {_sum(terms)}\n    AS {alias}\nFROM {name(table)} AS t;\n"


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


def _filled(column: NumberColumn) -> str:
    return f"COALESCE(t.{name(column.name)}, {number(column.fill)})"


def _product_term(part: ProductPart) -> str:
    return f"{_side(part.left)} * {_side(part.right)}"


def _side(column: FactorColumn) -> str:
    if isinstance(column, TextColumn):
        return _text_term(column)
    return _filled(column) if column.coefficient == 1 else f"{_filled(column)} * {number(column.coefficient)}"


def _text_term(column: TextColumn) -> str:
    cases = _cases({level: value for level, value in column.levels.items() if value})
    return f"CASE COALESCE(NULLIF(t.{name(column.name)}, ''), '__missing__'){cases}\n        ELSE 0e0 END"


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
