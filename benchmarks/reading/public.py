"""`python -m benchmarks.reading.public OUT --csvw FOLDER ...`: files whose own projects say what their tables are.

Writes OUT/messy and OUT/clean for `python -m benchmarks.reading`. The truth is the project's, never ours: JSON or
another CSV beside the file, or what its own tests expect. Whoever measures unpacks the projects; none of them is
part of Shoal.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Known = tuple[Path, Sequence[Sequence[Any]]]  # a file, and its table with the names as the first row
CONVERTED = {  # of csvkit: the file of a project that another one is the same table as
    "blanks.csv": "blanks_converted.csv", "test_date_format.csv": "test_date_format_converted.csv",
    "test_locale.csv": "test_locale_converted.csv", "dummy.tsv": "dummy.csv",
    "dummy.csv.gz": "dummy.csv", "dummy.csv.bz2": "dummy.csv", "optional_quote_characters.csv": "dummy.csv",
    "test_utf8_bom.csv": "test_utf8.csv", "test_skip_lines.csv": "dummy.csv",
}  # fmt: skip
MILLER = re.compile(r"mlr (?:--icsv --ojson|--itsv --ojson|--c2j|--t2j)(?: --jvstack| --rs lf)* cat (\S+)\s*")


def rows_of(said: Any) -> list[list[Any]] | None:
    """A list of objects as rows below their names, one of lists as it is; None for anything else. A name that a row
    lacks is an empty cell."""
    if not isinstance(said, list) or not said:
        return None
    if all(isinstance(row, list) for row in said):
        return said
    if not all(isinstance(row, dict) for row in said):
        return None
    names = list(dict.fromkeys(name for row in said for name in row))
    return [names, *([row.get(name, "") for name in names] for row in said)]


def nasty(folder: Path) -> Iterator[Known]:
    """A folder with `manifest.json`, which names files and the JSON of their tables."""
    for one in json.loads((folder / "manifest.json").read_text()):
        if one.get("expected") and (rows := rows_of(json.loads((folder / one["expected"]).read_text()))):
            yield folder / one["file"], rows


def beside(folder: Path) -> Iterator[Known]:
    """`csv/x.csv` beside `json/x.json`, as csv-test-data and csv-spectrum have them."""
    for path in sorted(folder.glob("csv*/*.csv")):
        truth = folder / "json" / f"{path.stem}.json"
        if truth.is_file() and (rows := rows_of(json.loads(truth.read_text()))):
            yield path, rows


def csvw(folder: Path) -> Iterator[Known]:
    """The W3C's tests of CSV to JSON, where names and values of the result are those of the file: no metadata, or such
    as neither names columns anew nor adds any."""
    tests = folder / "tests" if (folder / "tests").is_dir() else folder
    seen: set[bytes] = set()
    for one in json.loads((tests / "manifest-json.jsonld").read_text())["entries"]:
        sources = [one["action"], *one.get("implicit", [])] if isinstance(one.get("action"), str) else []
        files = [tests / name for name in sources if name.endswith(".csv") and (tests / name).is_file()]
        if len(files) != 1 or not one.get("result") or not (tests / one["result"]).is_file():
            continue
        text, said = files[0].read_bytes(), json.loads((tests / one["result"]).read_text())
        tables = said.get("tables", []) if isinstance(said, dict) else [{"row": [{"describes": [row]} for row in said]}]
        rows = rows_of([line["describes"][0] for table in tables for line in table.get("row", [])])
        read = text.decode("utf-8", "replace")
        names = [name.strip() for name in next(csv.reader(read.splitlines()), [])]  # cells without a value are not told
        if len(tables) == 1 and rows and text not in seen and rows[0] == names and is_of(read, rows):
            seen.add(text)
            yield files[0], rows


def is_of(text: str, rows: Sequence[Sequence[Any]]) -> bool:
    """Whether all that a result has stands in its file in this order: one that was changed by more than reading, by
    metadata or rounding, does not."""
    place = 0
    for cell in (str(cell) for row in rows for cell in row):
        if (place := text.find(cell, place)) < 0:
            return False
        place += len(cell)
    return len(rows[0]) == len(set(rows[0])) and all(len(row) == len(rows[0]) for row in rows)


def miller(folder: Path) -> Iterator[Known]:
    """Cases of Miller that do no more than read CSV or TSV and write JSON, without an error."""
    seen: set[Path] = set()
    for case in sorted(folder.glob("test/cases/**/cmd")):
        found = MILLER.fullmatch(case.read_text())
        if not found:
            continue
        name = found[1].removeprefix("./").replace("${CASEDIR}", str(case.parent.relative_to(folder)))
        path, expected, failed = folder / name, case.parent / "expout", (case.parent / "experr").read_text().strip()
        if failed or not path.is_file() or path in seen:
            continue
        rows = rows_of(json.loads(expected.read_text() or "null"))
        if rows and is_of(path.read_text(), rows):
            seen.add(path)
            yield path, rows


def csvkit(folder: Path) -> Iterator[Known]:
    """Files of csvkit's examples that its tests expect to be converted to others beside them."""
    examples = folder / "examples" if (folder / "examples").is_dir() else folder
    for name, other in CONVERTED.items():
        if (examples / name).is_file() and (examples / other).is_file():
            with (examples / other).open(encoding="utf-8", newline="") as file:
                yield examples / name, list(csv.reader(file))


SETS: dict[str, Callable[[Path], Iterator[Known]]] = {
    "csv_nasty": nasty, "csv_test_data": beside, "csv_spectrum": beside, "csvw": csvw, "miller": miller,
    "csvkit": csvkit,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading.public", description=__doc__)
    parser.add_argument("out", type=Path)
    for name in SETS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, metavar="FOLDER")
    asked = parser.parse_args(arguments)
    for part in ("messy", "clean"):
        (asked.out / part).mkdir(parents=True, exist_ok=True)
    for name, find in SETS.items():
        folder: Path | None = getattr(asked, name)
        known = list(find(folder)) if folder else []
        for place, (path, rows) in enumerate(known):
            ending = "".join(path.suffixes) if path.suffix else ".csv"
            called = f"{name}__{path.name.removesuffix(ending)}_{place:03}{ending}"
            shutil.copyfile(path, asked.out / "messy" / called)
            with (asked.out / "clean" / called).open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
        if folder:
            print(f"{name}: {len(known)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
