"""What a run puts on record: rounds, samples of workers and host, events; in batches, at little cost."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from shoal.coordinator import ParameterServer
from shoal.engines.base import Link
from shoal.errors import ResourceError, StateError
from shoal.fitting.own_metrics import LiveMetrics
from shoal.metrics import (
    HISTOGRAMS,
    OWN_METRICS,
    Event,
    HostSample,
    LinkSample,
    Record,
    ResourceSampler,
    Round,
    Tally,
    WorkerSample,
)
from shoal.steps.histograms import FEWEST, HistogramTimes, histograms
from shoal.storage.base import Fenced, Storage
from shoal.tracing import spans
from shoal.training.objectives.base import Objective

FLUSH = 0.1  # seconds between two writes
SAMPLE = 1.0  # seconds between two looks at workers and host
BUDGET = 0.015  # share of the run's time that records and samples may take before rounds are left out
FIRST = 300  # rounds that are recorded in any case, so that a short run has a chart as well
KEPT = 10_000  # records that wait while the store cannot be written to


class Recorder:
    """Collects records and hands them to the store at most ten times a second."""

    def __init__(
        self, storage: Storage, objective: Objective, clock: Callable[[], float], warn: Callable[[str], None],
        used: Callable[[int], tuple[float, int] | None] = lambda rank: None,
        link: Callable[[int], Link | None] = lambda rank: None, own: LiveMetrics | None = None,
    ) -> None:  # fmt: skip
        """`clock` tells the seconds since the run began; `used` and `link` are those of the engine; `own` are metrics
        of plug-ins, which are looked at once an epoch."""
        self._own, self._own_epoch = own, -1
        self._used_by, self._link = used, link
        self._storage, self._objective, self._clock, self._warn = storage, objective, clock, warn
        self._sampler = ResourceSampler()
        self._waiting: list[Record] = []
        self.spent = 0.0  # seconds that recording and sampling took
        self._began = self._flushed = self._sampled = self._recorded = clock()
        self._looks = HistogramTimes(self._began)
        self._failing = False
        self._renewed = storage.renewed
        self._count = 0
        self.busy = 0.0  # cores that this run keeps busy, by the last sample
        self._used = time.process_time()
        self._traced = time.time_ns(), 0  # when the rounds began that are not in a span yet, and the one before them
        self.host: HostSample | None = None
        self.events: list[Event] = []
        self.last: Round | None = None

    @property
    def affordable(self) -> bool:
        """Whether another round can be recorded: the first ones, as many as the budget allows, else ten a second."""
        now = self._clock()
        return self._count < FIRST or self.spent <= BUDGET * (now - self._began) or now - self._recorded >= FLUSH

    def event(self, event: Event) -> None:
        self.events.append(event)
        self._waiting.append(event)

    def round(
        self, server: ParameterServer, phase: str, epoch: float, distance: float | None, loss: float,
        score: float | None, last: bool = False,
    ) -> Round:  # fmt: skip
        started = time.perf_counter()
        now, tally = self._clock(), server.take_tally()
        record = self._made(server, tally, now, phase, epoch, distance, loss, score)
        if self.last is not None and self.last.round == record.round:  # at the end, perhaps with other weights
            judged = {name: getattr(record, name) for name in ("loss", "validation", "distance", "nonzeros")}
            record = dataclasses.replace(self.last, **judged)
        self._waiting.append(record)
        if self._own and (int(epoch) != self._own_epoch or (self.last is not None and self.last.round == record.round)):
            self._own_epoch = int(epoch)
            self._record_own(self._own.values(self._objective.predicted(server.w)), record)
        if self._objective.size >= FEWEST and self._looks.due(now, epoch, last):
            self._record_histograms(server, record)
        self._recorded, self.last = now, record
        self._count += 1
        self.spent += time.perf_counter() - started
        return record

    def _record_histograms(self, server: ParameterServer, record: Round) -> None:
        parts = histograms(self._objective.parts, server.w, server.parameters.gradient)
        data = {"epoch": record.epoch, "parts": parts}
        self._waiting.append(Event(record.seconds, HISTOGRAMS, record.round, "", None, data))

    def _record_own(self, values: dict[str, float | None], record: Round) -> None:
        if values:
            text = ", ".join(f"{name} {value:g}" for name, value in values.items() if value is not None)
            data = {"epoch": record.epoch, "values": values}
            self._waiting.append(Event(record.seconds, OWN_METRICS, record.round, text, None, data))

    def _made(
        self, server: ParameterServer, tally: Tally, now: float, phase: str, epoch: float, distance: float | None,
        loss: float, score: float | None,
    ) -> Round:  # fmt: skip
        return Round(
            round=server.version, epoch=epoch, phase="finish" if phase == "finish" else "steps", seconds=now, loss=loss,
            validation=score, distance=distance,
            gradient_norm=float((server.parameters.gradient**2).sum() ** 0.5), learning_rate=server.rate,
            alpha=self._objective.alpha, nonzeros=self._objective.nonzeros(server.w),
            bytes_raw=tally.bytes_raw, bytes_sent=tally.bytes_sent,
            staleness=tally.staleness / max(1, tally.steps), workers=len(server.workers),
            **tally.speed(max(now - self._recorded, 1e-9), len(server.workers)),
        )  # fmt: skip

    def tick(self, server: ParameterServer, now: float) -> bool:
        """Sample and write what is due; whether samples were taken. `now` is the server's clock."""
        sampled = self._clock() - self._sampled >= SAMPLE
        if sampled:
            self._sample(server, now)
            self._trace()
        if self._clock() - self._flushed >= FLUSH:
            self.flush()
        return sampled

    def _sample(self, server: ParameterServer, now: float) -> None:
        started = time.perf_counter()
        before, self._sampled = self._sampled, self._clock()
        seconds, used = self._sampled, time.process_time()
        self.busy = (used - self._used) / max(seconds - before, 1e-9)
        self._used = used
        self.host = self._sampler.sample_host(seconds)
        self._waiting.append(self.host)
        for rank, worker in server.workers.items():
            state = "working" if server.policy.is_working(rank) else "waiting"
            found: WorkerSample | None = self._sampler.sample_worker(
                rank, worker.pid, seconds, state, worker.rows, worker.staleness, worker.wait(now),
                self._used_by(rank),
            )  # fmt: skip
            if found is not None:
                self._waiting.append(found)
                self.busy += found.cpu
            if (link := self._link(rank)) is not None:
                self._waiting.append(LinkSample(seconds, rank, *dataclasses.astuple(link)))
        self.spent += time.perf_counter() - started

    def _trace(self) -> None:
        """The rounds since the last look as one span: a run may make thousands a second."""
        (began, before), last = self._traced, self.last
        if last is not None and last.round > before:
            spans.past(
                "rounds", began, first=before + 1, last=last.round, epoch=last.epoch, loss=last.loss,
                rows_per_second=last.rows_per_second, read=last.read, compute=last.compute, wait=last.wait,
                apply=last.apply, workers=last.workers,
            )  # fmt: skip
            self._traced = time.time_ns(), last.round

    def flush(self) -> None:
        """Write what waits. A store that cannot be written to does not stop a run: records wait for it."""
        self._flushed = self._clock()
        if not self._waiting:
            return
        started = time.perf_counter()
        try:
            self._storage.add(self._waiting)
        except Fenced:
            raise  # the run is in other hands: this process is to end
        except (StateError, ResourceError) as error:
            self._complain(str(error))
        else:
            self._waiting = []
            if trouble := self._storage.trouble:
                self._complain(trouble)
            else:
                self._failing = False
        self._tell_of_loss()
        self.spent += time.perf_counter() - started

    def _tell_of_loss(self) -> None:
        if self._renewed != self._storage.renewed:
            self._renewed = self._storage.renewed
            self._warn("The file of records was removed or replaced while the run went on; it is begun anew from here.")

    def _complain(self, error: str) -> None:
        if not self._failing:
            self._failing = True
            self._warn(f"Records cannot be written at the moment; they are kept and written later: {error}")
        self._flushed += 1.0  # not ten times a second
        del self._waiting[:-KEPT]

    def close(self) -> None:
        self._trace()
        self.flush()
        self._sampler.close()
