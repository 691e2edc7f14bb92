"""Helpers of one machine: a second crew of processes that is asked all at once; not what they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.engines.base import Helpers, Ledger
from shoal.engines.crew import CrewMember
from shoal.engines.worker_process import ProcessCrew
from shoal.errors import WorkerFailed
from shoal.utils import plain_error
from shoal.worker import Ping, Request, SharedArray, pack, unpack


class HelperProcesses(Helpers):
    """One counts as ready when it has answered a first question: by then all that it needs is imported."""

    LOOK = 0.25  # seconds between two looks for one that hangs
    LEASE = 3.0  # seconds in which one that is asked may do nothing; one that works may take any time

    def __init__(self, shared: dict[int, tuple[SharedArray, int]], preload: Sequence[str]) -> None:
        self._crew = ProcessCrew(lambda event: None, preload, shared)
        self._crew.lease = self.LEASE
        self._none = Ledger((), 1)
        self._lost: list[WorkerFailed] = []
        self._closed = False

    @property
    def ready(self) -> dict[int, int]:
        return {rank: member.pid for rank, member in sorted(self._crew.members.items()) if self._is_idle(member)}

    @staticmethod
    def _is_idle(member: CrewMember) -> bool:
        return member.trains and member.job is None

    def hire(self, rank: int) -> None:
        if rank not in self._crew.members and not self._crew.hire(rank, replaces=False):
            assert self._crew.last_failure is not None
            self._lost.append(self._crew.last_failure)

    def dismiss(self, rank: int) -> None:
        if (member := self._crew.members.get(rank)) is not None:
            self._crew.dismiss(member)

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
            member.job, member.trains = None, True
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
        self._lost.append(self._crew.lose(member))
