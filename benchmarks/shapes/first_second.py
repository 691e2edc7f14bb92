"""What is there before any work: `shoal --help` and `import shoal`, next to the interpreter's own start."""

from __future__ import annotations

import sys

from benchmarks.cases import Measurement, interleaved, ratio, spans
from benchmarks.contestants import Shoal
from benchmarks.processes import run


def first_second(shoal: Shoal, repeats: int) -> list[Measurement]:
    race = interleaved(
        {
            "python": lambda: run([sys.executable, "-c", "pass"], {}),
            "import shoal": lambda: run([sys.executable, "-c", "import shoal"], {}),
            "shoal --help": lambda: shoal.run([*shoal.command, "--help"]),
        },
        repeats,
    )
    return [
        Measurement(
            "import shoal / an interpreter alone", ratio(race, "import shoal", "python"), "x", 2, detail=spans(race)
        ),
        Measurement("shoal --help / an interpreter alone", ratio(race, "shoal --help", "python"), "x", 8),
    ]
