"""Nodes that have no disk in common with each other or with whoever asks: blocks stay where they were made.

The table is behind an address; nothing of its size comes to the machine that asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.settings import limits
from support.engine_requests import WhoAmI
from support.engines.shelf import Shelf, serving
from support.engines.yard import Yard
from support.runs import until
from support.tables import shoal
from support.training import Trainer

pytest.importorskip("ray", reason="Ray is not installed")

ROWS = 6000
Flags = list[str]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.setattr(limits, "BLOCK_BYTES", 30_000)
    monkeypatch.setenv("NETRC", "/nowhere")
    found = Shelf()
    with serving(found):
        yield found


def table(rows: int = ROWS) -> str:
    """Numbers with gaps, levels, and texts with line ends in them, by which a range is guessed wrongly."""
    chance = np.random.default_rng(5)
    frame = pd.DataFrame(chance.normal(size=(rows, 3)).round(4), columns=["x", "z", "v"])
    frame["c"] = chance.choice(["a", "b", "long\n1,2,3,4,5\ntext"], size=rows)
    frame["y"] = (2 * frame["x"] - frame["z"] + (frame["c"] == "a") + 0.1 * chance.normal(size=rows)).round(4)
    frame.loc[::17, "v"] = np.nan
    return frame.to_csv(index=False)


class Asking:
    """The same question to one process and to a cluster, each with a home of its own."""

    def __init__(self, yard: Yard, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.yard, self.folder, self.patch = yard, folder, monkeypatch

    def ask(self, name: str, *flags: str) -> dict[str, Any]:
        self.patch.setenv("SHOAL_HOME", str(self.folder / name))
        where = ["--cluster", self.yard.address, "--workers", "2"] if name == "ray" else []
        done = shoal(*flags, "--target", "y", "--engine", name, *where, "--json")
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found

    def blocks(self) -> list[Path]:
        """Those that came to whoever asks."""
        return list((self.folder / "ray").rglob("block-*.bin"))

    def dealt(self) -> list[Path]:
        """Files with the rows of a block, grouped by shard."""
        return sorted(self.yard.folder.glob("home-*/cache/*blocks/shards-*/dealt-*.bin"))

    def on_nodes(self) -> list[Path]:
        return sorted(self.yard.folder.glob("home-*/cache/*/block-*.bin"))


@pytest.fixture
def asking(yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Nothing is asked before both nodes are at work: the first would do all while the other one starts."""
    from shoal.engines.cluster.engine import RayEngine

    usual = RayEngine.__init__

    def both(self: RayEngine, *given: Any, **named: Any) -> None:
        usual(self, *given, **named)
        until(lambda: len(set(self.sweep([WhoAmI(0.1)] * 2))) == 2)

    monkeypatch.setattr(RayEngine, "__init__", both)
    yard.say("mend")
    return Asking(yard, tmp_path, monkeypatch)


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["coefficients"] == expected["coefficients"]
    assert found["intercept"] == expected["intercept"]


def test_a_fit_where_blocks_stay_on_the_nodes_that_made_them(asking: Asking, shelf: Shelf) -> None:
    address = shelf.put("t.csv", table())
    fit = ["train", address, "--model", "lasso", "--alpha", "0.01", "--impute", "mean"]
    expected = asking.ask("inline", *fit)
    before = set(asking.on_nodes())
    same(asking.ask("ray", *fit), expected)
    made = [path for path in asking.on_nodes() if path not in before]
    homes = {int(path.parents[2].name.removeprefix("home-")) for path in made}
    assert len(homes) == 2  # both nodes have some
    assert len(made) >= 5
    assert len(asking.blocks()) <= 1  # the first, of which some rows are looked at
    # A node goes with all that it had, and another one comes with nothing. What is lost or damaged is made again.
    asking.yard.say("cut", 0)
    asking.yard.say("join")
    first, second, *_ = [path for path in made if path.parents[2].name == f"home-{max(homes)}"]
    first.unlink()
    second.write_bytes(b"?" * second.stat().st_size)
    same(asking.ask("ray", *fit), expected)


def test_a_gradient_run_whose_rows_travel_from_node_to_node(asking: Asking, shelf: Shelf) -> None:
    run = [
        "train", shelf.put("t.csv", table()), "--solver", "gradient", "--epochs", "2", "--batch-size", "64", "--shards", "5",
    ]  # fmt: skip
    same(asking.ask("ray", *run), asking.ask("inline", *run))
    assert {path.name for path in asking.yard.folder.glob("home-*/cache/shards-*/shard-*.bin")} == {
        f"shard-{number:06d}.bin" for number in range(5)
    }
    assert not list((asking.folder / "ray").rglob("shard-*.bin"))


def test_each_block_is_dealt_by_one_node_and_others_ask_that_one(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.engines.cluster.connection import Connection
    from shoal.engines.cluster.engine import RayEngine

    monkeypatch.setattr(limits, "BLOCK_BYTES", 30_000)
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    path, run, knobs = tmp_path / "t.csv", Trainer(tmp_path), {"epochs": 2, "batch_size": 64, "shards": 5, "seed": 3}
    path.write_text(table())
    before = set(asking.dealt())
    expected = run(path, "y", **knobs).w.tobytes()
    with RayEngine(2, Connection.to(asking.yard.address)) as engine:
        assert run(path, "y", engine=engine, **knobs).w.tobytes() == expected
    dealt = [path for path in asking.dealt() if path not in before]
    assert len({path.parents[3] for path in dealt}) == 2
    assert len({path.name for path in dealt}) == len(dealt) >= 5
    # A node goes with what it dealt: who comes in its place deals that again, and asks the other one for the rest.
    asking.yard.say("cut", 0)
    asking.yard.say("join")
    with RayEngine(2, Connection.to(asking.yard.address)) as engine:
        assert run(path, "y", engine=engine, **knobs).w.tobytes() == expected
