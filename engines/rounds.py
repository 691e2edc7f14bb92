"""A crew in training: what workers push goes to the server, what the server decides goes to them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from shoal.engines.base import Hire, Instruction, Kill, Send, Server
from shoal.engines.crew import Crew, CrewMember
from shoal.errors import WorkerFailed
from shoal.worker import Push, Reply, Request, Work, pack, unpack


class Training:
    """One training with the workers of a crew."""

    FAREWELL = 5.0  # seconds for a worker to come back from its last work when the training is over

    def __init__(self, crew: Crew, loop: Request, server: Server) -> None:
        self._crew, self._server = crew, server
        self._loop = pack(loop)
        self._waiting: set[int] = set()  # ranks that have pushed and wait for work
        self._dismissed: set[int] = set()
        self._orders: deque[Instruction] = deque()
        self._obeying = False
        self._ticked = 0.0

    def run(self) -> None:
        try:
            for member in list(self._crew.members.values()):
                if member.ready:
                    self._begin(member)
            while not self._server.finished:
                self._tick()
                self._listen(self._server.patience)
            self._send_home()
        finally:
            for member in self._training():  # after an error: nobody knows what they are doing
                self._crew.dismiss(member)

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._ticked >= self._server.patience / 2:
            self._ticked = now
            self._obey(self._server.tick(now))

    def _training(self) -> list[CrewMember]:
        return [member for member in self._crew.members.values() if member.trains]

    def _begin(self, member: CrewMember) -> None:
        member.trains = True
        try:
            member.ask(self._loop)
        except ConnectionError:
            self._lose(member)

    def _listen(self, timeout: float) -> None:
        for member in self._crew.listen(timeout):
            if self._crew.members.get(member.rank) is member:  # it may have been killed a moment ago
                self._hear(member)

    def _hear(self, member: CrewMember) -> None:
        try:
            parts = member.receive()
        except (EOFError, ConnectionError):
            self._lose(member)
            return
        message = unpack(parts)
        if isinstance(message, Push):
            self._take_in(member, message.update)
        elif isinstance(message, Reply) and member.trains:
            member.trains = False
            if message.error is not None:
                raise message.error
            self._came_home(member)
        elif not member.ready:
            self._crew.welcome(member)
            self._begin(member)

    def _take_in(self, member: CrewMember, update: Any) -> None:
        self._waiting.add(member.rank)
        now = time.monotonic()
        if self._server.finished:
            return
        if update is None:
            self._obey(self._server.joined(member.rank, member.pid, now))
        else:
            self._obey(self._server.pushed(member.rank, update, now))
            self._obey(self._server.digest(now))

    def _obey(self, instructions: Sequence[Instruction]) -> None:
        """Follow them in order; what the server says to their consequences comes after them, not in between."""
        self._orders.extend(instructions)
        if self._obeying:
            return
        self._obeying = True
        try:
            while self._orders:
                self._follow(self._orders.popleft())
        finally:
            self._obeying = False

    def _follow(self, instruction: Instruction) -> None:
        member = self._crew.members.get(instruction.rank)
        if isinstance(instruction, Hire):
            if member is None and not self._crew.hire(instruction.rank, replaces=True):
                self._tell_lost(instruction.rank, self._crew.last_failure)
        elif isinstance(instruction, Kill):
            if member is None:
                self._tell_lost(instruction.rank, None)
            else:
                self._lose(member, kill=True)
        elif member is None:
            return
        elif isinstance(instruction, Send):
            self._send(member, instruction.work)
        else:
            self._dismissed.add(member.rank)
            self._send(member, None)

    def _tell_lost(self, rank: int, failure: WorkerFailed | None) -> None:
        if not self._server.finished:
            failure = failure or WorkerFailed(rank, "could not be started")
            self._obey(self._server.lost(rank, failure, time.monotonic()))

    def _send(self, member: CrewMember, work: Any) -> None:
        self._waiting.discard(member.rank)
        try:
            member.tell(pack(Work(work)))
        except ConnectionError:
            self._lose(member)

    def _lose(self, member: CrewMember, *, kill: bool = False) -> None:
        failure = self._crew.kill(member) if kill else self._crew.lose(member)
        self._waiting.discard(member.rank)
        if member.rank in self._dismissed:  # it was on its way out
            self._left(member.rank)
        else:
            self._tell_lost(member.rank, failure)

    def _came_home(self, member: CrewMember) -> None:
        if member.rank in self._dismissed:
            self._crew.dismiss(member)
            self._left(member.rank)

    def _left(self, rank: int) -> None:
        self._dismissed.discard(rank)
        if not self._server.finished:
            self._obey(self._server.left(rank, time.monotonic()))

    def _send_home(self) -> None:
        """Everyone back to answering requests; who does not come back in time is replaced at the next sweep."""
        deadline = time.monotonic() + self.FAREWELL
        while self._training() and time.monotonic() < deadline:
            for rank in list(self._waiting):
                self._send(self._crew.members[rank], None)
            self._listen(0.05)
