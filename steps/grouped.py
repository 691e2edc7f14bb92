"""Whose turn it is where workers add gradients up among themselves: compute, add up, step; pure logic like `policy`.

A round has two halves. In the first, shards are computed as in any `Barrier`, and whoever computed one holds its
gradient. In the second all members are called to add up what they hold. Nobody waits for a peer that still computes, so
a lease tells who hangs in either half. A member that is lost takes along what it held: that is computed again, and all
are called anew, as another generation of the group. How sums are made is in `allreduce`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.steps.policy import LEASE_ROUNDS, SHORTEST_LEASE, Barrier, Member, Plan, Task

TRIES = 5  # sums in a row that may fail while nobody is lost


class Call(NamedTuple):
    """To add up: all members in the order of their ranks, with the shards that each holds in rising order."""

    generation: int  # members of another one are no peers any more
    patience: float  # seconds after which a peer that is silent is given up
    holders: tuple[tuple[int, tuple[int, ...]], ...]  # (rank, shards)


class GroupBarrier(Barrier):
    """Mode sync with sums by the workers: a step is made when all shards are done and added up."""

    def __init__(self, plan: Plan, epochs: int, state: Mapping[str, Any] | None = None) -> None:
        self.generation = 0
        self.failures = 0  # of sums, in a row, with all members there
        self._group: tuple[int, ...] = ()  # who has been called together and is still the same process
        self._sound = True  # so far, the sum that is being made
        self._usual_sum: float | None = None  # seconds
        self._is_summed = False
        super().__init__(plan, epochs, state)

    # ------------------------------------------------------------ members come and go

    def gone(self, rank: int) -> tuple[Task, ...]:
        """What it held is lost with it; whoever comes under its rank is a stranger to the group."""
        member = self.members.get(rank)
        lost = super().gone(rank)
        if member is None:
            return lost
        self._sound, self._group = False, ()
        if not self._is_summed:
            lost = (*lost, *member.held)
            self._ready.difference_update(member.held)
            self._open.update(member.held)
            self.counts.redone += len(member.held)
        return lost

    # ------------------------------------------------------------ the second half of a round

    def called(self, now: float) -> Call | None:
        """All members, when everything is done and nobody has been called for it yet; they are busy from here on."""
        if self._is_summed or not super().due() or any(member.adding for member in self.members.values()):
            return None
        members = sorted((m for m in self.members.values() if not m.told), key=lambda member: member.rank)
        group = tuple(member.rank for member in members)
        if group != self._group:
            self._group, self.generation = group, self.generation + 1
        self._sound = True
        for member in members:
            member.adding, member.since, member.grace = True, now, 0.0
        holders = tuple((m.rank, tuple(sorted(task.shard for task in m.held))) for m in members)
        return Call(self.generation, self.patience, holders)

    def added(self, rank: int, done: bool, now: float) -> bool:
        """The member has done its part of the sum, or could not; whether all have, and the sum is made."""
        member = self.members.get(rank)
        if member is None or not member.adding:
            return False
        member.adding = False
        self._sound &= done
        if any(other.adding for other in self.members.values()):
            return False
        if self._sound:
            took = now - member.since
            self._usual_sum = took if self._usual_sum is None else 0.9 * self._usual_sum + 0.1 * took
            self.failures, self._is_summed = 0, True
        else:
            self.failures += bool(self._group)  # else somebody was lost, and that is why
            self._group = ()  # connections that failed are not used again
        return self._is_summed

    def due(self) -> list[Task]:
        return super().due() if self._is_summed else []

    @property
    def patience(self) -> float:
        """Longer after every failure: machines may be slower than anybody would think."""
        usual = LEASE_ROUNDS * (self._usual_sum or 0.0)
        return float(max(SHORTEST_LEASE, usual) * 2**self.failures)

    # ------------------------------------------------------------ what a mode decides

    def lease_of(self, member: Member) -> float:
        """Peers of one that hangs give it up, twice if they were to meet first, before it is taken for dead: so nobody
        else is."""
        return 3 * self.patience if member.adding else super().lease_of(member)

    def _begin(self) -> None:
        super()._begin()
        self._is_summed = False
        for member in self.members.values():
            member.held = ()

    def _done(self, member: Member, tasks: tuple[Task, ...]) -> None:
        super()._done(member, tasks)
        member.held = (*member.held, *tasks)
