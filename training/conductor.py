"""The course of a gradient run: phases, stops, checkpoints and the commands of people, around a parameter server.

Numbers come from `objective`, steps are made by the server, processes belong to the engine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.coordinator import ParameterServer
from shoal.data_pipeline import Shards
from shoal.engines.base import Engine
from shoal.errors import Reason, ResourceError, Standing
from shoal.metrics import Event
from shoal.models import Array
from shoal.results.fit import Resolved
from shoal.settings.config import RunConfig
from shoal.steps.failure import FailurePolicy
from shoal.steps.optimizers import schedule, unbounded
from shoal.steps.scaling import Scaler
from shoal.steps.stale import Stale
from shoal.steps.steering import Phase, Steering
from shoal.storage.base import Storage
from shoal.training.callbacks import Callbacks
from shoal.training.checkpoints import Checkpoints, Snapshot
from shoal.training.commands import Commands
from shoal.training.objective import DistanceToOptimum, Objective, header_of
from shoal.training.phases import first_phase, full_passes, share_of_rate, staleness_bound
from shoal.training.recorder import Recorder
from shoal.utils import Progress, silent

CHECK = 10  # rounds between two looks at the objective; fixed, so that where a run stops does not depend on the clock
DIVERGED = 100.0  # times the objective at zero from which on a run has lost its way
COMMANDS = 0.1  # seconds between two looks for commands
ROOM = 0.05  # share of memory that has to be free again before more is kept ready


@dataclass
class Session:
    """What a run lends its training."""

    storage: Storage
    checkpoints: Checkpoints
    callbacks: Callbacks
    log: Callable[[str, str], None]  # (level, text)
    state: Callable[[Standing], None]


class Conductor:
    """The observer of one server, from its first phase to its end."""

    def __init__(
        self, config: RunConfig, resolved: Resolved, objective: Objective, engine: Engine, shards: Shards,
        session: Session, recorder: Recorder, clock: Callable[[], float], run_id: str = "", progress: Progress = silent,
    ) -> None:  # fmt: skip
        self.config, self.resolved, self.objective, self.run_id = config, resolved, objective, run_id
        self.session, self.recorder, self.clock = session, recorder, clock
        self.steering = Steering(
            rate_at=self.rate_at, seed=config.seed, batch_size=resolved.batch_size, local_steps=resolved.local_steps,
            clip=config.clip, compression=config.compression, share=config.top_k,
            tamed=config.learning_rate == 0 and config.mode in ("ssp", "async"), prefetch=resolved.prefetch,
        )  # fmt: skip
        failure = FailurePolicy(config.on_worker_loss, config.restarts)  # type: ignore[arg-type]
        self.server = ParameterServer(engine, shards, objective.model, self.steering, failure, self)
        self.phase = "steps"
        self.base_rate = resolved.learning_rate
        self.ending: Standing | None = None  # finished or stopped
        self.away = DistanceToOptimum(None, None, None)
        self.good = self.server.w.copy()  # the last weights that were better than none
        self.best: tuple[float, Array] | None = None  # of the scores on test rows
        self.chosen: Array | None = None  # what the model will have, whatever workers still have in hand
        self.saving = 0.0  # seconds that checkpoints took
        self.commands = Commands(self, session.storage)
        self.person_scales = bool(config.workers)
        self._bad_epochs = self._seen_epochs = self._checked = self.steps_done = 0
        self._steps_ledger: dict[str, int] | None = None
        self._saved = self._looked = clock()
        self._progress = progress
        self._pausing = ""  # the cause, until all work in hand is done
        self._rows_before, self._scaled = 0, 0.0
        self._scaler = Scaler(max(1, os.cpu_count() or 1))

    # ---------------------------------------------------------------- phases

    def begin(self, saved: Snapshot | None = None) -> None:
        """The first phase, or the one that a checkpoint was taken in."""
        if saved is not None:
            self._restore(saved)
        self._begin(first_phase(self.config, self.resolved, self.server.shards, saved))
        self._seen_epochs, self._checked = self.server.policy.counts.epochs, self.server.version // CHECK

    def _begin(self, phase: Phase) -> None:
        self.phase = phase.name
        if phase.name == "finish":
            self.steering.compression = "none"
        self.server.begin(phase)

    def _restore(self, saved: Snapshot) -> None:
        meta = saved.meta
        self.server.restore(meta["version"], saved.arrays)
        self.server.retune(self.objective.set_alpha(meta["alpha"]))
        self.steering.tamed, self.steering.compression = meta["tamed"], meta["compression"]
        self.base_rate, self._bad_epochs = meta["base_rate"], meta["bad_epochs"]
        self.steps_done, self._steps_ledger = meta["steps_done"], meta["steps_ledger"]
        self.good = np.array(saved.arrays["good"])
        if "best" in saved.arrays:
            self.best = meta["best"], np.array(saved.arrays["best"])
        ended = meta.get("ended")
        if ended is not None and ended["run"] == self.run_id:  # a fork of it goes on
            self.ending, self.away = Standing.read(ended, "finished"), DistanceToOptimum(*ended["away"])

    def final_look(self) -> None:
        """Once more at the weights that the model will have, for the record."""
        if self.objective.problem is not None:
            self.away = self.objective.away(self.server.w)
        self._record()

    def phase_ended(self, now: float) -> None:
        if self.ending is None and self.phase == "steps" and self.config.tolerance > 0 and self.config.finish_passes:
            self.steps_done, self._steps_ledger = self.server.policy.counts.epochs, self.server.policy.counts.summary()
            self._look()
            if self.ending is None:
                self._begin(full_passes(self.config, self.server.shards))
                self._seen_epochs = 0
                self.happened(
                    "phase", f"Full passes begin after {self.steps_done} epochs of steps.", epochs=self.steps_done
                )
                return
        self._end_of_work()
        self.server.finish(self.chosen)

    def _end_of_work(self) -> None:
        if self.ending is not None:
            return
        if self.phase == "finish":
            cause = f"not converged after {self.config.finish_passes} full passes"
            self.ending = Standing("finished", cause, Reason.NOT_CONVERGED)
        else:
            self.ending = Standing("finished", f"all {self.config.epochs} epochs are done", Reason.COMPLETE)

    def rate_at(self, epoch: float) -> float:
        if self.phase == "finish":
            return 1 / self.resolved.top if self.resolved.top > 0 else 1.0
        c, server = self.config, self.server
        share = share_of_rate(self.resolved, self.steering, server.rule, server.kind) if self.has_own_rate else 1.0
        return schedule(
            c.schedule, self.base_rate * share,
            epoch=epoch, epochs=c.epochs, warmup=c.warmup, decay=c.decay, decay_every=c.decay_every,
        )  # fmt: skip

    @property
    def has_own_rate(self) -> bool:
        """Whether the learning rate is the one that was found for these rows, not a person's."""
        return not self.config.learning_rate and self.base_rate == self.resolved.learning_rate

    def ledger(self) -> dict[str, Any]:
        """How often batches were counted in the steps, and whole shards in the full passes of the finish.

        `redone`: those that a lost worker had in hand; they were computed again and counted once.
        """
        now = self.server.policy.counts.summary()
        if self.phase == "steps":
            return {**now, "passes": 0}
        steps = self._steps_ledger or dict.fromkeys(now, 0)
        passes = {"passes": now["epochs"], "shards": now["batches"], "shards_of_a_pass": now["batches_of_an_epoch"]}
        return {**steps, **passes, "redone": steps["redone"] + now["redone"]}

    @property
    def epoch(self) -> float:
        return self.server.policy.progress + (self.steps_done if self.phase == "finish" else 0)

    # ---------------------------------------------------------------- what the server tells

    def stepped(self, now: float) -> None:
        epochs = self.server.policy.counts.epochs
        epoch_ended = epochs != self._seen_epochs and self.phase == "steps"
        self._seen_epochs = epochs
        if not math.isfinite(float(self.server.w.sum())):
            self._diverged()
        elif self.server.version // CHECK != self._checked or epoch_ended:
            self._checked = self.server.version // CHECK
            self._look()
            if epoch_ended:
                self._score()
        if self.recorder.affordable:
            self._record()
        if self.config.max_seconds and self.clock() > self.config.max_seconds:
            cause = f"the time limit of {self.config.max_seconds:g} s is reached"
            self.end(Standing("finished", cause, Reason.TIME_LIMIT))
        if self.config.checkpoint_seconds and self.clock() - self._saved >= self.config.checkpoint_seconds:
            self.checkpoint()

    @unbounded
    def _look(self) -> None:
        """Where the run stands: at the optimum, on the way, or lost."""
        server, objective = self.server, self.objective
        if objective.problem is not None:
            self.away, loss = objective.away(server.w), objective.loss(server.w)
        elif self.phase == "finish":  # the gradient is that of all rows, at the point it was asked for
            self.away = objective.away_by_rows(server.gradient_at, server.gradient, server.squares)
            loss = objective.loss(server.gradient_at, server.squares)
        else:
            loss = objective.loss(server.w, server.squares_of_all)
        if not loss <= DIVERGED * objective.at_zero:
            self._diverged()
        elif loss <= objective.at_zero:
            self.good = server.w.copy()
        if self.config.tolerance > 0 and self.away.within(self.config.tolerance):
            self.end(Standing("finished", "converged", Reason.CONVERGED), server.w)

    def _diverged(self) -> None:
        other = "" if self.has_own_rate else ", or auto"
        cause = (
            f"the run diverged at round {self.server.version} with a learning rate of {self.server.rate:.3g}; "
            f"the model has the last good weights. Choose a smaller learning rate{other}"
        )
        self.end(Standing("stopped", cause, Reason.DIVERGED), self.good)

    def _score(self) -> None:
        """Patience: stop when the score on the test rows has not risen for some epochs, with the best weights."""
        if not self.config.patience or self.ending is not None:
            return
        score = self.objective.held.r2(self.server.w)
        if score is None:
            return  # test rows that all have the same target
        if self.best is None or score > self.best[0]:
            self.best, self._bad_epochs = (score, self.server.w.copy()), 0
            return
        self._bad_epochs += 1
        if self._bad_epochs >= self.config.patience:
            cause = f"no better score on the test rows for {self._bad_epochs} epochs"
            self.end(Standing("finished", cause, Reason.NO_BETTER_SCORE), self.best[1])

    @unbounded
    def _record(self) -> None:
        server = self.server
        if self.objective.problem is not None:
            away, loss = self.objective.away(server.w), self.objective.loss(server.w)
        else:
            away, loss = self.away, self.objective.loss(server.w, server.squares_of_all)
        record = self.recorder.round(server, self.phase, self.epoch, away.objective, loss)
        self.session.callbacks.round_ended(self, record)

    def ticked(self, now: float) -> None:
        if self.clock() - self._looked >= COMMANDS:
            self._looked = self.clock()
            if self.commands.take():
                self.recorder.flush()
        if self._pausing and self.server.policy.idle and self.server.policy.paused:
            cause, self._pausing = self._pausing, ""
            self.checkpoint()
            self.session.state(Standing("paused", cause))
        if self.recorder.tick(self.server, now):
            self._progress(*self._so_far())
            self._follow_memory()
            self._scale(now)

    def _so_far(self) -> tuple[str, float]:
        """What a page or bar says of the run: the stage, and how much of it is done."""
        done, policy = self.server.policy.progress, self.server.policy
        share = min(1.0, done / max(policy.epochs, 1))
        if policy.paused:
            return "paused", share
        if self.phase == "finish":
            return f"full pass {done:,.0f} of at most {policy.epochs:,}", share
        return f"epoch {done:,.1f} of {policy.epochs:,}", share

    def happened(self, kind: str, text: str, rank: int | None = None, **data: Any) -> None:
        event = Event(self.clock(), kind, self.server.version, text, rank, data)
        self.recorder.event(event)
        if kind != "error":  # the end of a run is logged by whoever runs it, with the trace
            self.session.log("warning" if kind in ("lost", "warning") else "info", text)
        if kind == "lost":
            self.session.callbacks.worker_lost(self, event)

    # ---------------------------------------------------------------- what callbacks see

    @property
    def round(self) -> int:
        return self.server.version

    def weights(self) -> Array:
        return self.server.w.copy()

    def stop(self, reason: str) -> None:
        self.end(Standing("stopped", reason, Reason.STOPPED_BY_CALLBACK))

    def send(self, name: str, **arguments: Any) -> None:
        self.commands.follow(name, arguments)

    # ---------------------------------------------------------------- stops and checkpoints

    def end(self, ending: Standing, w: Array | None = None) -> None:
        """Come to an end as soon as what is in workers' hands is done, with these weights or those of that moment."""
        if w is not None and self.chosen is None:
            self.chosen = w.copy()
        if self.ending is None:
            self.ending = ending
            self.server.close()

    def halt(self) -> None:
        """End because a person said so."""
        ending = Standing("stopped", "stopped by a command", Reason.STOPPED)
        self.session.state(replace(ending, state="stopping"))
        self.end(ending)

    def pause(self, cause: str) -> None:
        self._pausing = cause
        self.server.pause()

    def resume(self) -> None:
        self._pausing = ""
        self.server.resume()
        self.session.state(Standing("running"))

    def set_rate(self, rate: float | None) -> None:
        """A learning rate of a person's choice, or None for the automatic one."""
        self.base_rate = self.resolved.learning_rate if rate is None else rate
        self.steering.tamed = rate is None and isinstance(self.server.policy, Stale)

    def set_alpha(self, alpha: float) -> None:
        self.server.retune(self.objective.set_alpha(alpha))

    def set_compression(self, name: str) -> None:
        self.steering.compression = name

    def checkpoint(self) -> bool:
        """Save, or, where there is no room, pause: the last good checkpoint stays. Whether it was saved."""
        self._saved = self.clock()
        try:
            self.session.checkpoints.save(self.snapshot())
            self.saving += self.clock() - self._saved
        except ResourceError as error:
            self.happened("warning", str(error), reason=error.reason)
            if not self.server.policy.paused and self.ending is None:
                self.server.pause()
                self.session.state(Standing.after(error, "paused"))
            return False
        self.happened("checkpoint", f"Checkpoint of round {self.server.version}.")
        self.session.callbacks.checkpoint_saved(self, self.server.version)
        return True

    def snapshot(self) -> Snapshot:
        meta, arrays = self.server.state()
        meta |= {
            "config": self.config.as_dict(), "resolved": vars(self.resolved), "phase": self.phase,
            "content": self.objective.prepared.dataset.manifest.content,
            "header": header_of(self.objective.prepared.dataset),
            "columns": self.objective.prepared.encoding.names,
            "base_rate": self.base_rate, "alpha": self.objective.alpha, "compression": self.steering.compression,
            "staleness": staleness_bound(self.config, self.server.policy), "bad_epochs": self._bad_epochs,
            "steps_done": self.steps_done, "steps_ledger": self._steps_ledger, "tamed": self.steering.tamed,
            "seconds": self.clock(), "epoch": self.epoch,
        }  # fmt: skip
        if self.server.finished and self.ending is not None and self.ending.state == "finished":
            meta["ended"] = {**self.ending.as_dict(), "run": self.run_id, "away": list(self.away)}
        arrays["good"] = self.good
        if self.best is not None:
            meta["best"], arrays["best"] = self.best
        return Snapshot(self.server.version, meta, arrays)

    # ---------------------------------------------------------------- what the machine allows

    def _follow_memory(self) -> None:
        """Keep less ready when memory runs short; this changes no bits."""
        host, knobs = self.recorder.host, self.steering
        if host is None:
            return
        used = host.memory_used / max(host.memory_total, 1)
        if used > self.config.max_memory and not knobs.tight:
            knobs.tight, knobs.prefetch = True, 0
            self.happened(
                "warning", f"{used:.0%} of the memory is in use: nothing is read ahead until there is room.",
                reason=Reason.OUT_OF_MEMORY, used=used,
            )  # fmt: skip
        elif used < self.config.max_memory - ROOM and knobs.tight:
            knobs.tight, knobs.prefetch = False, self.resolved.prefetch

    def _scale(self, now: float) -> None:
        """With `workers: auto`: more while that helps, fewer when others need the machine."""
        done, self._rows_before = self.server.rows_done - self._rows_before, self.server.rows_done
        span, self._scaled = now - self._scaled, now
        host, fixed = self.recorder.host, self.person_scales or not self.server.elastic
        if fixed or host is None or self.server.hired or self.server.policy.paused:
            return
        workers = len(self.server.workers)
        others = max(0.0, host.cpu * self._scaler.most - self.recorder.busy)
        advice = self._scaler.advice(now, workers, done / max(span, 1e-9), others)
        if advice > 0:
            self.server.hire(self.server.free_rank())
        elif advice < 0 and workers > 1:
            self.server.dismiss(max(self.server.workers))
