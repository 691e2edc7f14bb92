"""What adding gradients up takes, side by side: by the server, by all-reduce among workers, by DDP (gloo), and
one plain PyTorch process that has nothing to add up. Printed as the table of docs/networks.md.

`digits`: the network of examples/mnist_distributed.py, 256 rows a step: 8 shards of 32 rows here (or 2 of 128, where it
is said). `table`: layers of 128 and 64 on a million rows of 50 columns, as --model mlp has them, 2,048 rows a step: 4
shards of 512. AdamW; in DDP each process has half of the rows of a step, and the plain one has one batch; every process
has one thread. All take turns,
`--repeats` times; ratios are of turns that followed each other, and a figure is their median with the ends. Processor
time of all processes of a contestant stands beside it: where other programs want the cores, more processes are given
more of them, and only that tells what the work takes. The exchange is the time from the last gradient of a step to the
weights of the next.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from torch import nn

from shoal.training.conductor import Conductor

ROOT = Path(__file__).parents[2]
RATE = 1e-3
WARM = 10  # steps before the clock is started


class StepWork(NamedTuple):
    """What all contestants compute: rows of a step, and how they lie in shards here."""

    shards: int
    batch: int
    steps: int
    loss: str

    @property
    def rows(self) -> int:
        return self.shards * self.batch


TASKS = {"digits": StepWork(8, 32, 60, "cross_entropy"), "table": StepWork(4, 512, 600, "mse_loss")}


class TurnFigures(NamedTuple):
    rows: float  # a second
    used: float  # milliseconds of processors for a thousand rows
    exchange: float = float("nan")  # milliseconds a step


def digits() -> nn.Module:
    """The module of the example, by the name that its file is imported under in every process."""
    torch.manual_seed(0)
    found = importlib.util.find_spec("mnist_distributed")
    assert found is not None, f"PYTHONPATH lacks {ROOT / 'examples'}"
    made: nn.Module = importlib.import_module("mnist_distributed").DigitNet()
    return made


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(50, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))


def network(name: str) -> nn.Module:
    return digits() if name == "digits" else layers()


def rows(name: str, folder: Path) -> tuple[Any, Any]:
    """A million rows; MNIST, or noise of its shape: what a step takes does not depend on what is in a picture."""
    if name == "table":
        made = np.random.default_rng(0).standard_normal((1_000_000, 51), np.float32)
        return made[:, :50], made[:, 50:]
    if (file := folder / "mnist_full_uint8.npz").exists():
        with np.load(file) as found:
            return found["x_train"], found["y_train"].astype(np.int64)
    random = np.random.default_rng(0)
    return random.integers(0, 256, (20_000, 28, 28), np.uint8), random.integers(0, 10, 20_000)


# ------------------------------------------------------------------ plain PyTorch, alone or by DDP


def peer(name: str, folder: Path, file: str, rank: int, size: int, steps: int) -> None:
    """One process of PyTorch; tells the seconds of the steps and its processor time."""
    torch.set_num_threads(1)
    X, y = rows(name, folder)
    net, loss_of = network(name), getattr(nn.functional, TASKS[name].loss)
    if size > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{file}", rank=rank, world_size=size, timeout=datetime.timedelta(minutes=10)
        )
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), RATE)
    random, began, used = np.random.default_rng(rank), 0.0, 0.0
    for step in range(WARM + steps):
        if step == WARM:
            began, used = time.perf_counter(), time.process_time()
        some = random.integers(0, len(X), TASKS[name].rows // size)
        optimizer.zero_grad()
        loss_of(net(torch.from_numpy(X[some]).float()), torch.from_numpy(y[some])).backward()
        optimizer.step()
    print(json.dumps([time.perf_counter() - began, time.process_time() - used]), flush=True)


def pytorch(name: str, folder: Path, size: int, steps: int) -> TurnFigures:
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "benchmarks.networks.aggregation", "--network", name, "--data", str(folder)]
        asked = [
            subprocess.Popen(
                [*command, "--peer", f"{place}/group", str(rank), str(size), str(steps)],
                stdout=subprocess.PIPE, text=True, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}, cwd=ROOT,
            )
            for rank in range(size)
        ]  # fmt: skip
        told = [json.loads(one.communicate()[0]) for one in asked]
    done = steps * TASKS[name].rows
    return TurnFigures(done / max(seconds for seconds, _ in told), 1e6 * sum(used for _, used in told) / done)


# ------------------------------------------------------------------ here


class Stopwatch:
    """From the end of the first steps to that of the last: seconds, and processor time of workers and server."""

    def __init__(self, steps: int) -> None:
        self.steps, self.began, self.ended = steps, (0.0, 0.0), (0.0, 0.0)
        self.exchange: list[float] = []

    def look(self, run: Conductor, record: Any) -> None:
        if record.round == WARM:
            self.began = _clocks(run)
        elif WARM < record.round <= WARM + self.steps:
            before, self.last = getattr(self, "last", None), record.seconds
            if before is not None:
                self.exchange.append(record.apply * (record.seconds - before))
            if record.round == WARM + self.steps:
                self.ended = _clocks(run)
                run.stop("measured")


def _clocks(run: Conductor) -> tuple[float, float]:
    times = [psutil.Process(worker.pid).cpu_times() for worker in run.server.workers.values()]
    return time.perf_counter(), time.process_time() + sum(used.user + used.system for used in times)


def ours(name: str, path: Path, aggregation: str, workers: int, steps: int, shards: int = 0) -> TurnFigures:
    from support.training import Each, Trainer

    task = TASKS[name]
    shards = shards or task.shards
    clock = Stopwatch(steps)
    with tempfile.TemporaryDirectory() as place:
        Trainer(Path(place))(
            path, "y", workers=workers, callbacks=[Each(clock.look)], model="module", shards=shards,
            batch_size=task.rows // shards, epochs=1000, learning_rate=RATE, step_rule="adamw", tolerance=0,
            aggregation=aggregation, checkpoint_seconds=1e6,
        )  # fmt: skip
    seconds, used = (after - before for after, before in zip(clock.ended, clock.began, strict=True))
    done = steps * task.rows
    return TurnFigures(done / seconds, 1e6 * used / done, 1e3 * float(np.median(clock.exchange)))


def told(name: str, turns: list[TurnFigures], plain: list[TurnFigures]) -> str:
    def between(values: list[float], digits: str) -> str:
        return f"{np.median(values):{digits}} ({min(values):{digits}} to {max(values):{digits}})"

    speed = between([a.rows / b.rows for a, b in zip(turns, plain, strict=True)], ".2f")
    used = between([a.used / b.used for a, b in zip(turns, plain, strict=True)], ".2f")
    exchange = [turn.exchange for turn in turns]
    return f"| {name} | {speed} | {used} | {between(exchange, '.2f') if np.isfinite(exchange).all() else ''} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "mnist")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--network", choices=list(TASKS), default="digits")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--only", default="", help="contestants whose names have one of these words, and the plain one")
    parser.add_argument("--peer", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    name, data = chosen.network, chosen.data
    if chosen.peer:
        file, *numbers = chosen.peer
        peer(name, data, file, *map(int, numbers))
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        os.environ["SHOAL_HOME"] = home
        from shoal.networks.storing import stored_module

        path, steps = Path(stored_module(network(name), rows(name, data), TASKS[name].loss)), TASKS[name].steps
        steps = chosen.steps or steps
        contestants: dict[str, Callable[[], TurnFigures]] = {
            "plain PyTorch, one process": lambda: pytorch(name, data, 1, steps),
            "DDP (gloo), two processes": lambda: pytorch(name, data, 2, steps),
            f"server, two workers, {TASKS[name].shards} shards": lambda: ours(name, path, "server", 2, steps),
            "server, two workers, 2 shards": lambda: ours(name, path, "server", 2, steps, 2),
            "all-reduce, two workers": lambda: ours(name, path, "allreduce", 2, steps),
        }
        words = ["plain", *filter(None, chosen.only.split(","))] if chosen.only else [""]
        contestants = {who: run for who, run in contestants.items() if any(word in who for word in words)}
        found: dict[str, list[TurnFigures]] = {who: [] for who in contestants}
        for _ in range(chosen.repeats):
            for who, measured in contestants.items():
                found[who].append(measured())
                print(f"{who}: {found[who][-1]}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print("| | rows a second, of those of plain PyTorch | processor time a row, of that | exchange, ms a step |")
    print("|---|---|---|---|")
    plain = found["plain PyTorch, one process"]
    for who, turns in found.items():
        print(told(who, turns, plain))


if __name__ == "__main__":
    main()
