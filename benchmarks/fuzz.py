"""`python -m benchmarks.fuzz`: harm every kind of file that is read back; writes docs/fuzz.md when done in full.

Which kinds there are, and what is asked of them, is in `tests.support.harm.fuzzing`; here it is counted.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import platform
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from support.harm.fuzzing import CRASH, HARMS, KINDS, MENDED, SAME, SILENT, SWAPPED, TOLD, Outcome, fuzz
from support.harm.place import FileKind

ROOT = Path(__file__).parent.parent
TIMES = 200  # of each kind, in full
SHOWN_FAULTS = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, help=f"harms of each kind (default {TIMES})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="only kinds with this in their name")
    parser.add_argument("--at-once", type=int, default=1, help="kinds that are harmed side by side (default 1)")
    chosen = parser.parse_args()
    kinds = [kind for kind in KINDS if chosen.kind in kind.name]
    started = time.monotonic()
    with ProcessPoolExecutor(chosen.at_once, multiprocessing.get_context("spawn")) as pool:
        harmed = functools.partial(_fuzzed, times=chosen.times, seed=chosen.seed)
        found = dict(zip(kinds, pool.map(harmed, map(KINDS.index, kinds)), strict=True))
    faults = [fault for outcome in found.values() for fault in outcome.faults]
    print("\n".join(faults[:SHOWN_FAULTS]) or "Nothing harmed was answered from.")
    if len(kinds) == len(KINDS) and chosen.times >= TIMES and not faults:
        (ROOT / "docs" / "fuzz.md").write_text(_page(found, chosen.seed, time.monotonic() - started))
    return 1 if faults else 0


def _fuzzed(number: int, times: int, seed: int) -> Outcome:
    kind = KINDS[number]
    with tempfile.TemporaryDirectory(prefix="shoal-fuzz-") as folder:
        outcome = fuzz(kind, Path(folder), times, seed)
    print(f"{kind.name}: {', '.join(f'{count} x {what}' for what, count in outcome.counts.items())}", flush=True)
    return outcome


def _page(found: dict[FileKind, Outcome], seed: int, seconds: float) -> str:
    rows = [
        f"| {kind.name} | {sum(outcome.counts.values())} | "
        + " | ".join(str(outcome.counts[what]) for what in (MENDED, SAME, TOLD, SILENT, CRASH))
        + " |"
        for kind, outcome in found.items()
    ]
    total = sum(sum(outcome.counts.values()) for outcome in found.values())
    ways = ", ".join([*HARMS, SWAPPED])
    return f"""# Damaged files

Written by `make fuzz`: kinds of files that are read back, harmed {total:,} times in all, each time one file:
{ways}.
Then it is asked as a new process would. "Made again": found, said, made anew from what it came from, and the answer has
the same bits. "Same": what was harmed says the same, was not needed, or is only there to save time (profiles, accounts
of runs) and was worked out again. "Told": refused with a sentence; in a list the bad entry says so, and all others are
as they were.

"In the place of another" is any other file of the home: of the same kind, the same document of another run or search,
or something else. A folder that was copied as a whole under another name is read. Records of training
(`metrics.sqlite`) have a checksum in every row; the trials that Optuna keeps in `study.db` are compared with checksums
in the account of the search. "Same" there is mostly a bit on a page that nothing was read from. Not among the kinds:
logs, which only people read, and tables themselves, uploaded ones included: a changed cell is another table.

Python {platform.python_version()}, seed {seed}, {seconds:.0f} s.

| kind of file | harmed | made again | same | told | another answer | crash |
| --- | --- | --- | --- | --- | --- | --- |
{chr(10).join(rows)}
"""


if __name__ == "__main__":
    sys.exit(main())
