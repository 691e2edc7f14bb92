"""The rules of the modes ssp and async: updates are applied as they come, from weights that are not too old."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.steps.policy import Member, Plan, Policy, Task


class Arrival(NamedTuple):
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
        self._arrived: list[Arrival] = []
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
        if self._unbound and self._arrived:
            return [self._arrived[0].task]
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
        if all(member.tasks or member.leaving for member in self.members.values()):
            return []  # nobody is idle: the bound need not be looked at
        return super().grants(version, now)

    def _outstanding(self) -> list[int]:
        return sorted([m.version for m in self.members.values() if m.tasks] + [u.version for u in self._arrived])

    def _can_keep(self, outstanding: list[int], version: int) -> bool:
        return self._unbound or all(version + i - made_from <= self.bound for i, made_from in enumerate(outstanding))

    @property
    def _unbound(self) -> bool:
        return self.bound == math.inf

    def _has_work(self) -> bool:
        if not self._has_task():
            return False
        return self._unbound or self._can_keep([*self._outstanding(), self._version], self._version)

    def _has_task(self) -> bool:
        """One that was given back, one of a shard that nobody has, or one of the next epoch."""
        left = [shard for shard, steps in enumerate(self.plan.steps) if steps > self._next[shard]]
        begins = not left and self._epoch + 1 < self.epochs
        return bool(self._returned) or begins or (self._epoch < self.epochs and not self._busy.issuperset(left))

    def _choose(self, member: Member) -> list[Task]:
        if any(update.rank == member.rank for update in self._arrived):
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
        self._arrived += [Arrival(task, member.version, member.rank) for task in tasks]

    def _give_back(self, tasks: tuple[Task, ...]) -> None:
        self._returned += tasks
        self._busy.difference_update(task.shard for task in tasks)
