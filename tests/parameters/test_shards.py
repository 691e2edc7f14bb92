"""Parameter shards: real processes that step their pieces, with the bits of one process, however many and whoever dies."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from shoal.engines import processes
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.models import L1L2, Array, NoPenalty, Penalty
from shoal.parameters.own import OwnParameters
from shoal.parameters.shards import ShardedParameters
from shoal.parameters.stepping import VectorStep
from shoal.passes.board import ServerBoard
from shoal.passes.parcels import server_board
from shoal.steps.compression import make_compression
from shoal.steps.optimizers import SGD, Accelerated, AdaGrad, Adam, AdamW, Momentum, StepRule
from shoal.steps.placement import pieces_of
from support.runs import until
from support.tables import same_bits

PARTS = [("first.weight", 40_000), ("first.bias", 7), ("last.weight", 20_000), ("last.bias", 1)]
WIDTH = sum(size for _, size in PARTS)
ROWS = (40, 30, 20)  # of three shards of rows
RULES: dict[str, Callable[[], StepRule]] = {
    "sgd": lambda: SGD(WIDTH), "momentum": lambda: Momentum(WIDTH), "adagrad": lambda: AdaGrad(WIDTH),
    "adam": lambda: Adam(WIDTH), "adamw": lambda: AdamW(WIDTH, weight_decay=0.1),
}  # fmt: skip


class Rig:
    """A vector with its board, and steps by updates that depend on their number alone."""

    def __init__(self, board: ServerBoard, held: OwnParameters) -> None:
        self.board, self.held, self.version = board, held, 0

    def begin(self, rule: StepRule) -> None:
        self.held.put(np.random.default_rng(1).standard_normal(WIDTH))
        self.held.begin(rule)
        self.version = 0
        self.held.publish(0)

    def step(
        self, *, clip: float = 0.0, compression: str = "none", local: int = 0, penalty: Penalty | None = None
    ) -> None:
        encoding = make_compression(compression, WIDTH, 0.2)
        for shard in range(len(ROWS)):
            update = np.random.default_rng((2, self.version, shard)).standard_normal(WIDTH) * ROWS[shard]
            encoding.encode(update, self.board._slots[shard])
        step = VectorStep((0, 1, 2), (encoding,) * 3, ROWS, 0.1, local, clip, penalty or NoPenalty())
        self.held.apply(step, self.version)
        self.version += 1
        self.held.publish(self.version)

    def state(self) -> dict[str, Array]:
        found = {**self.held.state(), "gradient": self.held.gradient.copy()}
        assert same_bits(self.board.published(self.version), found["weights"])
        return found


@pytest.fixture(scope="module")
def engine() -> Iterator[ProcessEngine]:
    with ProcessEngine(1) as opened:
        yield opened


@pytest.fixture
def rigs(engine: ProcessEngine) -> Iterator[list[Any]]:
    """One process, and shards; the latter's parameters, and what they told."""
    told: list[dict[str, Any]] = []
    boards = [server_board(engine.allocate, len(ROWS), WIDTH) for _ in range(2)]
    start, pieces = np.zeros(WIDTH), pieces_of(PARTS)
    sharded = ShardedParameters(
        boards[1], start, pieces, engine, 3, lambda kind, text, **data: told.append({"text": text, **data})
    )
    found = [Rig(boards[0], OwnParameters(boards[0], start, pieces)), Rig(boards[1], sharded), sharded, told]
    yield found
    found.clear()  # pytest would keep their memory until later
    sharded.release()
    for board in boards:
        for shared in board.memory:
            engine.release(shared)


def all_here(sharded: ShardedParameters) -> dict[int, int]:
    """Their processes, when all that are wanted have come."""

    def here() -> dict[int, int]:
        sharded.tick()
        lines = {line["shard"]: line["pid"] for line in sharded.table() if line["state"] == "here"}
        return lines if len(lines) == sharded.count else {}

    found: dict[int, int] = until(here)
    return found


def same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    return one.keys() == other.keys() and all(same_bits(one[name], other[name]) for name in one)


def test_any_number_of_shards_gives_the_bits_of_one_process(rigs: Any) -> None:
    alone, rig, sharded, _ = rigs
    ways: list[dict[str, Any]] = [{}, {"clip": 3.0}, {"clip": 1e9}, {"compression": "topk"}, {"compression": "half"},
                                  {"penalty": L1L2(0.3, 0.2)}, {"local": 4}]  # fmt: skip
    for count in (2, 3):
        sharded.scale(count)
        all_here(sharded)
        for name, rule in RULES.items():
            before = sharded.steps_apart
            for each in (alone, rig):
                each.begin(rule())
                for knobs in ways:
                    each.step(**knobs)
            assert same(alone.state(), rig.state()), (count, name)
            assert sharded.steps_apart == before + len(ways)


