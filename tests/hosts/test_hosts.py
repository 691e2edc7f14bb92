"""Three hosts with nothing in common but the network and a table behind an address: the same answers, through a cable
that is pulled, a node that is killed and one that joins."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from shoal.metrics import Event
from shoal.storage.sql import SqliteStorage
from support.engines.hosts import DISK, Host, Hosts, can_be_made, until

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.skipif(not can_be_made(), reason="network namespaces need root, ip and nsenter"),
              pytest.mark.timeout(600)]  # fmt: skip


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    try:
        table = made.head.disk("table.csv")
        chance = np.random.default_rng(3)
        frame = pd.DataFrame(chance.normal(size=(200_000, 10)).round(5), columns=[f"x{i}" for i in range(10)])
        frame["y"] = (frame["x0"] - 2 * frame["x1"] + 0.1 * chance.normal(size=len(frame))).round(5)
        frame.to_csv(table, index=False)
        made.head.start(
            sys.executable, "-m", "support.engines.hosts", f"{DISK}/table.csv", made.head.address,
            *(node.address for node in made.nodes), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        made.start()
        yield made
    finally:
        made.close()


def address(hosts: Hosts) -> str:
    return f"http://{hosts.head.address}:8000/table.csv"


def cluster(hosts: Hosts) -> list[str]:
    return ["--engine", "ray", "--cluster", hosts.address, "--workers", "2"]


def test_an_exact_fit_without_a_common_disk(hosts: Hosts) -> None:
    fit = ["train", address(hosts), "--target", "y", "--model", "ridge", "--impute", "mean", "--json"]
    found = json.loads(hosts.head.shoal(*fit, *cluster(hosts)))
    hosts.head.environment["SHOAL_HOME"] = f"{DISK}/alone"
    expected = json.loads(hosts.head.shoal(*fit, "--engine", "inline"))
    hosts.head.environment["SHOAL_HOME"] = f"{DISK}/home"
    assert found["coefficients"] == expected["coefficients"]
    assert [len(list(node.disk("home", "cache").glob("*/block-*.bin"))) > 0 for node in hosts.nodes] == [True, True]
    assert len(list(hosts.head.disk("home", "cache").glob("*/block-*.bin"))) <= 1


class Watched:
    """A run on the first host, by its records."""

    def __init__(self, head: Host, name: str) -> None:
        self.folder: Path = head.disk("home", "runs", name)

    def events(self, kind: str) -> list[Event]:
        with SqliteStorage(self.folder / "metrics.sqlite") as storage:
            return [event for _, event in storage.events(kinds=[kind])]

    def rounds(self) -> int:
        with SqliteStorage(self.folder / "metrics.sqlite") as storage:
            last = storage.last_round()
        return last.round if last else 0

    def nodes(self) -> set[str]:
        """Those whose workers were looked at lately."""
        with SqliteStorage(self.folder / "metrics.sqlite") as storage:
            links = storage.links()
        newest = max((link.seconds for link in links), default=0.0)
        return {link.node for link in links if newest - link.seconds < 2}


def test_a_gradient_run_through_a_cut_cable_a_killed_node_and_one_that_joins(hosts: Hosts) -> None:
    asked = ["train", address(hosts), "--target", "y", "--solver", "gradient", "--epochs", "1000000", "--tolerance", "0",
             "--restarts", "20", "--detach", "--json"]  # fmt: skip
    run = Watched(hosts.head, json.loads(hosts.head.shoal(*asked, *cluster(hosts)))["run_id"])
    first, second = hosts.nodes
    both = {first.address, second.address}
    until(lambda: (run.folder / "metrics.sqlite").exists() and run.nodes() == both, "both nodes at work")
    began = time.monotonic()
    hosts.cut(first)
    until(lambda: run.events("lost"), "the loss of a node whose cable was pulled")
    print(f"\ncut cable: noticed after {time.monotonic() - began:.1f} s: {run.events('lost')[0].data['cause']}")
    rounds = run.rounds()
    until(lambda: run.rounds() > rounds + 5 and run.nodes() == {second.address}, "the other node to go on alone")
    hosts.cut(first, back=True)
    print(f"cable back: both at work after {until(lambda: run.nodes() == both, 'the node that is back'):.1f} s")
    lost = len(run.events("lost"))
    for process in map(psutil.Process, second.processes()):
        if "raylet" in process.name():
            process.send_signal(signal.SIGKILL)
    print(f"killed raylet: noticed after {until(lambda: len(run.events('lost')) > lost, 'the lost node'):.1f} s")
    until(lambda: run.nodes() == {first.address}, "the first node to go on alone")
    hosts.join(second)
    print(f"joined: both at work after {until(lambda: run.nodes() == both, 'the node that joins'):.1f} s")
    hosts.head.shoal("stop", run.folder.name)
    until(lambda: json.loads((run.folder / "state.json").read_text())["state"] == "stopped", "the run to stop")
