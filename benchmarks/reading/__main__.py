"""`python -m benchmarks.reading MESSY CLEAN`: files of one folder against the tables of the same names in another.

Every cell is compared. A reading is *exact*; or it differs and something was *told* (an error, a warning, a note or a
row that could not be read, which the clean table does not have); or it differs and nobody was told: *silent*.
"""

from __future__ import annotations

import argparse
import csv
import functools
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.reading.cells import Grid, same_table

Reader = Callable[[Path], tuple[Grid, frozenset[str]]]  # the table, and what was said
OUTCOMES = ("exact", "told", "silent")


def by_shoal(path: Path) -> tuple[Grid, frozenset[str]]:
    from support.tables import opened, table

    dataset = opened(path)
    bad = {row.told for row in dataset.manifest.bad_rows}
    rows = [list(row.values()) for row in table(dataset)]
    return Grid(list(dataset.columns), rows), frozenset({*dataset.manifest.notes, *bad, *_offered(path)})


def _offered(path: Path) -> Iterator[str]:
    """What `shoal inspect` names with a remedy: words and codes that may be no values, sums, dates in another order."""
    import shoal

    for column in shoal.inspect(path).columns:
        for kind in ("words", "codes", "totals", "orders"):
            if found := getattr(column, kind):
                yield f"{column.name}: {kind} {found}"


def by_pandas(path: Path) -> tuple[Grid, frozenset[str]]:
    import pandas as pd

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = pd.read_csv(path)
    rows = frame.astype(object).where(frame.notna(), None).values.tolist()
    if not isinstance(frame.index, pd.RangeIndex):  # it took columns for names of rows
        rows = [
            [*(index if isinstance(index, tuple) else (index,)), *row]
            for index, row in zip(frame.index, rows, strict=True)
        ]
    return Grid([str(name) for name in frame.columns], rows), frozenset(str(w.message) for w in caught)


def by_duckdb(path: Path) -> tuple[Grid, frozenset[str]]:
    import duckdb

    with duckdb.connect() as connection:
        found = connection.execute("select * from read_csv(?)", [str(path)])
        names = [column[0] for column in found.description or []]
        return Grid(names, [list(row) for row in found.fetchall()]), frozenset()


READERS: dict[str, Reader] = {"shoal": by_shoal, "pandas": by_pandas, "duckdb": by_duckdb}


def clean_table(path: Path) -> Grid:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    return Grid(rows[0] if rows else [], rows[1:])


def outcome(messy: Path, clean: Path, reader: str, headed: bool = False) -> tuple[str, str]:
    """How a file was read, and what was said of it."""
    read = READERS[reader]
    found, said = _refused_or_read(read, messy)
    if found is None:
        return "told", *said
    if same_table(found, clean_table(clean), headed):
        return "exact", ""
    said -= _said_of(reader, clean.read_bytes())  # what is said of the table anyway says nothing of its damage
    return ("told", "; ".join(sorted(said))) if said else ("silent", "")


@functools.cache
def _said_of(reader: str, clean: bytes) -> frozenset[str]:
    """What a reader says of a clean table that it reads exactly."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clean.csv"
        path.write_bytes(clean)
        found, said = _refused_or_read(READERS[reader], path)
        return said if found and same_table(found, clean_table(path)) else frozenset()


def _refused_or_read(read: Reader, path: Path) -> tuple[Grid | None, frozenset[str]]:
    try:
        return read(path)
    except Exception as error:  # noqa: BLE001  # whatever a reader refuses a file with, it was told
        return None, frozenset((str(error).splitlines()[0],))


def _outcome(work: tuple[Path, Path, str, bool]) -> tuple[str, str, str, str]:
    return (work[0].name, work[2], *outcome(*work))


def pairs(messy: Path, clean: Path) -> Iterator[tuple[Path, Path]]:
    for path in sorted(messy.iterdir()):
        if (clean / path.name).is_file():
            yield path, clean / path.name


def kind(name: str) -> str:
    """Files that were damaged alike: their names up to the first number."""
    return re.sub(r"_?\d.*|\.[a-z]+$", "", name)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("messy", type=Path, help="a folder of files")
    parser.add_argument("clean", type=Path, help="a folder with their tables: CSV, quoted, UTF-8, the same names")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=["shoal"])
    parser.add_argument("--show", nargs="+", choices=OUTCOMES, default=["silent"], help="name the files read so")
    parser.add_argument("--headed", action="store_true", help="every table has names, which are not rows")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args(arguments)
    work = [(a, b, reader, asked.headed) for a, b in pairs(asked.messy, asked.clean) for reader in asked.readers]
    counts: dict[tuple[str, str], Counter[str]] = {}
    with tempfile.TemporaryDirectory() as home:
        os.environ["SHOAL_HOME"] = home
        with ProcessPoolExecutor(asked.processes) as pool:
            for name, reader, found, said in pool.map(_outcome, work, chunksize=20):
                for group in (kind(name), "all"):
                    counts.setdefault((group, reader), Counter())[found] += 1
                if found in asked.show:
                    print(f"{found:7}{reader:8}{name}: {said}")
    for (group, reader), found_so in sorted(counts.items(), key=lambda pair: (pair[0][0] == "all", pair[0])):
        print(f"{group:32}{reader:8}", *(f"{name} {found_so[name]:>5}" for name in OUTCOMES))
    return 0 if not counts.get(("all", "shoal"), Counter())["silent"] else 1


if __name__ == "__main__":
    sys.exit(main())