def test_a_long_vector_is_stepped_in_stretches_by_one_process_with_the_same_bits(
    rigs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, rig, sharded, _ = rigs
    monkeypatch.setattr(sharded, "_is_long", True)
    for rule in RULES.values():
        for each in (alone, rig):
            each.begin(rule())
            for knobs in ({}, {"clip": 3.0}, {"compression": "topk"}):
                each.step(**knobs)
        assert sharded.w.base is not None, "it lies on the board"
        assert same(alone.state(), rig.state())
    assert sharded.steps_apart == 0


def test_what_is_about_the_whole_vector_is_stepped_by_one_process(rigs: Any) -> None:
    """Rules and penalties that cannot be taken apart, in the middle of a run with shards; those of plug-ins too."""
    alone, rig, sharded, _ = rigs
    sharded.scale(2)
    all_here(sharded)

    class Together:
        def __getattr__(self, name: str) -> Any:
            return getattr(L1L2(0.1), name)

    class Doubling(SGD):
        def step(self, w: Array, gradient: Array, rate: float, prox: Any) -> Array:
            return super().step(w, gradient, 2 * rate, prox)

    for rule, knobs in ((Accelerated(WIDTH), {}), (Doubling(WIDTH), {}), (SGD(WIDTH), {"penalty": Together()})):
        before = sharded.steps_apart
        for each in (alone, rig):
            each.begin(rule.of_width(WIDTH))
            each.step(**knobs)
        assert same(alone.state(), rig.state())
        assert sharded.steps_apart == before


def test_shards_that_are_killed_at_any_moment_change_no_bit(rigs: Any) -> None:
    """Before, during and between steps, one or all at a time; the others, or the server, go on at once."""
    alone, rig, sharded, told = rigs
    sharded.scale(3)
    chance = random.Random(4)
    for each in (alone, rig):
        each.begin(Adam(WIDTH))
    kills = 0
    for blow in range(6):
        pids = list(all_here(sharded).values())
        victims = pids if blow == 5 else [chance.choice(pids)]
        seconds = 0.0 if blow in (0, 5) else chance.uniform(0, 0.01)
        killer = threading.Timer(seconds, lambda v: [os.kill(pid, signal.SIGKILL) for pid in v], [victims])
        killer.start()
        if not seconds:
            killer.join()
        for each in (alone, rig):
            for _ in range(3):
                each.step(clip=2.0)
        killer.join()
        kills += len(victims)
        assert same(alone.state(), rig.state()), blow
    all_here(sharded)
    lost = [event for event in told if "lost" in event]
    assert len(lost) == kills
    assert all(event["signal"] == signal.SIGKILL for event in lost)
    rig.step(clip=2.0)
    alone.step(clip=2.0)
    assert same(alone.state(), rig.state())


def test_a_shard_that_hangs_is_replaced(rigs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "HELPING", 0.5)
    alone, rig, sharded, told = rigs
    sharded.scale(2)
    pids = all_here(sharded)
    for each in (alone, rig):
        each.begin(Momentum(WIDTH))
    os.kill(pids[1], signal.SIGSTOP)
    for each in (alone, rig):
        each.step()
    assert same(alone.state(), rig.state())
    assert all_here(sharded)[1] != pids[1]
    assert "did nothing for 0.5 seconds" in next(event["text"] for event in told if "lost" in event)


def test_shards_come_and_go_and_move_their_share_only(rigs: Any) -> None:
    alone, rig, sharded, told = rigs
    for each in (alone, rig):
        each.begin(AdamW(WIDTH))
    shares: list[dict[int, int]] = []
    for count in (2, 4, 3, 1, 2):
        sharded.scale(count)
        if count > 1:
            all_here(sharded)
        shares.append({line["shard"]: line["parameters"] for line in sharded.table()})
        assert sum(shares[-1].values()) == WIDTH
        for each in (alone, rig):
            each.step()
        assert same(alone.state(), rig.state()), count
    two, four, three, one, again = shares
    assert all(four[shard] < two[shard] for shard in two), "both gave up some, and neither gained"
    assert all(three[shard] >= four[shard] for shard in three)
    assert one == {0: WIDTH}
    assert again == two
    assert sharded.steps_apart == 4
    assert [line["state"] for line in told[-1]["shards"]] == ["here", "here"]


def test_a_shard_that_is_lost_again_and_again_is_given_up(rigs: Any) -> None:
    _, rig, sharded, told = rigs
    sharded.scale(2)
    for losses in range(4):
        os.kill(all_here(sharded)[1], signal.SIGKILL)
        until(lambda losses=losses: sharded.tick() or len([e for e in told if "lost" in e]) == losses + 1)
    assert "for good: it was lost 4 times in a row" in told[-1]["text"]
    assert [line["state"] for line in sharded.table()] == ["here", "gone"]
    rig.begin(SGD(WIDTH))
    rig.step()
    assert sharded.steps_apart == 1
    sharded.scale(2)  # a person asks for it once more
    all_here(sharded)


def test_where_there_are_no_processes_one_shard_is_said_to_be_all_there_is() -> None:
    told: list[str] = []
    with InlineEngine() as engine:
        board = server_board(engine.allocate, len(ROWS), WIDTH)
        sharded = ShardedParameters(
            board, np.zeros(WIDTH), pieces_of(PARTS), engine, 3, lambda kind, text, **data: told.append(text)
        )
        sharded.scale(3)
        assert not sharded.possible
        assert sharded.count == 1
        assert told == [
            "Parameter shards: 3 are asked for, and there is one. More are processes beside worker processes (engine "
            "processes or ray)."
        ]
        rig = Rig(board, sharded)
        rig.begin(SGD(WIDTH))
        rig.step()
        assert [line["state"] for line in sharded.table()] == ["server"]
