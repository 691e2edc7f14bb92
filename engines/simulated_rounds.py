"""A training on a virtual clock: the server is told and obeyed as `rounds` does with processes, in the order of virtual
time; updates are really computed, what they cost is charged."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from shoal.engines.base import Hire, Instruction, Kill, Send, Server
from shoal.engines.virtual import NO_CHAIN, Chain, Line, Luck, Surroundings, TimeSpent, VirtualClock
from shoal.errors import EngineError, WorkerFailed
from shoal.lazy.classes import dataclass

TICK = 0.9  # seconds: a server that is not asked for longer takes itself for held up
FOR_NOTHING = 10_000  # ticks in a row in which nothing else happens, from which on nothing ever will


@dataclass
class SimulatedWorker:
    """One life of a worker."""

    rank: int
    luck: Luck
    connected: bool = True


@dataclass(frozen=True)
class _Message:
    """What has come to the server, and waits until it has time; without an update, somebody joins."""

    worker: SimulatedWorker
    update: Any = None
    chain: Chain = NO_CHAIN
    came: float = 0.0


@dataclass
class SimulatedTraining:
    """One training of simulated workers; `done` turns work into an update."""

    clock: VirtualClock
    around: Surroundings
    server: Server
    done: Callable[[Any], Any]
    workers: int
    account: TimeSpent = field(default_factory=TimeSpent)

    def __post_init__(self) -> None:
        self._members: dict[int, SimulatedWorker] = {}
        self._lives: dict[int, int] = {}
        self._inbox: deque[_Message] = deque()
        self._serving = False
        self._began = self._ended = self.clock.now
        self._down, self._up = Line(self.around.network), Line(self.around.network)

    def run(self) -> TimeSpent:
        for rank in range(self.workers):
            self._start(rank)
        self._tick()
        quiet = 0
        while not self.server.finished:
            before = len(self.clock)
            self.clock.step()
            quiet = quiet + 1 if before == 1 else 0
            if quiet > FOR_NOTHING:
                raise EngineError("Nothing more happens in this simulated run: nobody has work, and nobody will come.")
        account = self.account
        account.seconds = max(self.clock.now, self._ended) - self._began
        account.nbytes = self._down.nbytes + self._up.nbytes
        account.line = max(self._down.busy, self._up.busy)
        return account

    def _tick(self) -> None:
        if self.server.finished:
            return
        self._obey(self.server.tick(self.clock.now), self.clock.now, self._chain())
        self.clock.at(self.clock.now + max(TICK, self.server.patience), self._tick)

    def _chain(self) -> Chain:
        """Of what begins now and by no message: nobody had anything to say since the last one was heard."""
        return self.account.chain.plus(slow=max(0.0, self.clock.now - self._began - sum(self.account.chain)))

    # ---------------------------------------------------------------- workers come and go

    def _start(self, rank: int) -> None:
        life = self._lives[rank] = self._lives.get(rank, -1) + 1
        luck = Luck(self.around.seed, rank, life, self.around.stragglers, self.around.failures)
        worker = self._members[rank] = SimulatedWorker(rank, luck)
        now = self.clock.now
        self.clock.at(now + self.around.network.latency, lambda: self._arrive(_Message(worker, None, Chain(), now)))
        if luck.lifetime < float("inf"):
            self.clock.at(now + luck.lifetime, lambda: self._end(worker))

    def _end(self, worker: SimulatedWorker) -> None:
        """It is gone, or cut off: the server hears of the first, and of the second by nothing at all."""
        if self._members.get(worker.rank) is not worker:
            return
        worker.connected = False
        if not worker.luck.silent:
            self.clock.at(self.clock.now + self.around.failures.notice, lambda: self._lose(worker, "it died"))

    def _lose(self, worker: SimulatedWorker, cause: str) -> None:
        if self._members.get(worker.rank) is not worker or self.server.finished:
            return
        del self._members[worker.rank]
        worker.connected = False
        self.account.lost += 1
        now = self.clock.now
        instructions = self.server.lost(worker.rank, WorkerFailed(worker.rank, cause), now)
        self._obey(instructions, now, self._chain())

    # ---------------------------------------------------------------- the server takes in one message after another

    def _arrive(self, message: _Message) -> None:
        if message.worker.connected:
            self._inbox.append(message)
            self._serve()

    def _serve(self) -> None:
        if self._serving or not self._inbox or self.server.finished:
            return
        message, now = self._inbox.popleft(), self.clock.now
        worker = message.worker
        if self._members.get(worker.rank) is not worker:  # it was killed while its message waited
            self._serve()
            return
        free = self._ended = now + self._hear(message, now)
        self.account.served += free - now
        self._serving = True
        self.clock.at(free, self._free)

    def _free(self) -> None:
        self._serving = False
        self._serve()

    def _hear(self, message: _Message, now: float) -> float:
        """Let the server know, follow what it says; the seconds that this took it."""
        rank, costs = message.worker.rank, self.around.costs
        if message.update is None:
            chain = message.chain.plus(network=now - message.came)
            return self._obey(self.server.joined(rank, os.getpid(), now), now, chain) - now
        self.account.pushes += 1
        took, chain = costs.taking(message.update), message.chain.plus(server=now - message.came)
        self.account.chain = chain.plus(server=took)
        answers = self.server.pushed(rank, message.update, now)
        free = self._obey(answers, now + took, chain.plus(server=took))
        free += costs.digest() if any(isinstance(one, Send) for one in answers) else 0.0
        return self._obey(self.server.digest(now), free, self.account.chain.plus(server=free - now - took)) - now

    # ---------------------------------------------------------------- what the server says is done

    def _obey(self, instructions: Sequence[Instruction], free: float, chain: Chain) -> float:
        """Follow them; when the server is free again. `free` is when it came to them, by this chain of events."""
        costs, began = self.around.costs, free
        if any(isinstance(one, Send) for one in instructions):
            free += costs.step()
        for one in instructions:
            if isinstance(one, Send):
                free += costs.answer()
                self._send(one, free, chain.plus(server=free - began))
            elif isinstance(one, Hire):
                self.clock.at(free + self.around.failures.restart, functools.partial(self._hire, one.rank))
            elif isinstance(one, Kill):
                self._kill(one.rank)
            elif (worker := self._members.pop(one.rank, None)) is not None:
                worker.connected = False
                free = self._obey(self.server.left(one.rank, self.clock.now), free, chain)
        return free

    def _hire(self, rank: int) -> None:
        if rank not in self._members and not self.server.finished:
            self._start(rank)

    def _kill(self, rank: int) -> None:
        worker = self._members.get(rank)
        if worker is not None:
            self.clock.at(self.clock.now, lambda: self._lose(worker, "it was killed"))

    def _send(self, one: Send, leaves: float, chain: Chain) -> None:
        """Work on its way; the update is computed now, from the weights that travel with it."""
        worker = self._members.get(one.rank)
        if worker is None:
            return
        costs = self.around.costs
        arrives = self._down.carry(costs.down(one.work), leaves)
        update = self.done(one.work)
        least = costs.work(one.work, update)
        took = least * worker.luck.factor()
        chain = chain.plus(network=arrives - leaves, work=least, slow=took - least)
        self.clock.at(arrives + took, lambda: self._push(worker, update, chain, took))

    def _push(self, worker: SimulatedWorker, update: Any, chain: Chain, took: float) -> None:
        if not worker.connected:
            return
        self.account.worked += took
        now = self.clock.now
        came = self._up.carry(self.around.costs.up(update), now)
        message = _Message(worker, update, chain.plus(network=came - now), came)
        self.clock.at(came, lambda: self._arrive(message))
