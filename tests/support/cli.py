"""The command line on one small table: what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from support.tables import shoal


def frame(rows: int = 120) -> pd.DataFrame:
    random = np.random.default_rng(0)
    found = pd.DataFrame(
        {"a": random.normal(3, 2, rows), "b": random.normal(0, 50, rows), "t": random.choice(list("uvw"), rows)}
    )
    found["y"] = 2 * found["a"] - 0.3 * found["b"] + (found["t"] == "v") + random.normal(0, 1, rows)
    return found


def trained(*arguments: str | Path) -> dict[str, Any]:
    answer = shoal("train", *arguments, "--json")
    assert (answer.code, answer.err) == (0, ""), answer.err
    found: dict[str, Any] = answer.json
    return found


def refused(*arguments: str | Path) -> str:
    answer = shoal(*arguments)
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith("shoal: ")
    assert answer.is_plain(), answer.err
    return answer.err
