"""The parts of the cluster's engine that need no cluster: leases, repeated calls, and what is said where there is none."""

from __future__ import annotations

import itertools
import os
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from shoal.engines.cluster import connection
from shoal.engines.cluster.connection import Connection
from shoal.engines.cluster.doors import Doors, refusing
from shoal.engines.cluster.leases import EVERY, SHORTEST, Lease
from shoal.errors import ConfigError, ResourceError
from shoal.home import UMASK
from shoal.worker import Push, Reply, Work, Worker, pack, unpack
from support.runs import until

# --- leases ---------------------------------------------------------------------------------------------


def test_a_worker_is_asked_in_turn_and_may_not_be_silent_for_long() -> None:
    lease = Lease(0.0)
    assert not lease.is_due(EVERY - 0.1)
    assert lease.is_due(EVERY)
    lease.ask(1.0)
    assert not lease.is_due(2.0)  # not twice
    assert not lease.is_over(1.0 + SHORTEST)
    assert lease.is_over(1.1 + SHORTEST)
    lease.answer(2.0)
    assert not lease.is_over(100.0)  # nothing was asked since
    assert not lease.is_due(2.9)
    assert lease.is_due(3.0)


def test_who_usually_takes_longer_has_more_time() -> None:
    lease = Lease(0.0)
    lease.ask(0.0)
    lease.answer(2.0)
    assert lease.seconds == 10.0
    lease.ask(3.0)
    assert not lease.is_over(12.9)
    assert lease.is_over(13.1)


def test_nobody_is_to_blame_while_the_one_who_asks_is_away() -> None:
    lease = Lease(0.0)
    lease.ask(1.0)
    lease.excuse(50.0)
    assert not lease.is_over(51.0 + SHORTEST)
    assert lease.is_over(51.1 + SHORTEST)


def test_a_node_whose_port_is_shut_says_so_by_itself_and_a_busy_one_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head, socket.create_server(("127.0.0.1", 0)) as busy:
        shut = socket.create_server(("127.0.0.1", 0))
        found = {"busy": busy.getsockname(), "shut": shut.getsockname()}
        assert refusing(found, 0.1) == set()
        doors = Doors(":".join(map(str, head.getsockname())))
        try:
            for node, door in found.items():
                doors.watch(node, door)
            shut.close()
            assert refusing(found, 0.1) == {"shut"}
            until(lambda: doors.shut == {"shut"})
        finally:
            doors.close()


# --- calls ----------------------------------------------------------------------------------------------


@dataclass
class Counting:
    """A loop that counts what it was given."""

    done: list[int] = field(default_factory=list)

    def begin(self, worker: Worker) -> Any:
        def add(number: int) -> int:
            self.done.append(number)
            return sum(self.done)

        return add


@pytest.fixture
def _own_mask(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker keeps what it writes to itself, and so do those whom it starts; the process of the tests does not."""
    before = os.umask(0)
    os.umask(before)
    monkeypatch.setenv(UMASK, f"{before:o}")  # taken away again with what the worker makes of it
    yield
    os.umask(before)


@pytest.mark.usefixtures("_own_mask")
def test_the_same_work_asked_for_twice_is_done_once() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from shoal.engines.cluster.actor import RayWorker, as_arrays, as_parts

    worker = RayWorker(0, [])
    assert unpack(as_parts(worker.train(as_arrays(pack(Counting())), [], []))) == Push(None)
    answers = [worker.work(number, as_arrays(pack(Work(5)))) for number in (7, 7, 8)]
    assert [unpack(as_parts(answer)) for answer in answers] == [Push(5), Push(5), Push(10)]
    assert unpack(as_parts(worker.work(9, as_arrays(pack(Work(None)))))) == Reply()


@pytest.mark.parametrize("sizes", [[], [5], [1400, *[400, 20_800] * 12], [200_000, 3], [80_000] * 9])
def test_an_answer_in_pieces_is_whole_and_comes_with_the_answer_where_it_can(sizes: list[int]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from shoal.engines.cluster.actor import PIECE, PIECES, in_pieces

    arrays = [np.full(size, number, np.uint8) for number, size in enumerate(sizes)]
    pieces = in_pieces(arrays)
    assert len(pieces) == PIECES
    assert [array is one for array, one in zip(arrays, itertools.chain(*pieces), strict=True)] == [True] * len(sizes)
    if sum(sizes) <= (PIECES - 1) * PIECE and max(sizes, default=0) <= PIECE:
        assert max(sum(array.nbytes for array in piece) for piece in pieces) <= PIECE


def test_what_was_carried_can_be_written_to() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from shoal.engines.cluster.actor import as_arrays, as_parts

    carried = as_arrays(pack([np.arange(3), np.empty(0)]))
    for array in carried:
        array.flags.writeable = False  # as the object store hands it out
    numbers, nothing = unpack(as_parts(carried))
    numbers += 1
    assert numbers.tolist() == [1, 2, 3]
    assert nothing.shape == (0,)


def test_who_computes_or_waits_for_another_node_gets_on() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from shoal.engines.cluster.actor import Beat
    from shoal.engines.cluster.crew import RayMember

    member = RayMember.__new__(RayMember)
    member.beat, member.lease, member._worked = None, Lease(time.monotonic()), 0.0
    assert not member.gets_on()  # nothing is known of it yet
    member.beat = Beat(1.0, 0)
    assert [member.gets_on(), member.gets_on()] == [True, False]
    member.beat = Beat(1.01, 0)  # an actor that hangs has threads of its own
    assert not member.gets_on()
    member.beat = Beat(1.01, 0, waits=True)
    assert member.gets_on()
    member.lease.ask(time.monotonic() - 2 * EVERY)
    assert not member.gets_on()  # what it said last is old


def test_a_node_that_fell_silent_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from shoal.engines.cluster import neighbours

    tried: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        shut = server.getsockname()[:2]
    monkeypatch.setattr(neighbours, "door_of", lambda node: tried.append(node) or shut)
    asking = neighbours.Neighbours()
    assert [asking.ask("n1", len, "abc") for _ in range(8)] == [None] * 8
    assert tried == ["n1"]
    assert asking.ask("n2", len, "abc") is None
    assert tried == ["n1", "n2"]
    assert not asking.is_waiting


# --- where there is no cluster --------------------------------------------------------------------------


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine that answers and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.usefixtures("no_token")
def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ResourceError, match=r"Expected Ray for engine ray.*pip install 'shoal\[ray\]'"):
        connection.imported()


@pytest.mark.parametrize("address", ["somewhere", "host:", "ray://host:10001", ":6379"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="Expected the address of a cluster as HOST:PORT"):
        Connection.to(address)


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    with pytest.raises(ResourceError, match=rf"Nobody answers at 127.0.0.1:{free}.*ray start --head"):
        Connection.to(f"127.0.0.1:{free}")


@pytest.mark.usefixtures("no_token")
def test_without_a_token_it_says_where_one_is_looked_for(port: int) -> None:
    with pytest.raises(ConfigError, match=r"Expected the token of the cluster in RAY_AUTH_TOKEN.*--open-cluster"):
        Connection.to(f"127.0.0.1:{port}")


def test_other_versions_are_named() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from ray._private.utils import check_version_info

    there = {"ray_version": "1.0.0", "python_version": "3.7.1"}
    said = r"same versions.*Ray: 1\.0\.0 Python: 3\.7\.1.*here or there"
    with pytest.raises(ResourceError, match=said), connection._plain_words("host:1"):
        check_version_info(there, "this machine")
