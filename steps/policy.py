"""Who may go on and who is overdue: the rules of a training as pure logic with a clock that is passed in.

Events come in by methods, decisions go out as values; nothing here sleeps, sends, computes a gradient or knows weights.
Updates that need not wait for each other are in `stale`, what is done about a lost worker in `failure`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from shoal.lazy.classes import dataclass
from shoal.steps.hash_ring import Ring

SHORTEST_LEASE = 3.0  # seconds that a worker may take for its work, however short the usual round is
LEASE_ROUNDS = 5  # usual rounds that it may take
FIRST_LEASE = 30.0  # while nothing is usual yet: files may still have to come from the disk


class Task(NamedTuple):
    """One shard's part of one step: in mode local several batches, in the finish the whole shard."""

    epoch: int
    step: int
    shard: int


@dataclass(frozen=True)
class Plan:
    """Which tasks an epoch has: `steps[s]` of shard s, with numbers from 0."""

    steps: tuple[int, ...]

    @property
    def longest(self) -> int:
        return max(self.steps, default=0)

    @property
    def tasks(self) -> int:
        """Tasks of one epoch."""
        return sum(self.steps)

    def at(self, epoch: int, step: int) -> list[Task]:
        return [Task(epoch, step, shard) for shard, steps in enumerate(self.steps) if step < steps]


@dataclass
class Member:
    """A worker as the rules see it."""

    rank: int
    tasks: tuple[Task, ...] = ()  # in its hands
    version: int = 0  # of the weights it was given with them
    since: float = 0.0  # when that was
    grace: float = 0.0  # seconds that its lease is longer for
    slowed: float = 1.0  # times as long as it has to that it was told to take
    looked: float = 0.0  # when it was last looked at, because it took long
    worked: float = 0.0  # when it was seen to have worked since the look before
    leaving: bool = False
    told: bool = False  # to leave
    held: tuple[Task, ...] = ()  # done, and in its memory alone until they are added up: see `grouped`
    adding: bool = False  # up what all members hold

    @property
    def busy(self) -> bool:
        return bool(self.tasks) or self.adding


