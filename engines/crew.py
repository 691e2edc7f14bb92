"""Workers as an engine sees them, wherever they are: hired, told, heard, lost and buried; not what they do.

Worker processes of this machine are in `worker_process`, actors of a cluster in `cluster`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from shoal.engines.base import Ledger, WorkerEvent
from shoal.errors import WorkerFailed
from shoal.worker import Parts


class CrewMember(ABC):
    """One worker, and what it is doing. It is asked or told one thing at a time, and answers each with one message;
    its first message, before it was asked anything, says that it is ready.
    """

    def __init__(self, rank: int, replaces: bool) -> None:
        self.rank, self.replaces = rank, replaces
        self.ready = False
        self.job: tuple[Ledger, int] | None = None
        self.trains = False
        self.verdict = ""  # why it was ended, where that was decided here

    @property
    @abstractmethod
    def pid(self) -> int: ...

    @abstractmethod
    def ask(self, request: Parts) -> None:
        """The request, and before it what has changed among the shared arrays since the last one."""

    @abstractmethod
    def tell(self, message: Parts) -> None:
        """The next work of a training."""

    @abstractmethod
    def receive(self) -> Sequence[memoryview | bytes]:
        """The parts of its message; EOFError or ConnectionError where it is gone."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def bury(self) -> WorkerFailed:
        """Make sure that it is gone, free what belonged to it, and say how it ended."""


class Crew(ABC):
    """The living workers by rank, and one place to listen to them all."""

    forks = False  # workers are made of this process, so the later the better: by then all that they need is imported

    def __init__(self, emit: Callable[[WorkerEvent], None]) -> None:
        self.members: dict[int, CrewMember] = {}
        self.last_failure: WorkerFailed | None = None
        self._emit = emit

    @abstractmethod
    def start(self, rank: int, *, replaces: bool) -> CrewMember:
        """A new worker, whose first message comes later; OSError where there can be none."""

    @abstractmethod
    def listen(self, timeout: float) -> Iterable[CrewMember]:
        """Who has sent a message or is gone, waiting so many seconds for the first."""

    @abstractmethod
    def hung(self, seconds: float) -> list[CrewMember]:
        """Who is as good as dead, after nobody was heard for these seconds."""

    @abstractmethod
    def forget(self, member: CrewMember) -> None:
        """Listen to it no more."""

    def alone(self) -> AbstractContextManager[None]:
        """While the members that it begins with are made."""
        return nullcontext()

    def hire(self, rank: int, *, replaces: bool) -> bool:
        """Start a worker; whether that worked: without more processes or descriptors, others may still do the work."""
        try:
            self.members[rank] = self.start(rank, replaces=replaces)
        except OSError as error:
            self.last_failure = WorkerFailed(rank, f"could not be started: {error}")
            return False
        return True

    def welcome(self, member: CrewMember) -> None:
        member.ready = True
        self._emit(WorkerEvent("restarted" if member.replaces else "started", member.rank, member.pid))

    def lose(self, member: CrewMember) -> WorkerFailed:
        """A worker that hung up: it is gone when this returns, and this is how it ended."""
        self._remove(member)
        failure = self.last_failure = member.bury()
        self._emit(WorkerEvent("lost", member.rank, member.pid, failure.cause, failure.signal))
        return failure

    def kill(self, member: CrewMember) -> WorkerFailed:
        member.kill()
        return self.lose(member)

    def dismiss(self, member: CrewMember) -> None:
        """Let a worker go that is not needed any more; it holds nothing that matters."""
        self._remove(member)
        member.kill()
        member.bury()
        if member.ready:
            self._emit(WorkerEvent("stopped", member.rank, member.pid))

    def close(self) -> None:
        for member in list(self.members.values()):
            self.dismiss(member)

    def _remove(self, member: CrewMember) -> None:
        self.forget(member)
        del self.members[member.rank]
