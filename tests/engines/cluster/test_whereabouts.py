"""Who is asked about which block: whoever has it, and others only where that is quicker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from shoal.engines.base import AHEAD, Ledger
from shoal.engines.cluster.whereabouts import Whereabouts
from shoal.worker import Worker


@dataclass(frozen=True)
class About:
    """A request about a block."""

    place: str

    def answer(self, worker: Worker) -> str:
        return self.place


@dataclass(frozen=True)
class Meant:
    """A request that one worker had better answer."""

    owner: int

    def answer(self, worker: Worker) -> int:
        return self.owner


BOTH = {0: "a", 1: "b"}


def made(blocks: str) -> tuple[Whereabouts, list[About]]:
    """Blocks of the nodes that are written there, one letter each, and a question about each of them."""
    whereabouts, requests = Whereabouts(), [About(f"block {number}") for number in range(len(blocks))]
    for request, node in zip(requests, blocks, strict=True):
        whereabouts.asked(request, node, 0.0)
    return whereabouts, requests


def answered(whereabouts: Whereabouts, far: bool, seconds: float) -> None:
    block = About(f"another block {far}")
    asked = [whereabouts.asked(block, node, 0.0) for node in "ab"][far]
    whereabouts.answered(asked, seconds)


def test_a_block_goes_to_a_node_that_has_it_and_one_that_nobody_has_to_anybody() -> None:
    whereabouts, requests = made("aabb")
    assert whereabouts.choose(1, BOTH, requests, all_seen=False) == 2
    assert whereabouts.choose(1, BOTH, [requests[0], About("new")], all_seen=False) == 1
    assert whereabouts.choose(1, BOTH, requests[:2], all_seen=False) is None
    assert whereabouts.choose(1, {1: "b"}, requests[:2], all_seen=False) == 0, "its node is gone"


def test_a_block_of_another_node_is_made_again_only_where_that_is_quicker_than_to_wait() -> None:
    whereabouts, requests = made("a" * 20)
    assert whereabouts.choose(1, BOTH, requests[:2], all_seen=True) == 1, "once, to know what it takes"
    answered(whereabouts, False, 1.0)
    answered(whereabouts, True, 10.0)
    assert whereabouts.choose(1, BOTH, requests[:10], all_seen=True) is None
    assert whereabouts.choose(1, BOTH, requests[:11], all_seen=True) == 10, "the last, to which the other comes last"
    assert whereabouts.choose(1, {**BOTH, 2: "a"}, requests[:11], all_seen=True) is None, "two of them are quicker"


def test_what_is_meant_for_one_is_left_to_it_while_it_is_there() -> None:
    whereabouts, requests = Whereabouts(), [Meant(0), Meant(1), Meant(0)]
    assert whereabouts.choose(1, BOTH, requests, all_seen=False) == 1
    assert whereabouts.choose(1, BOTH, [requests[0], requests[2]], all_seen=True) is None
    assert whereabouts.choose(2, {**BOTH, 2: "a"}, requests, all_seen=False) == 0, "it lies on the same node then"
    assert whereabouts.choose(1, {1: "b"}, [requests[0]], all_seen=False) == 0, "nobody else is there"


def test_where_all_see_one_disk_nothing_is_made_and_nobody_waits() -> None:
    whereabouts, requests = made("aaa")
    for far in (False, True):
        answered(whereabouts, far, 1.0)
    assert whereabouts.choose(1, BOTH, requests[:2], all_seen=True) == 1


def test_a_ledger_looks_ahead_for_what_suits_and_keeps_few_reports() -> None:
    whereabouts, requests = made("a" * 10 + "b" * 40)
    answered(whereabouts, False, 1.0)
    answered(whereabouts, True, 1000.0)
    ledger = Ledger(requests, window=3)
    a, b = (partial(whereabouts.choose, rank, BOTH) for rank in BOTH)
    assert ledger.take(b) == (10, requests[10])
    ledger.settle(10, "ten")
    assert ledger.take(b) == (11, requests[11])
    assert ledger.take(a) == (0, requests[0])
    ledger.settle(11, "eleven")
    assert ledger.take(b) is None, "three are in hands or settled"
    ledger.settle(0, "nought")
    assert ledger.take(b) is None
    assert ledger.take(a) is None, "the first report is due"
    assert ledger.collect() == "nought"
    assert ledger.take(b) == (12, requests[12])
    assert ledger.take(a) == (1, requests[1]), "the one that all others wait for"


def test_a_ledger_does_not_look_ahead_without_end() -> None:
    whereabouts, requests = made("a" * 100)
    answered(whereabouts, False, 1.0)
    answered(whereabouts, True, 1000.0)
    drawn: list[About] = []

    def asking() -> object:
        for request in requests:
            drawn.append(request)
            yield request

    assert Ledger(asking(), window=3).take(partial(whereabouts.choose, 1, BOTH)) is None  # type: ignore[arg-type]
    assert len(drawn) == AHEAD * 3