@dataclass
class Counts:
    """The ledger: how often each batch was counted. Anything but once for every batch of an epoch is a fault."""

    plan: Plan
    open: dict[int, set[Task]] = field(default_factory=dict)  # epochs that have begun: tasks counted so far
    epochs: int = 0  # that are complete
    batches: int = 0
    redone: int = 0  # tasks that lost workers had in hand

    def count(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            counted = self.open.setdefault(task.epoch, set())
            if task in counted:
                raise AssertionError(f"{task} was counted twice")
            counted.add(task)
            self.batches += 1
        for epoch in [e for e, counted in self.open.items() if len(counted) == self.plan.tasks]:
            del self.open[epoch]
            self.epochs += 1

    def summary(self) -> dict[str, int]:
        return {"epochs": self.epochs, "batches": self.batches, "batches_of_an_epoch": self.plan.tasks,
                "redone": self.redone}  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        counted = {str(epoch): sorted([task.step, task.shard] for task in tasks) for epoch, tasks in self.open.items()}
        return {"epochs": self.epochs, "batches": self.batches, "redone": self.redone, "open": counted}

    @classmethod
    def restored(cls, plan: Plan, state: Mapping[str, Any]) -> Counts:
        counted = {
            int(epoch): {Task(int(epoch), step, shard) for step, shard in tasks}
            for epoch, tasks in state.get("open", {}).items()
        }
        return cls(plan, counted, state.get("epochs", 0), state.get("batches", 0), state.get("redone", 0))


class Policy(ABC):
    """The rules that all modes share: members, leases, the ledger."""

    def __init__(self, plan: Plan, epochs: int, state: Mapping[str, Any] | None = None) -> None:
        """`state` is what `state()` gave earlier: the accounts go on from there."""
        self.plan, self.epochs = plan, epochs
        self.counts = Counts.restored(plan, state or {})
        self.members: dict[int, Member] = {}
        self.paused = False
        self.closed = False
        self._ring = Ring()
        self._usual: float | None = None  # seconds that a member takes for what it is given
        self._load = 0.0  # tasks that it is usually given
        self._shared_out: dict[int, set[int]] | None = None

    # ------------------------------------------------------------ members come and go

    def join(self, rank: int) -> None:
        """A new member; if one of this rank was there, it is no more, and what it had in hand is to be done."""
        self.gone(rank)
        self.members[rank] = Member(rank)
        self._share_out()

    def succeed(self, before: Policy) -> None:
        """Another phase with the same members: who was to leave still is, and what was paused stays so."""
        self.paused = before.paused
        for old in before.members.values():
            self.members[old.rank] = Member(old.rank, leaving=old.leaving, told=old.told)
        self._share_out()

    def leave(self, rank: int) -> bool:
        """Take no more work, and go when there is none in hand; False for the last that stays: nobody would go on."""
        member = self.members.get(rank)
        if member is None or not any(m.rank != rank and not m.leaving for m in self.members.values()):
            return False
        member.leaving = True
        self._share_out()
        return True

    def _share_out(self) -> None:
        """Shards belong to those that stay: who leaves may take its time, and nobody waits for it."""
        staying = {m.rank for m in self.members.values() if not m.leaving}
        for rank in staying.symmetric_difference(self._ring.ranks):
            (self._ring.add if rank in staying else self._ring.remove)(rank)
        self._shared_out = None

    @property
    def _owners(self) -> dict[int, set[int]]:
        """The shards of those that stay; found when somebody is given work, not for each of hundreds that join."""
        if self._shared_out is None:
            self._shared_out = {rank: set(owned) for rank, owned in self._ring.assign(len(self.plan.steps)).items()}
        return self._shared_out

    def departing(self) -> list[Member]:
        """Members that can go now; they are told once, and are `gone` when they went."""
        ready = [m for m in self.members.values() if m.leaving and not (m.busy or m.held or m.told)]
        for member in ready:
            member.told = True
        return ready

    def state(self) -> dict[str, Any]:
        return self.counts.state()

    def gone(self, rank: int) -> tuple[Task, ...]:
        """The member is no more; the tasks that it had not done and others will do."""
        member = self.members.pop(rank, None)
        if member is None:
            return ()
        self._share_out()
        self.counts.redone += len(member.tasks)
        self._give_back(member.tasks)
        return member.tasks

    # ------------------------------------------------------------ work

    def pushed(self, rank: int, now: float) -> tuple[Task, ...]:
        """The member has done its work: what that was; nothing if it had been taken for dead."""
        member = self.members.get(rank)
        if member is None or not member.tasks:
            return ()
        self._learn(now - member.since, len(member.tasks))
        tasks, member.tasks = member.tasks, ()
        self._done(member, tasks)
        return tasks

    def grants(self, version: int, now: float) -> list[Member]:
        """Members that were idle and now have tasks."""
        if self.paused or self.closed or not self._has_work():
            return []
        granted = []
        idle = [member for member in self.members.values() if not member.busy and not member.leaving]
        for member in sorted(idle, key=lambda m: m.rank):
            if not self._has_work():
                break
            member.tasks = tuple(self._choose(member))
            if member.tasks:
                member.version, member.since, member.grace = version, now, 0.0
                granted.append(member)
        return granted

    @abstractmethod
    def due(self) -> list[Task]:
        """The tasks whose updates make the next step, in the order of their shards; empty while it cannot be made."""

    @abstractmethod
    def applied(self, tasks: list[Task]) -> None:
        """The step was made."""

    # ------------------------------------------------------------ time

    def _learn(self, took: float, tasks: int) -> None:
        if self._usual is None:
            self._usual, self._load = took, tasks
        else:
            self._usual, self._load = 0.9 * self._usual + 0.1 * took, 0.9 * self._load + 0.1 * tasks

    @property
    def lease(self) -> float:
        """Seconds that a member may take for as many tasks as are usual."""
        return FIRST_LEASE if self._usual is None else max(SHORTEST_LEASE, LEASE_ROUNDS * self._usual)

    def extend_leases(self, seconds: float) -> None:
        """The server itself was away for so long. `since` stays what it was: rounds are not shorter for it."""
        for member in self.members.values():
            member.grace += seconds

    def overdue(self, now: float) -> list[int]:
        """Members that hold tasks for longer than their lease and were not seen at work for as long: they hang, or are
        as good as dead.

        Who has more tasks than usual has more time: one that does the work of five lost ones is not dead.
        """
        holding = (m for m in self.members.values() if m.busy)
        return [m.rank for m in holding if now - max(m.since, m.worked) > self.lease_of(m) + m.grace]

    def doubted(self, now: float) -> list[int]:
        """Members whose lease is half over, to be looked at now and then (`look`): slow is not dead."""
        leases = ((m, self.lease_of(m)) for m in self.members.values() if m.busy)
        return [m.rank for m, lease in leases if now - m.since > lease / 2 and now - m.looked > lease / 8]

    def slow(self, rank: int, factor: float) -> None:
        """Who was told to be slow sleeps, and is not seen at work: its lease is as many times as long."""
        if rank in self.members:
            self.members[rank].slowed = factor

    def look(self, rank: int, works: bool, now: float) -> None:
        """`works`: since the look before; the first of these tasks only tells from where on that is."""
        member = self.members[rank]
        if works and member.looked > member.since:
            member.worked = now
        member.looked = now

    def lease_of(self, member: Member) -> float:
        """Seconds that this one may take for what it has in hand."""
        if self._usual is None:
            return FIRST_LEASE
        more = max(1.0, len(member.tasks) / self._load)
        return max(SHORTEST_LEASE, LEASE_ROUNDS * self._usual * more * member.slowed)

    def is_working(self, rank: int) -> bool:
        member = self.members.get(rank)
        return member is not None and member.busy

    @property
    def idle(self) -> bool:
        """Whether nothing is in anybody's hands or waits to be applied."""
        return not any(m.busy for m in self.members.values())

    @property
    def finished(self) -> bool:
        return self.counts.epochs >= self.epochs or not self.plan.tasks

    @property
    def progress(self) -> float:
        """Epochs, with fractions."""
        return self.counts.epochs + sum(map(len, self.counts.open.values())) / max(1, self.plan.tasks)

    # ------------------------------------------------------------ what a mode decides

    @abstractmethod
    def _has_work(self) -> bool:
        """Whether anybody could be given a task: asked before hundreds of idle members are looked at."""

    @abstractmethod
    def _choose(self, member: Member) -> list[Task]: ...

    @abstractmethod
    def _done(self, member: Member, tasks: tuple[Task, ...]) -> None: ...

    @abstractmethod
    def _give_back(self, tasks: tuple[Task, ...]) -> None: ...


class Barrier(Policy):
    """Modes sync and local, and the finish: a step is made when all shards of its number are done.

    A shard is computed by its owner on the ring, so that a round needs one message a worker; what a lost
    worker had goes to the new owners as they come free.
    """

    def __init__(self, plan: Plan, epochs: int, state: Mapping[str, Any] | None = None) -> None:
        super().__init__(plan, epochs, state)
        self._epoch = self.counts.epochs
        self._step = 1 + max((task.step for task in self.counts.open.get(self._epoch, ())), default=-1)
        self._begin()

    def due(self) -> list[Task]:
        if self.finished or len(self._ready) < len(self._round):
            return []
        return self._round

    def applied(self, tasks: list[Task]) -> None:
        self.counts.count(tasks)
        self._step += 1
        if self._step == self.plan.longest:
            self._epoch, self._step = self._epoch + 1, 0
        self._begin()

    def _begin(self) -> None:
        self._round = self.plan.at(self._epoch, self._step)
        self._open, self._ready = set(self._round), set[Task]()  # in nobody's hands; done

    def _has_work(self) -> bool:
        return bool(self._open) and not self.finished

    def _choose(self, member: Member) -> list[Task]:
        mine = self._owners[member.rank]
        here = (Task(self._epoch, self._step, shard) for shard in mine)  # not all that is open: they may be thousands
        tasks = sorted(task for task in here if task in self._open)
        self._open.difference_update(tasks)
        return tasks

    def _done(self, member: Member, tasks: tuple[Task, ...]) -> None:
        self._ready.update(tasks)

    def _give_back(self, tasks: tuple[Task, ...]) -> None:
        self._open.update(tasks)
