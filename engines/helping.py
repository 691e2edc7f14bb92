"""Helpers: a second crew that is asked all at once, wherever it is; not what it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.engines.base import Helpers, Ledger
from shoal.engines.crew import Crew, CrewMember
from shoal.errors import WorkerFailed
from shoal.utils import plain_error
from shoal.worker import Ping, Request, pack, unpack


class CrewHelpers(Helpers):
    """One counts as ready when it has answered a first question: by then all that it needs is imported."""

    LOOK = 0.25  # seconds between two looks for one that hangs

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._none = Ledger((), 1)
        self._at_home: set[CrewMember] = set()  # who has answered that first question
        self._lost: list[WorkerFailed] = []
        self._closed = False

    @property
    def ready(self) -> dict[int, int]:
        idle = {rank: member for rank, member in sorted(self._crew.members.items()) if member in self._at_home}
        return {rank: member.pid for rank, member in idle.items() if member.job is None}

    def hire(self, rank: int) -> None:
        if rank not in self._crew.members and not self._crew.hire(rank, replaces=False):
            assert self._crew.last_failure is not None
            self._lost.append(self._crew.last_failure)

    def dismiss(self, rank: int) -> None:
        if (member := self._crew.members.get(rank)) is not None:
            self._at_home.discard(member)
            self._crew.dismiss(member)

    def kill(self, rank: int) -> None:
        if (member := self._crew.members.get(rank)) is not None:
            member.kill()

    def news(self) -> list[WorkerFailed]:
        self._listen(0)
        lost, self._lost = self._lost, []
        return lost

    def ask(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        reports: dict[int, Any] = {}
        asked = {rank: self._crew.members[rank] for rank in requests}
        for rank, member in asked.items():
            self._send(member, requests[rank])
        while any(self._crew.members.get(rank) is member and member.job for rank, member in asked.items()):
            for member, report in self._listen(self.LOOK):
                if asked.get(member.rank) is member:
                    reports[member.rank] = report
        return reports

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._crew.close()

    def _send(self, member: CrewMember, request: Request) -> None:
        try:
            member.ask(pack(request))
        except ConnectionError:
            self._lose(member)
        else:
            member.job = self._none, 0

    def _listen(self, timeout: float) -> list[tuple[CrewMember, Any]]:
        """What was said; who hangs is ended."""
        heard = list(self._crew.listen(timeout))
        found = []
        for member in heard:
            try:
                parts = member.receive()
            except (EOFError, ConnectionError):
                self._lose(member)
                continue
            if member.job is None:
                self._crew.welcome(member)
                self._send(member, Ping())
                continue
            member.job = None
            self._at_home.add(member)
            found.append((member, self._said(parts)))
        if not heard and timeout:
            for member in self._crew.hung(timeout):
                member.kill()
                self._lose(member)
        return found

    @staticmethod
    def _said(parts: Sequence[memoryview | bytes]) -> Any:
        try:
            reply = unpack(parts)
        except Exception as error:
            raise plain_error(parts, error) from error
        if reply.error is not None:
            raise reply.error
        return reply.report

    def _lose(self, member: CrewMember) -> None:
        self._at_home.discard(member)
        self._lost.append(self._crew.lose(member))
