"""`python -m benchmarks`: make the files, run the cases, print the table and write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import cases, gradient, prediction, report
from benchmarks.cases import Measurement
from benchmarks.contestants import Shoal
from benchmarks.processes import OtherWork
from benchmarks.shapes.first_second import first_second
from benchmarks.shapes.launches import launches
from benchmarks.shapes.many_levels import many_levels
from benchmarks.shapes.sparse import sparse
from benchmarks.shapes.survey import survey
from benchmarks.shapes.wide import wide
from benchmarks.tables import (
    BIG,
    GENES,
    LONG,
    MANY_GENES,
    MIDDLE,
    NARROW,
    TALL,
    TINY,
    WIDE,
    MadeTable,
    check_room,
    make,
)

ROOT = Path(__file__).parent.parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add(
        "--repeats",
        type=int,
        default=5,
        help="rounds of each comparison (default 5, at least 3 to be believed)",
    )
    add(
        "--long",
        action="store_true",
        help="also the memory on 8,000,000 rows (4.3 GB, and as much for its blocks)",
    )
    add(
        "--data-dir",
        type=Path,
        default=os.environ.get("SHOAL_BENCH_DIR"),
        help="where the files are made and found",
    )
    add("--keep", action="store_true", help="do not remove the files that were made in a temporary folder")
    add(
        "--only",
        choices=SECTIONS,
        nargs="+",
        default=list(SECTIONS),
        help="only these parts; prints, does not write",
    )
    add("--shoal", type=shlex.split, default=installed_shoal(), help="the command to measure")
    return parser.parse_args()


def installed_shoal() -> list[str]:
    return [str(Path(sys.executable).with_name("shoal"))]


@contextmanager
def data_directory(chosen: Path | None, keep: bool) -> Iterator[Path]:
    """The chosen folder, which stays, or a temporary one."""
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
    elif keep:
        directory = tempfile.mkdtemp(prefix="shoal-bench-")
        print(f"The files stay in {directory}; use them again with --data-dir.", flush=True)
        yield Path(directory)
    else:
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as directory:
            yield Path(directory)


class Bench:
    """The sections, each a list of findings, over files in one folder."""

    def __init__(self, shoal: Shoal, directory: Path, repeats: int, long: bool) -> None:
        self.shoal, self.directory, self.repeats, self.long = shoal, directory, repeats, long

    def path(self, table: MadeTable) -> Path:
        return make(table, self.directory)

    def speed(self) -> list[Measurement]:
        tables = (BIG, MIDDLE, WIDE, NARROW)
        return [f for t in tables for f in cases.speed(self.shoal, t, self.path(t), self.repeats)]

    def new_alpha(self) -> list[Measurement]:
        tables, times = (BIG, WIDE, NARROW), 3 * self.repeats
        return [f for t in tables for f in cases.new_alpha(self.shoal, t, self.path(t), times)]

    def scaling(self) -> list[Measurement]:
        return cases.scaling(self.shoal, BIG, self.path(BIG), self.repeats)

    def memory(self) -> list[Measurement]:
        short = cases.memory(self.shoal, BIG, self.path(BIG))
        if not self.long:
            return [short]
        long = cases.memory(self.shoal, LONG, self.path(LONG))
        return [short, long, cases.growth(short, long)]

    def prediction(self) -> list[Measurement]:
        tables = (BIG, TALL)
        return [f for t in tables for f in prediction.prediction(self.shoal, t, self.path(t), self.repeats)]

    def start_up(self) -> list[Measurement]:
        return cases.start_up(self.shoal, TINY, self.path(TINY), 3 * self.repeats)

    def first_second(self) -> list[Measurement]:
        return first_second(self.shoal, 3 * self.repeats)

    def wide(self) -> list[Measurement]:
        return [f for t in (GENES, MANY_GENES) for f in wide(self.shoal, t, self.path(t), self.repeats)]

    def sparse(self) -> list[Measurement]:
        return sparse(self.repeats)

    def survey(self) -> list[Measurement]:
        return survey(self.shoal, self.directory, self.repeats)

    def many_levels(self) -> list[Measurement]:
        return many_levels(self.shoal, self.directory, self.repeats)

    def launches(self) -> list[Measurement]:
        return launches(self.shoal, self.path(TINY), max(1, self.repeats // 2))

    def training(self) -> list[Measurement]:
        return gradient.training(self.path(BIG), self.directory, self.repeats)


SECTIONS = {
    "speed": Bench.speed,
    "new_alpha": Bench.new_alpha,
    "scaling": Bench.scaling,
    "memory": Bench.memory,
    "prediction": Bench.prediction,
    "start_up": Bench.start_up,
    "first_second": Bench.first_second,
    "wide": Bench.wide,
    "sparse": Bench.sparse,
    "survey": Bench.survey,
    "many_levels": Bench.many_levels,
    "launches": Bench.launches,
    "training": Bench.training,
}


def findings(options: argparse.Namespace) -> list[Measurement]:
    with (
        data_directory(options.data_dir, options.keep) as directory,
        tempfile.TemporaryDirectory(prefix="homes-", dir=directory) as homes,
    ):
        check_room([BIG, WIDE, NARROW, TALL, *([LONG] if options.long else [])], directory)
        bench = Bench(Shoal(options.shoal, Path(homes)), directory, options.repeats, options.long)
        found: list[Measurement] = []
        for section in options.only:
            print(f"Measuring: {section.replace('_', ' ')} ...", file=sys.stderr, flush=True)
            latest = SECTIONS[section](bench)
            print(report.text(latest), file=sys.stderr, flush=True)
            found += latest
        return [*found, cases.hygiene(bench.shoal)]


def main() -> None:
    options = arguments()
    others = OtherWork()
    found = findings(options)
    circumstances = report.circumstances(options.repeats, others.share())
    print("\n".join([*circumstances, "", report.text(found)]))
    if set(options.only) == set(SECTIONS):
        target = ROOT / "docs" / "benchmarks.md"
        target.write_text(report.markdown(found, circumstances))
        print(f"\nWritten to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
