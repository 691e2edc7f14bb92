"""What all engines with a crew do alike: sweeps, and workers in training; where its members are is not known here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from shoal.engines.base import Choose, Engine, Ledger, Server, WorkerEvent
from shoal.engines.crew import Crew, CrewMember
from shoal.engines.rounds import Training
from shoal.errors import ConfigError, EngineError
from shoal.utils import plain_error
from shoal.worker import Request, pack, unpack


class CrewEngine(Engine):
    """A lost worker is replaced and its request redone by whoever is idle.

    A worker may be replaced `restarts` times in a row: the count begins anew when it answers and when
    a sweep begins, so that a long run survives any number of losses as long as it makes progress.
    """

    LOOK = 1.0  # seconds between two looks for hung workers

    def __init__(
        self, workers: int, on_event: Callable[[WorkerEvent], None] | None, restarts: int,
        crew: Callable[[Callable[[WorkerEvent], None]], Crew],
    ) -> None:  # fmt: skip
        if workers < 1:
            raise ConfigError(f"workers must be 1 or more, not {workers}.")
        super().__init__(workers, on_event)
        self._restarts = restarts
        self._used: defaultdict[int, int] = defaultdict(int)  # restarts in a row
        self._closed = False
        self._crew = crew(self._emit)
        self._begun = False
        if not self._crew.forks:
            self._begin()

    @property
    def pids(self) -> dict[int, int]:
        """The process number of each worker that lives, by rank."""
        return {rank: member.pid for rank, member in sorted(self._crew.members.items())}

    def sweep(self, requests: Iterable[Request]) -> Iterator[Any]:
        self._check_open()
        self._renew()
        ledger = Ledger(requests, window=2 * self.workers + 2)
        try:
            while not ledger.finished():
                self._check_open()
                self._listen(wait=not ledger.due() and not self._dispatch(ledger))
                self._dispatch(ledger)  # everyone is busy while the consumer looks at its report
                if ledger.due():
                    yield ledger.collect()
        finally:
            ledger.close()

    @property
    def elastic(self) -> bool:
        return True

    def run_workers(self, loop: Request, server: Server) -> None:
        self._check_open()
        self._renew()
        Training(self._crew, loop, server).run()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._crew.close()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("This engine is closed. Open a new one.")

    def _begin(self) -> None:
        self._begun = True
        with self._crew.alone():
            for rank in range(self.workers):
                self._crew.hire(rank, replaces=False)

    def _renew(self) -> None:
        """Begin a sweep with a full crew and a full budget of restarts."""
        self._used.clear()
        if not self._begun:
            self._begin()
        for rank in range(self.workers):
            if rank not in self._crew.members:
                self._crew.hire(rank, replaces=True)

    def _dispatch(self, ledger: Ledger) -> bool:
        """Give every idle worker a request; whether anything happened that may have changed the ledger."""
        moved = False
        for member in list(self._crew.members.values()):
            if member.ready and member.job is None and (job := ledger.take(self._choice(member))) is not None:
                self._ask(member, ledger, *job)
                moved = True
        return moved

    def _choice(self, member: CrewMember) -> Choose | None:
        """Which requests suit a worker; None where all suit all."""
        return None

    def _ask(self, member: CrewMember, ledger: Ledger, index: int, request: Request) -> None:
        try:
            parts = pack(request)
        except Exception as error:  # noqa: BLE001 - pickling runs the request's own code
            ledger.settle(index, error=plain_error(request, error))
            return
        try:
            member.ask(parts)
        except ConnectionError:
            ledger.give_back(index)
            self._lose(member)
        except BaseException as error:  # half a message may be out: the channel cannot be trusted any more
            member.kill()
            self._lose(member)
            if not isinstance(error, OSError):
                raise
            ledger.settle(index, error=plain_error(request, error))
        else:
            member.job = ledger, index

    def _listen(self, *, wait: bool) -> None:
        """Take in what workers have sent, waiting for the first message where told to."""
        if wait and not self._crew.members:
            raise self._nobody_left()
        heard = self._crew.listen(self.LOOK if wait else 0)
        for member in heard:
            self._hear(member)
        if wait and not heard:
            for member in self._crew.hung(self.LOOK):
                member.kill()
                self._lose(member)

    def _hear(self, member: CrewMember) -> None:
        try:
            parts = member.receive()
        except (EOFError, ConnectionError):
            self._lose(member)
        except BaseException:  # half a message is in
            member.kill()
            self._lose(member)
            raise
        else:
            self._take_in(member, parts)

    def _take_in(self, member: CrewMember, parts: Sequence[memoryview | bytes]) -> None:
        if member.job is None:
            self._crew.welcome(member)
            return
        (ledger, index), member.job = member.job, None
        self._used[member.rank] = 0
        try:
            reply = unpack(parts)
        except Exception as error:  # noqa: BLE001 - unpickling runs the report's own code
            ledger.settle(index, error=plain_error(parts, error))
        else:
            ledger.settle(index, reply.report, reply.error)

    def _lose(self, member: CrewMember) -> None:
        """Account for a worker that is gone, then replace it while the budget lasts."""
        failure = self._crew.lose(member)
        if member.job is not None:
            ledger, index = member.job
            ledger.lose(index, failure)
        if self._used[member.rank] < self._restarts:
            self._used[member.rank] += 1
            self._crew.hire(member.rank, replaces=True)

    def _nobody_left(self) -> EngineError:
        cause = self._crew.last_failure.cause if self._crew.last_failure else "none was started"
        error = EngineError(
            f"No worker is left: each was replaced {self._restarts} times and lost again. The last one was "
            f"lost because: {cause}"
        )
        error.__cause__ = self._crew.last_failure
        return error
