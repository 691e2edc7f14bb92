"""A gradient run from config to report: the steps in their order.

What happens while workers train is in `conductor`; how a run is started, queued and stored is in `runs`.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data_pipeline import Shards
from shoal.errors import DamagedFile, Reason, SourceChanged, Standing, TrainingError
from shoal.files.parts import title
from shoal.fitting.own_metrics import LiveMetrics, check_metrics, with_metrics
from shoal.fitting.reports import Trained, finite
from shoal.fitting.rules import checked, with_findings
from shoal.fitting.tuned import AlphaChoice, with_tuning
from shoal.metrics import Event, Timings
from shoal.passes.gradient_loop import GradientLoop
from shoal.passes.shards import TimeRows
from shoal.results.findings import Finding
from shoal.results.fit import GradientTraining, Resolved
from shoal.settings.config import AUTO, RunConfig
from shoal.settings.limits import shard_count, too_many_workers
from shoal.settings.when import MODULE
from shoal.sparse.table import LABEL, is_read, is_sparse, open_table
from shoal.storage.base import TIMEOUT
from shoal.training.checkpoints import Snapshot
from shoal.training.conductor import Conductor
from shoal.training.objectives.base import Objective, header_of
from shoal.training.objectives.preparing import prepare_module, prepare_objective
from shoal.training.recorder import Recorder
from shoal.training.resolving import (
    COORDINATION,
    ON_CLUSTER,
    WorkCosts,
    batch_and_steps,
    chosen_mode,
    chosen_precision,
    resolve,
    takes_plain_steps,
)
from shoal.training.session import Session
from shoal.tuning.alpha import with_alpha
from shoal.utils import available_memory
from shoal.worker import Ping, Worker

MESSAGES = 25  # that are timed
A_STEP = 300e-6  # seconds that the server takes between the last gradient of a round and the work of the next
LOCKED = 0.1  # seconds that workers wait while somebody has locked the store: what there is to say can wait longer


def train_gradient(
    coordinator: Coordinator, config: RunConfig, session: Session, resume: Snapshot | None = None, run_id: str = ""
) -> Trained:
    """Train, from the beginning or from a checkpoint; TrainingError says why a run failed.

    Where a file of the cache turns out to be damaged it is made again, and the run goes on from its newest checkpoint.
    """
    attempts = itertools.count()

    def trained() -> Trained:
        again = next(attempts) > 0
        begin = (session.checkpoints.newest() or resume) if again else resume
        return _Training(coordinator, config, session, begin, run_id, final=again).outcome()

    return coordinator.cache.mending(trained)


class _Training:
    def __init__(
        self, coordinator: Coordinator, config: RunConfig, session: Session, resume: Snapshot | None, run_id: str,
        final: bool,
    ) -> None:  # fmt: skip
        self.coordinator, self.config, self.session = coordinator, config, session
        self.resume, self.run_id = resume, run_id
        self.final = final  # no other attempt follows if files of the cache are damaged
        self.chosen = AlphaChoice(config)
        self.found: tuple[Finding, ...] = ()  # by rules of plug-ins
        self.dataset: Dataset | None = None  # of a table
        check_metrics(config)
        self.timings = Timings()
        self.started = time.monotonic() - (resume.meta["seconds"] if resume else 0.0)

    def clock(self) -> float:
        """Seconds since the run began, those before a resume included."""
        return time.monotonic() - self.started

    def outcome(self) -> Trained:
        objective = self._objective()
        with self.timings.stage("shards"):
            shards, resolved = self._shards(objective)
        engine = self.coordinator.engine
        self.few = tuple(filter(None, [too_many_workers(self.config, engine.workers, engine.most())]))
        for told in (*self.coordinator.cache.repairs, *objective.notes, *self.few):
            self.session.log("warning", told)
        with self.timings.stage("train"):
            conductor = self._train(objective, shards, resolved)
        return self._described(conductor)

    def _objective(self) -> Objective:
        if self.config.model == MODULE:
            return self._of_module()
        return self._of_sparse_rows() if is_sparse(self.config) else self._of_table()

    def _of_table(self) -> Objective:
        with self.timings.stage("ingest"):
            dataset = self.coordinator.open(self.config)
            self._check_same(dataset.manifest.content, header_of(dataset))
            self.found, self.dataset = checked(dataset, self.config), dataset
        with self.timings.stage("tune"):
            self.chosen = with_alpha(self.coordinator, dataset, self.config)
            self.config = self.chosen.config
        return prepare_objective(self.coordinator, dataset, self.config, self.timings)

    def _of_sparse_rows(self) -> Objective:
        from shoal.sparse.choice import with_alpha as with_sparse_alpha  # here: tables of cells need none of it
        from shoal.sparse.fit import suited
        from shoal.training.objectives.sparse_rows import sparse_objective

        self.config = suited(self.config)
        with self.timings.stage("ingest"):
            self._check_same(open_table(self.coordinator, self.config).content, LABEL)
        with self.timings.stage("tune"):
            self.chosen = with_sparse_alpha(self.coordinator, self.config)
            self.config = self.chosen.config
        return sparse_objective(self.coordinator, self.config, self.timings)

    def _of_module(self) -> Objective:
        with self.timings.stage("ingest"):
            objective = prepare_module(self.config)
            self._check_same(objective.identity["content"], objective.identity["header"])
        return objective

    def _check_same(self, content: str, header: str) -> None:
        if self.resume is None:
            return
        if (self.resume.meta["content"], self.resume.meta.get("header", header)) != (content, header):
            raise SourceChanged(
                f"'{title(self.config.file)}' is not what it was when the checkpoint was taken. Put the file back "
                "as it was to go on, or start a new run."
            )

    # ---------------------------------------------------------------- what is decided before

    def _shards(self, objective: Objective) -> tuple[Shards, Resolved]:
        known = self.resume.meta["resolved"] if self.resume else {}
        if self.resume and self.config.mode == AUTO:
            self.config = replace(self.config, mode=self.resume.meta["config"]["mode"])
        precision = known.get("precision") or chosen_precision(self.config, objective)
        usual = objective.usual
        row_bytes = (usual.row_bytes if usual else 0) or (objective.width + 1) * np.dtype(precision).itemsize
        wanted = self.config.shards or (usual.shards if usual else 0)
        count = known.get("shards") or shard_count(int(objective.n), row_bytes, wanted)
        shards = objective.shards(self.coordinator, count, precision)
        objective.meet(self.coordinator, shards)
        if known:
            return shards, Resolved(**known)
        return shards, self._resolved(objective, shards, precision)

    def _resolved(self, objective: Objective, shards: Shards, precision: str) -> Resolved:
        bounds = objective.bounds(self.coordinator, shards)
        batch, local = self._batch_size(objective, shards)
        return resolve(self.config, shards, precision, batch, local, bounds, objective.scale, objective.size)

    def _batch_size(self, objective: Objective, shards: Shards) -> tuple[int, int]:
        """Rows of a batch and steps of a local round, by what rows and messages cost here."""
        if self.config.mode == AUTO and (objective.usual or not takes_plain_steps(self.config)):
            self.config = replace(self.config, mode="sync")
        config, workers = self.config, max(1, self.coordinator.engine.workers)
        if config.batch_size and (config.local_steps or config.mode not in ("local", AUTO)):
            return config.batch_size, max(1, config.local_steps)
        if usual := objective.usual:
            local = (config.local_steps or usual.local_steps) if config.mode == "local" else 1
            return config.batch_size or usual.batch, local
        room = int(config.max_memory * available_memory() / (shards.width * 8 * 4 * workers))
        engine = self.coordinator.engine
        message = self._seconds_of_a_message(objective.size)
        share = COORDINATION if engine.maps else ON_CLUSTER
        row = seconds_of_a_row(self.coordinator, objective, shards)
        costs = WorkCosts(row, message, engine.most(), room, share)
        if config.mode == AUTO:
            self.config = config = replace(config, mode=chosen_mode(config, shards, costs, objective.size))
        return batch_and_steps(config, shards, costs, objective.size)

    def _seconds_of_a_message(self, width: int) -> float:
        """There and back, with what the server does in between, and with the weights where they are sent."""
        engine, seconds = self.coordinator.engine, []
        ping = Ping() if engine.maps else Ping(np.zeros(width))
        for _ in range(MESSAGES):
            started = time.perf_counter()
            for _ in engine.sweep([ping] * engine.workers):
                pass
            seconds.append(time.perf_counter() - started)
        return float(np.median(seconds)) + A_STEP

    # ---------------------------------------------------------------- the training itself

    def _train(self, objective: Objective, shards: Shards, resolved: Resolved) -> Conductor:
        config, engine, session = self.config, self.coordinator.engine, self.session
        recorder = Recorder(
            session.storage,
            objective,
            self.clock,
            lambda text: session.log("warning", text),
            engine.used,
            engine.link,
            LiveMetrics(config.metrics, lambda text: session.log("warning", text)),
        )
        conductor = Conductor(
            config, resolved, objective, engine, shards, session, recorder, self.clock, self.run_id,
            self.coordinator.progress,
        )  # fmt: skip
        try:
            session.storage.wait_at_most(TIMEOUT)
            self._begin(conductor)
            if conductor.ending is None:  # else only the report was missing
                session.storage.wait_at_most(LOCKED)
                loop = GradientLoop(shards, conductor.server.board, objective.model, config.io_queue_size)
                engine.run_workers(loop, conductor.server)
                conductor.final_look()
                conductor.checkpoint()
            self._end(conductor)
        except BaseException as error:
            self._failed(conductor, error)
            raise
        finally:
            session.storage.wait_at_most(TIMEOUT)  # records that are not kept now are lost
            recorder.close()
            conductor.server.release()
        return conductor

    def _begin(self, conductor: Conductor) -> None:
        if self.resume is not None:
            self.session.storage.forget_after(self.resume.step)
            self.session.checkpoints.forget_after(self.resume.step)
        before = self.session.storage.last_round() if self.resume is None else None
        if before is not None:
            self.session.storage.forget_after(-1)
        conductor.begin(self.resume)
        begun = f"Resuming from the checkpoint of round {self.resume.step}." if self.resume else "Training begins."
        again = self.session.again
        conductor.happened("started", f"{again} {begun}".strip(), resolved=vars(conductor.resolved))
        lost = self._said_of_a_loss(conductor, before.round) if before else ""
        self.session.state(Standing("running", f"{again} {lost}".strip()))
        if self.resume is None:
            conductor.checkpoint()
        self.session.callbacks.run_started(conductor)

    def _said_of_a_loss(self, conductor: Conductor, done: int) -> str:
        """A run that had come further, and whose checkpoints are all damaged or gone: that is no silent matter."""
        text = (
            f"The run had come to round {done:,}, but none of its checkpoints in "
            f"'{self.session.checkpoints.directory}' can be used: they are damaged or gone. "
            "So it begins again with round 0."
        )
        conductor.happened("warning", text, reason=Reason.BAD_STATE, rounds_lost=done)
        return text

    def _end(self, conductor: Conductor) -> None:
        conductor.commands.refuse_the_rest()
        ending = conductor.ending
        assert ending is not None
        conductor.happened("state", f"The run is {ending.state}: {ending.cause}.", **ending.as_dict())
        self.session.callbacks.run_ended(conductor, ending.state)

    def _failed(self, conductor: Conductor, error: BaseException) -> None:
        if isinstance(error, DamagedFile) and not self.final:
            return  # it goes on in a moment
        text = str(error) if isinstance(error, TrainingError) else f"{type(error).__name__}: {error}"
        reason = error.reason if isinstance(error, TrainingError) else Reason.UNFORESEEN
        conductor.happened("error", text, reason=reason)
        self.session.callbacks.run_ended(conductor, "failed")

    # ---------------------------------------------------------------- what came out

    def _described(self, conductor: Conductor) -> Trained:
        objective, server, ending = conductor.objective, conductor.server, conductor.ending
        assert ending is not None
        with self.timings.stage("score"):
            concluded = objective.conclude(self.coordinator, server.w)
        conductor.away = concluded.away or conductor.away
        training = self._facts(conductor)
        notes = (
            *self.chosen.notes, *objective.notes, *self.few, *self._warnings(training.not_converged),
            *self._source_notes(),
        )  # fmt: skip
        trained = concluded.described(training, notes)
        if self.chosen.found and objective.alpha == self.chosen.config.alpha:  # else a command has set another
            trained = with_tuning(trained, self.chosen.found)
        trained = with_findings(trained, self.found)
        if self.dataset is not None:
            trained = with_metrics(self.coordinator, self.dataset, self.config, trained)
        elif self.config.metrics and self.config.model != MODULE:
            from shoal.sparse.own_metrics import with_sparse_metrics  # here: tables of cells need none of it

            trained = with_sparse_metrics(self.coordinator, self.config, trained)
        self.timings.seconds["total"] = self.clock()
        return replace(trained, report=replace(trained.report, timings=self.timings.seconds, run_id=self.run_id))

    def _facts(self, conductor: Conductor) -> GradientTraining:
        away, ending = conductor.away, conductor.ending
        assert ending is not None
        return GradientTraining(
            mode=self.config.mode, epochs=finite(conductor.epoch), rounds=int(conductor.server.version),
            distance_to_optimum=finite(away.objective), coefficient_distance=finite(away.coefficients),
            slope=finite(away.slope), converged=bool(away.within(self.config.tolerance or 1e-6)),
            not_converged=self._not_converged(conductor), ending=ending,
            resolved=Resolved(**finite(vars(conductor.resolved))), in_force=finite(conductor.in_force()),
            ledger=finite(conductor.ledger()),
            overhead=finite({"recording": conductor.recorder.spent, "checkpoints": conductor.saving}),
            events=tuple(finite(_plain(event)) for event in conductor.recorder.events),
        )  # fmt: skip

    def _warnings(self, not_converged: str) -> list[str]:
        said = []
        if self.config.mode == "local" and not takes_plain_steps(self.config):
            said.append("Mode local takes plain steps within a shard: step_rule and clip are not used.")
        return [*said, *([not_converged] if not_converged else [])]

    def _not_converged(self, conductor: Conductor) -> str:
        """What is left to the optimum; empty for a run that has converged."""
        away = conductor.away
        if not conductor.objective.convex or away.within(self.config.tolerance or 1e-6):
            return ""
        parts = []
        if away.objective is not None:
            parts.append(f"the relative distance of the objective to its optimum is {away.objective:.1e}")
        if away.coefficients is not None:
            parts.append(
                f"the coefficients differ from the optimal ones by up to {away.coefficients:.1e} of the largest"
            )
        if not parts and away.slope is not None:
            parts.append(f"the gradient is still {away.slope:.1e} times that at the start")
        return (
            f"The run has not converged: {' and '.join(parts) or 'its distance to the optimum is not known'}. "
            "Allow more epochs or passes, or use the exact solver."
        )

    def _is_as_it_was(self) -> bool:
        """Whether the file is what the rows were read from."""
        sparse = self.dataset is None
        return is_read(self.coordinator, self.config) if sparse else self.coordinator.is_cached(self.config)

    def _source_notes(self) -> list[str]:
        if self.config.model == MODULE or self._is_as_it_was():
            return []
        name = title(self.config.file)
        return [f"'{name}' was changed or removed during the run; the model was fitted to what it was before."]


def seconds_of_a_row(coordinator: Coordinator, objective: Objective, shards: Shards) -> float:
    """By a worker where rows are on other machines, else by this process."""
    shard = max(range(len(shards.rows)), key=lambda s: shards.rows[s])
    asked = TimeRows(shards, shard, objective.model, objective.size)
    if not shards.scattered:
        return asked.answer(Worker())
    (seconds,) = coordinator.engine.sweep([asked])
    return float(seconds)


def _plain(event: Event) -> dict[str, Any]:
    return dataclasses.asdict(event)
