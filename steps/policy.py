"""Who may go on, what is stale, who is dead: the rules of a training as pure logic with a clock that is passed in.

Events come in by methods, decisions go out as values; nothing here sleeps, sends, computes a gradient or knows weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

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
    leaving: bool = False
    told: bool = False  # to leave


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
        self._owners: dict[int, set[int]] = {}  # the shards of those that stay

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
            self.join(old.rank)
            self.members[old.rank].leaving, self.members[old.rank].told = old.leaving, old.told
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
        self._owners = {rank: set(owned) for rank, owned in self._ring.assign(len(self.plan.steps)).items()}

    def departing(self) -> list[Member]:
        """Members that can go now; they are told once, and are `gone` when they went."""
        ready = [m for m in self.members.values() if m.leaving and not m.tasks and not m.told]
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
        if self.paused or self.closed:
            return []
        granted = []
        for member in sorted(self.members.values(), key=lambda m: m.rank):
            if member.tasks or member.leaving:
                continue
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
        """Members that hold tasks for longer than their lease: they hang, or are as good as dead.

        Who has more tasks than usual has more time: one that does the work of five lost ones is not dead.
        """
        return [m.rank for m in self.members.values() if m.tasks and now - m.since > self._lease_of(m) + m.grace]

    def _lease_of(self, member: Member) -> float:
        if self._usual is None:
            return FIRST_LEASE
        return max(SHORTEST_LEASE, LEASE_ROUNDS * self._usual * max(1.0, len(member.tasks) / self._load))

    @property
    def idle(self) -> bool:
        """Whether nothing is in anybody's hands or waits to be applied."""
        return not any(m.tasks for m in self.members.values())

    @property
    def finished(self) -> bool:
        return self.counts.epochs >= self.epochs or not self.plan.tasks

    @property
    def progress(self) -> float:
        """Epochs, with fractions."""
        return self.counts.epochs + sum(map(len, self.counts.open.values())) / max(1, self.plan.tasks)

    # ------------------------------------------------------------ what a mode decides

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

    def _choose(self, member: Member) -> list[Task]:
        if self.finished:
            return []
        mine = self._owners[member.rank]
        tasks = sorted(task for task in self._open if task.shard in mine)
        self._open.difference_update(tasks)
        return tasks

    def _done(self, member: Member, tasks: tuple[Task, ...]) -> None:
        self._ready.update(tasks)

    def _give_back(self, tasks: tuple[Task, ...]) -> None:
        self._open.update(tasks)


class Update(NamedTuple):
    """An update that has come and waits to be applied."""

    task: Task
    version: int  # of the weights that it was made from
    rank: int


