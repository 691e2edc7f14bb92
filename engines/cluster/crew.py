"""Actors of a cluster as a crew: a call for each message, an answer for each call, leases for the silent."""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError

from shoal.engines.base import WorkerEvent
from shoal.engines.cluster.actor import TORCH, Beat, Brief, Introduction, RayWorker, as_arrays, as_parts, versions
from shoal.engines.cluster.connection import Connection
from shoal.engines.cluster.doors import Doors
from shoal.engines.cluster.leases import EVERY, HELD_UP, Lease
from shoal.engines.cluster.neighbours import door_of
from shoal.engines.cluster.standby import leave_behind
from shoal.engines.crew import Crew, CrewMember
from shoal.errors import EngineError, Remedy, WorkerFailed
from shoal.worker import Parts, Ready, SharedArray, pack

COMPUTED = 0.1  # seconds of the processor between two beats: an actor that hangs uses less
NODE = "ray.io/node-id"  # the label by which Ray knows a node
PLACED = {"max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}

Shared = dict[int, tuple[SharedArray | Brief, Any]]  # by key: what it is, and by what the cluster knows it


class RayMember(CrewMember):
    """One actor, the call that it is at, and its lease."""

    def __init__(
        self, rank: int, replaces: bool, handle: Any, shared: Shared, mailbox: Mailbox, avoids: frozenset[str]
    ) -> None:
        super().__init__(rank, replaces)
        self.avoids = avoids  # nodes that it must not be placed on
        self.facts: Introduction | None = None
        self.lease: Lease | None = None  # from when on it is ready: before, it may wait for a free core
        self.since = time.monotonic()  # that it was to start
        self.beat: Beat | None = None
        self._worked = 0.0  # seconds of the processor when it was last seen to get on
        self.sent = self.received = 0  # bytes of messages
        self.door: tuple[str, int] | None = None  # where its node answers
        self._handle, self._shared, self._mailbox = handle, shared, mailbox
        self._holds: set[int] = set()
        self._number = 0  # of the call that is awaited: an answer to any other is none
        self._pulse: Future[Beat] | None = None
        self._cause = "it was ended"
        self._call: list[Future[Any]] = []  # a future for each value of the answer
        self._await(handle.ready.remote())

    @property
    def pid(self) -> int:
        return self.facts.pid if self.facts else 0

    @property
    def node(self) -> str:
        return self.facts.node if self.facts else ""

    @property
    def is_reached(self) -> bool:
        """Whether it has answered lately."""
        return self.lease is not None and not self.verdict and self.lease.silent(time.monotonic()) <= EVERY

    @property
    def number(self) -> int:
        return self._number

    def ask(self, request: Parts) -> None:
        drop, new = list(self._holds - self._shared.keys()), list(self._shared.keys() - self._holds)
        self._holds = set(self._shared)
        hold, references = [self._shared[key][0] for key in new], [self._shared[key][1] for key in new]
        self.sent += _length(request)
        method = self._handle.train if self.trains else self._handle.answer
        self._await(method.remote(as_arrays(request), drop, hold, *references))

    def tell(self, message: Parts) -> None:
        self.sent += _length(message)
        self._await(self._handle.work.remote(self._number + 1, as_arrays(message)))

    def receive(self) -> Parts:
        if self.verdict:
            raise EOFError(self.verdict)
        try:
            found, *more = [future.result(0) for future in self._call]
        except RayError as error:
            self._cause = _cause(error)
            raise EOFError(self._cause) from None
        if isinstance(found, Introduction):
            self.facts, self.lease = found, Lease(time.monotonic())
            _compare(found)
            return pack(Ready())
        parts = as_parts(list(itertools.chain(found, *more)))
        self.received += _length(parts)
        return parts

    def kill(self) -> None:
        with contextlib.suppress(RayError, ValueError):
            ray.kill(self._handle, no_restart=True)

    def bury(self) -> WorkerFailed:
        self.kill()
        self._number += 1
        return WorkerFailed(self.rank, self.verdict or self._cause)

    def look(self, now: float) -> bool:
        """Ask for a sign of life when it is time to; whether it has been silent for too long."""
        if self.lease is None or self.verdict:
            return False
        if self._pulse is not None and self._pulse.done():
            if self._pulse.exception() is None:  # else the call that it is at tells the same, or the lease does
                self.beat = self._pulse.result()
                self.lease.answer(now)
            self._pulse = None
        if self.lease.is_due(now):
            self.lease.ask(now)
            self._pulse = self._handle.beat.remote().future()
        if self.lease.is_over(now):
            self.verdict = f"nothing was heard of it for {self.lease.silent(now):.1f} s"
            return True
        return False

    def gets_on(self) -> bool:
        """Whether it computed since this was last so, or waits for what another node has."""
        if self.beat is None or self.lease is None or self.lease.silent(time.monotonic()) > EVERY:
            return False  # what is known of it is old
        computed = self.beat.cpu - self._worked >= COMPUTED
        if computed:
            self._worked = self.beat.cpu
        return computed or self.beat.waits

    def _await(self, references: Any) -> None:
        """The values of one answer: it has come when all of them have, of which some may come through a store."""
        self._number += 1
        number = self._number
        self._call = [one.future() for one in (references if isinstance(references, list) else [references])]
        missing = itertools.count(len(self._call) - 1, -1)  # counts in one step, whichever thread it is

        def came(_: Any) -> None:
            if next(missing) == 0:
                self._mailbox.put((self, number))

        for future in self._call:
            future.add_done_callback(came)


Mailbox = queue.SimpleQueue[tuple[RayMember, int]]


class RayCrew(Crew):
    """Actors, each with a core of its own, spread over the nodes."""

    NOBODY = 3600.0  # seconds to wait for the first free core
    SAID = 5.0  # seconds without anybody after which that is said, and said again
    START = 120.0  # seconds for a worker to start where cores are free

    def __init__(
        self, emit: Callable[[WorkerEvent], None], preload: Sequence[str], connection: Connection,
        waits: Callable[[str], None], cores: int = 1,
    ) -> None:  # fmt: skip
        """`waits` is told why nobody is at work; `cores` are of each."""
        super().__init__(emit)
        self._cores = cores
        self.shared: Shared = {}
        self._preload, self._connection, self._waits = list(preload), connection, waits
        self._mailbox: Mailbox = queue.SimpleQueue()
        self._looked = self._seen = self._said = time.monotonic()
        self._doors = Doors(connection.gcs_address())
        self._actor = ray.remote(concurrency_groups={"beside": 1})(RayWorker)

    def start(self, rank: int, *, replaces: bool) -> CrewMember:
        cut = self._doors.cut  # Ray trusts them for another minute
        elsewhere = {"label_selector": {NODE: f"!in({','.join(sorted(cut))})"}} if cut else {}
        handle = self._actor.options(num_cpus=self._cores, **PLACED, **elsewhere).remote(rank, self._preload)
        return RayMember(rank, replaces, handle, self.shared, self._mailbox, cut)

    def lose(self, member: CrewMember) -> WorkerFailed:
        """Whoever comes in its place is not to be put on a node that went with it."""
        assert isinstance(member, RayMember)
        if member.door is not None:
            self._doors.suspect(member.node, member.door)
        return super().lose(member)

    def welcome(self, member: CrewMember) -> None:
        assert isinstance(member, RayMember)
        member.door = door_of(member.node)  # now: later the head may be gone, who knows it
        if member.door is not None:
            self._doors.watch(member.node, member.door)
        super().welcome(member)

    def close(self) -> None:
        used = [member.door for member in self.members.values() if isinstance(member, RayMember) and member.is_reached]
        super().close()
        self._doors.close()
        if self._cores and self._connection.address:  # a cluster that stays
            leave_behind(door for door in used if door is not None)

    def listen(self, timeout: float) -> Iterable[CrewMember]:
        heard: dict[int, tuple[RayMember, int]] = {}
        with contextlib.suppress(queue.Empty):
            self._note(heard, self._mailbox.get(timeout=timeout) if timeout else self._mailbox.get_nowait())
            while True:
                self._note(heard, self._mailbox.get_nowait())
        now = time.monotonic()
        for member in self._silent(now, timeout):
            heard[member.rank] = member, member.number
        if self._doors.head_is_gone:
            raise _head_gone(self._doors.head)
        self._check_anybody(now)
        return (  # looked at one by one: who was told something since then is at another call
            member for member, number in heard.values() if member.verdict or member.number == number
        )

    def hung(self, seconds: float) -> list[CrewMember]:
        return []  # they are heard of by `listen`

    def forget(self, member: CrewMember) -> None:
        """Its answers are not looked at any more."""

    def _note(self, heard: dict[int, tuple[RayMember, int]], message: tuple[RayMember, int]) -> None:
        member, number = message
        if self.members.get(member.rank) is member and member.number == number:
            heard[member.rank] = message

    def _silent(self, now: float, waited: float) -> list[RayMember]:
        away, self._looked = now - self._looked - waited, now
        found: list[RayMember] = []
        shut = self._doors.shut
        for member in list(self.members.values()):
            assert isinstance(member, RayMember)
            if member.node in shut and not member.verdict:
                member.verdict = "the cluster's own process on its node (raylet) ended"
                found.append(member)
                continue
            if away > HELD_UP and member.lease is not None:
                member.lease.excuse(away)
            if member.look(now):
                found.append(member)
            elif member.lease is None:
                self._look_at_start(member, now, found)
        return found

    def _look_at_start(self, member: RayMember, now: float, found: list[RayMember]) -> None:
        """One that waits for a place is placed anew when a node that it was to avoid is back."""
        if member.avoids - self._doors.cut:
            member.kill()
            self.members[member.rank] = self.start(member.rank, replaces=member.replaces)
        elif now - member.since > self.START:
            member.since = now
            if not self._doors.cut and self._connection.free_cores() >= self._cores:
                member.verdict = f"it did not start within {self.START:.0f} s, though there are free cores"
                found.append(member)

    def _check_anybody(self, now: float) -> None:
        if any(member.ready for member in self.members.values()) or not self.members:
            self._seen = self._said = now
        elif now - self._seen > self.NOBODY:
            raise EngineError(self._connection.no_place())
        elif now - self._said > self.SAID:
            self._said = now
            self._waits(self._connection.waiting())


def _length(parts: Parts) -> int:
    return sum(len(part) for part in parts)


def _head_gone(address: str) -> EngineError:
    return EngineError(
        f"The head of the cluster at {address} does not answer any more. What a run has saved so far is kept.",
        Remedy.say("Start the cluster again, or go on with another one: shoal resume RUN --cluster HOST:PORT"),
    )


def _cause(error: RayError) -> str:
    text = str(error)
    if isinstance(error, ActorUnavailableError):
        return "its node cannot be reached"
    if "node has died" in text or "node died" in text:
        return "its node went away"
    if "worker process has died" in text:
        return "its process on the cluster ended, possibly killed or out of memory"
    if "creation task" in text:
        return f"it could not be started: {text.strip().splitlines()[-1]}"
    if isinstance(error, RayActorError):
        return "it is gone from the cluster"
    return f"the cluster lost its answer ({type(error).__name__})"


def _compare(facts: Introduction) -> None:
    """A node with another version could give other bits, or answers that nobody can read."""
    if facts.missing:
        extra = "[torch]" if facts.missing in ("torch", "safetensors") else ""
        raise EngineError(
            f"The node {facts.address} of the cluster does not have {facts.missing}, which this run needs on every "
            f"node that works for it. Install it there with: pip install 'shoal{extra}'"
        )
    here = versions(*(name for name in facts.versions if name == TORCH))
    other = [f"{name} {there}, here {here[name]}" for name, there in facts.versions.items() if there != here[name]]
    if other:
        raise EngineError(
            f"The node {facts.address} of the cluster has {'; '.join(other)}. Install the same versions on all nodes."
        )
