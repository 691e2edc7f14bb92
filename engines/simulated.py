"""The engine of machines that are not here: workers, links, stragglers and failures on a virtual clock, with no process
and no sleep; what they cost is passed in, what they compute is computed here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from shoal.engines.base import Ledger, Server, WorkerEvent
from shoal.engines.inline import InlineEngine
from shoal.engines.simulated_rounds import SimulatedTraining
from shoal.engines.virtual import Line, Luck, Surroundings, TimeSpent, VirtualClock
from shoal.errors import ConfigError, EngineError
from shoal.utils import plain_error
from shoal.worker import Request, Worker


@runtime_checkable
class Stepwise(Protocol):
    """A request for `run_workers` whose steps can be had one by one: what turns work into an update."""

    def answer(self, worker: Worker) -> Any: ...

    def begin(self, worker: Worker) -> Callable[[Any], Any]: ...


class SimulatedEngine(InlineEngine):
    """Many workers of one process and one thread; whatever is random about them follows from the seed."""

    def __init__(
        self, workers: int, around: Surroundings | None = None, on_event: Callable[[WorkerEvent], None] | None = None
    ) -> None:
        if workers < 1:
            raise ConfigError(f"workers must be 1 or more, not {workers}.")
        super().__init__(on_event)
        self.workers = workers
        self.around = around or Surroundings()
        self.clock = VirtualClock()
        self.account = TimeSpent()  # of the last training

    @property
    def elastic(self) -> bool:
        return True

    def run_workers(self, loop: Request, server: Server) -> None:
        if not isinstance(loop, Stepwise):
            raise EngineError(f"{type(loop).__name__} cannot be simulated: its steps cannot be had one by one.")
        try:
            done = loop.begin(self._alive())  # it keeps nothing that matters, so one is enough for all workers
            self.account = SimulatedTraining(self.clock, self.around, server, done, self.workers).run()
        except Exception as error:
            plain = plain_error(loop, error)
            if plain is error:
                raise
            raise plain from error

    def sweep(self, requests: Iterable[Request]) -> Iterator[Any]:
        self._alive()
        sweep = _Sweep(self.clock, self.around, self.workers, Ledger(requests, window=2 * self.workers + 2))
        try:
            while not sweep.ledger.finished():
                sweep.give_out(self._alive())
                if sweep.ledger.due():
                    yield sweep.ledger.collect()
                else:
                    self.clock.step()
        finally:
            sweep.ledger.close()


class _Sweep:
    """Who is idle, and when the coordinator has time for a report."""

    def __init__(self, clock: VirtualClock, around: Surroundings, workers: int, ledger: Ledger) -> None:
        self.ledger = ledger
        self._clock, self._around = clock, around
        self._luck = [Luck(around.seed, rank, 0, around.stragglers, around.failures) for rank in range(workers)]
        self._idle = deque(range(workers))
        self._down, self._up = Line(around.network), Line(around.network)
        self._free = clock.now  # the coordinator

    def give_out(self, worker: Worker) -> None:
        while self._idle and (job := self.ledger.take()) is not None:
            self._ask(worker, self._idle.popleft(), *job)

    def _ask(self, worker: Worker, rank: int, index: int, request: Request) -> None:
        report, error = None, None
        try:
            report = worker.handle(request)
        except Exception as problem:  # noqa: BLE001 - it is raised when its turn comes
            error = plain_error(request, problem)
        seconds, down, up, merging = self._around.costs.request(request, report)
        arrives = self._down.carry(down, self._clock.now)
        done = arrives + seconds * self._luck[rank].factor()

        def settle() -> None:
            self.ledger.settle(index, report, error)

        def come_back() -> None:
            self._free = max(self._free, self._clock.now) + merging
            self._idle.append(rank)
            self._clock.at(self._free, settle)

        def send_back() -> None:
            self._clock.at(self._up.carry(up, self._clock.now), come_back)

        self._clock.at(done, send_back)