class Stale(Policy):
    """Modes ssp and async: an update is applied as it comes, made from weights at most `bound` updates old.

    Outstanding are the updates that somebody works on and those that wait. If they were applied oldest first,
    the i-th would meet the version v + i; as long as v + i - version_i <= bound for all of them the bound can be
    kept. Work is given out, and updates applied out of order, only if it stays that way; so the oldest can always
    be applied, and nobody waits for ever.

    A worker takes the next batch of its own shards; when those are through with the epoch, one of the shard that
    has most left to do. A shard is in one worker's hands at a time.
    """

    def __init__(self, plan: Plan, epochs: int, bound: float, state: Mapping[str, Any] | None = None) -> None:
        super().__init__(plan, epochs, state)
        self.bound = bound
        self._version = 0
        self._busy: set[int] = set()
        self._arrived: list[Update] = []
        self._epoch = max(self.counts.open, default=self.counts.epochs)
        self._next = [0] * len(plan.steps)
        self._returned = [task for task in self._begun() if task not in self.counts.open[task.epoch]]

    def _begun(self) -> list[Task]:
        """Restored: the tasks up to the last counted one; those of them that were not counted are to be done."""
        begun = []
        for epoch, counted in sorted(self.counts.open.items()):
            ends = (
                dict.fromkeys(range(len(self.plan.steps)), 0)
                if epoch == self._epoch
                else dict(enumerate(self.plan.steps))
            )
            for task in counted:
                ends[task.shard] = max(ends[task.shard], task.step + 1)
            begun += [Task(epoch, step, shard) for shard, end in ends.items() for step in range(end)]
            if epoch == self._epoch:
                self._next = list(ends.values())
        return begun

    def due(self) -> list[Task]:
        outstanding = self._outstanding()
        for update in self._arrived:
            rest = list(outstanding)
            rest.remove(update.version)
            if self._can_keep(rest, self._version + 1) or update.version == outstanding[0]:
                return [update.task]
        return []

    def applied(self, tasks: list[Task]) -> None:
        self._arrived = [update for update in self._arrived if update.task not in tasks]
        self._busy.difference_update(task.shard for task in tasks)
        self.counts.count(tasks)
        self._version += 1

    @property
    def idle(self) -> bool:
        return super().idle and not self._arrived

    def grants(self, version: int, now: float) -> list[Member]:
        self._version = version
        return super().grants(version, now)

    def _outstanding(self) -> list[int]:
        return sorted([m.version for m in self.members.values() if m.tasks] + [u.version for u in self._arrived])

    def _can_keep(self, outstanding: list[int], version: int) -> bool:
        return all(version + i - made_from <= self.bound for i, made_from in enumerate(outstanding))

    def _choose(self, member: Member) -> list[Task]:
        waits = any(update.rank == member.rank for update in self._arrived)
        if waits or not self._can_keep([*self._outstanding(), self._version], self._version):
            return []
        task = self._returned_task() or self._next_task(member)
        if task is None:
            return []
        self._busy.add(task.shard)
        return [task]

    def _returned_task(self) -> Task | None:
        for task in self._returned:
            if task.shard not in self._busy:
                self._returned.remove(task)
                return task
        return None

    def _next_task(self, member: Member) -> Task | None:
        while self._epoch < self.epochs:
            left = {s: n - self._next[s] for s, n in enumerate(self.plan.steps) if n > self._next[s]}
            if left:
                free = {s: n for s, n in left.items() if s not in self._busy}
                own = {s: n for s, n in free.items() if s in self._owners[member.rank]}
                shard = max(own or free, key=lambda s: (left[s], -s), default=None)
                if shard is None:
                    return None
                self._next[shard] += 1
                return Task(self._epoch, self._next[shard] - 1, shard)
            self._epoch, self._next = self._epoch + 1, [0] * len(self.plan.steps)
        return None

    def _done(self, member: Member, tasks: tuple[Task, ...]) -> None:
        self._arrived += [Update(task, member.version, member.rank) for task in tasks]

    def _give_back(self, tasks: tuple[Task, ...]) -> None:
        self._returned += tasks
        self._busy.difference_update(task.shard for task in tasks)


@dataclass(frozen=True)
class Loss:
    """What is known when a worker is lost."""

    rank: int
    in_a_row: int  # losses of this rank since it last did any work
    others: int  # members that live


Decision = Literal["replace", "go on", "stop"]


@dataclass(frozen=True)
class FailurePolicy:
    """What to do about a lost worker: one small object, asked once a loss."""

    on_loss: Literal["retry", "fewer", "stop"] = "retry"
    restarts: int = 3

    def decide(self, loss: Loss) -> Decision:
        if self.on_loss == "stop":
            return "stop"
        if self.on_loss == "retry" and loss.in_a_row <= self.restarts:
            return "replace"
        return "go on" if loss.others else "stop"

    def why(self, in_a_row: int) -> str:
        """Why a run stopped."""
        if self.on_loss == "stop":
            return "on_worker_loss is 'stop'"
        if self.on_loss == "fewer":
            return "on_worker_loss is 'fewer', and no other is left"
        times = "once" if in_a_row == 1 else f"{in_a_row} times in a row"
        return f"it was lost {times}, and no other is left"
