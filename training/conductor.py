"""The course of a gradient run: phases, stops, checkpoints and the commands of people, around a parameter server.

Numbers come from `objective`, steps are made by the server, processes belong to the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from shoal.allreduce.server import server_for
from shoal.data_pipeline import Shards
from shoal.engines.base import Engine
from shoal.errors import Reason, ResourceError, Standing
from shoal.metrics import Event
from shoal.models import Array
from shoal.results.fit import Resolved
from shoal.settings.config import RunConfig
from shoal.steps.checkpointing import CheckpointMoment
from shoal.steps.failure import FailurePolicy
from shoal.steps.optimizers import schedule, unbounded
from shoal.steps.stale import Stale
from shoal.steps.steering import Phase, Steering
from shoal.training.checkpoints import Snapshot
from shoal.training.commands import Commands
from shoal.training.objectives.base import UNKNOWN, DistanceToOptimum, Objective
from shoal.training.part_files import save_parts
from shoal.training.phases import (
    finishes,
    first_phase,
    full_passes,
    ledger,
    share_of_rate,
    so_far,
    staleness_bound,
)
from shoal.training.recorder import Recorder
from shoal.training.session import Session
from shoal.training.staffing import Staffing
from shoal.utils import Progress, silent

CHECK = 10  # rounds between two looks at the objective; fixed, so that where a run stops does not depend on the clock
DIVERGED = 100.0  # times the objective at zero from which on a run has lost its way
COMMANDS = 0.1  # seconds between two looks for commands
ROOM = 0.05  # share of memory that has to be free again before more is kept ready


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
        self.server = server_for(config, session.checkpoints.directory.with_name("group"))(
            engine, shards, objective.model, objective.start, self.steering, session.advisers.after_losses(failure),
            self, objective.parts,
        )  # fmt: skip
        self.phase, self.base_rate = "steps", resolved.learning_rate
        self.ending: Standing | None = None  # finished or stopped
        self.away = UNKNOWN
        self.good = self.server.w.copy()  # the last weights that were better than none
        self.best: tuple[float, Array] | None = None  # of the scores on test rows
        self.score: float | None = None  # on test rows, as it was last asked for
        self.chosen: Array | None = None  # what the model will have, whatever workers still have in hand
        self.saving = 0.0  # seconds that checkpoints took
        self.commands = Commands(self, session.storage)
        self.staffing = Staffing(self.server, engine, recorder, by_person=bool(config.workers))
        self._bad_epochs = self._seen_epochs = self._checked = self.steps_done = 0
        self._steps_ledger: dict[str, int] | None = None
        self._saved = self._looked = clock()
        self._progress = progress
        self._pausing = ""  # the cause, until all work in hand is done
        self._compression, self._bound = config.compression, staleness_bound(config)  # of the steps

    # ---------------------------------------------------------------- phases

    def begin(self, saved: Snapshot | None = None) -> None:
        """The first phase, or the one that a checkpoint was taken in."""
        if saved is not None:
            self._restore(saved)
        asked = self.config.parameter_shards if saved is None else saved.meta.get("parameter_shards", 1)
        self.server.parameters.scale(asked)
        self._begin(first_phase(self.config, self.resolved, self.server.shards, self.objective, saved))
        self._seen_epochs, self._checked = self.server.policy.counts.epochs, self.server.version // CHECK

    def _begin(self, phase: Phase) -> None:
        self.phase = phase.name
        if phase.name == "finish":
            self.steering.compression = "none"
            if isinstance(self.server.policy, Stale):
                self._bound = staleness_bound(self.config, self.server.policy)
        self.server.begin(phase)

    def _restore(self, saved: Snapshot) -> None:
        meta = saved.meta
        self.server.restore(meta["version"], saved.arrays)
        self.server.retune(self.objective.set_alpha(meta["alpha"]))
        self.steering.tamed, self.steering.compression = meta["tamed"], meta["compression"]
        self._compression = meta.get("compression_of_steps", self._compression)
        self.staffing.by_person |= meta.get("workers_by_person", False)
        self.base_rate, self._bad_epochs = meta["base_rate"], meta["bad_epochs"]
        self.steps_done, self._steps_ledger, self._bound = meta["steps_done"], meta["steps_ledger"], meta["staleness"]
        self.good = np.array(saved.arrays["good"])
        if "best" in saved.arrays:
            self.best = meta["best"], np.array(saved.arrays["best"])
        ended = meta.get("ended")
        if ended is not None and ended["run"] == self.run_id:  # a fork of it goes on
            self.ending, self.away = Standing.read(ended, "finished"), DistanceToOptimum(*ended["away"])

    def final_look(self) -> None:
        """Once more at the weights that the model will have, for the record."""
        found = self.objective.away(self.server.w)
        self.away = found if found.is_known else self.away
        self.score = self.objective.score(self.server.w)
        self._record(last=True)

    def phase_ended(self, now: float) -> None:
        if self.ending is None and self.phase == "steps" and finishes(self.config, self.objective):
            self.steps_done, self._steps_ledger = self.server.policy.counts.epochs, self.server.policy.counts.summary()
            self._look()
            if self.ending is None:
                self._begin(full_passes(self.config, self.server.shards, self.objective))
                self._seen_epochs = 0
                self.happened(
                    "phase", f"Full passes begin after {self.steps_done} epochs of steps.", epochs=self.steps_done
                )
                return
        self._end_of_work()
        best = self.best[1] if self.best and not self.objective.convex else None  # the last steps may have led away
        self.server.finish(best if self.chosen is None else self.chosen)

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
        share = (
            share_of_rate(self.resolved, self.steering, server.parameters.rule, server.kind)
            if self.has_own_rate
            else 1.0
        )
        return schedule(
            c.schedule, self.base_rate * share,
            epoch=epoch, epochs=c.epochs, warmup=c.warmup, decay=c.decay, decay_every=c.decay_every,
        )  # fmt: skip

    @property
    def has_own_rate(self) -> bool:
        """Whether the learning rate is the one that was found for these rows, not a person's."""
        return not self.config.learning_rate and self.base_rate == self.resolved.learning_rate

    def ledger(self) -> dict[str, Any]:
        """How often batches were counted in the steps, and whole shards in the full passes of the finish."""
        return ledger(self.server.policy.counts.summary(), self.phase, self._steps_ledger)

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
        if (limit := self.config.max_seconds) and self.clock() > limit:
            self.end(Standing("finished", f"the time limit of {limit:g} s is reached", Reason.TIME_LIMIT))
        since = self.clock() - self._saved
        if self.session.advisers.due(self.config.checkpoint_seconds, since, self._moment):
            self.checkpoint()

    @unbounded
    def _look(self) -> None:
        """Where the run stands: at the optimum, on the way, or lost."""
        server, objective = self.server, self.objective
        if not objective.knows_loss and self.phase == "finish":  # the gradient is of all rows, where it was asked for
            self.away = objective.away_by_rows(server.gradient_at, server.parameters.gradient, server.value)
            loss = objective.loss(server.gradient_at, server.value)
        else:
            self.away, loss = self._known()
        if not loss <= DIVERGED * objective.at_start:
            self._diverged()
        elif loss <= objective.at_start:
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
        if self.ending is not None or (self.objective.scores_cheaply and not self.config.patience):
            return
        score = self.score = self.objective.score(self.server.w)
        if score is None or not self.config.patience:
            return  # none, or test rows that all have the same target
        if self.best is None or score > self.best[0]:
            self.best, self._bad_epochs = (score, self.server.w.copy()), 0
            return
        self._bad_epochs += 1
        if self._bad_epochs >= self.config.patience:
            cause = f"no better score on the {self.objective.watches} for {self._bad_epochs} epochs"
            self.end(Standing("finished", cause, Reason.NO_BETTER_SCORE), self.best[1])

    @unbounded
    def _record(self, last: bool = False) -> None:
        away, loss = self._known()
        self.score = self.objective.score(self.server.w) if self.objective.scores_cheaply else self.score
        record = self.recorder.round(self.server, self.phase, self.epoch, away.objective, loss, self.score, last)
        self.session.callbacks.round_ended(self, record)

    def _known(self) -> tuple[DistanceToOptimum, float]:
        """Distance and loss at the weights, as far as that is known without another pass over the rows."""
        server, objective = self.server, self.objective
        if objective.knows_loss:
            return objective.away(server.w), objective.loss(server.w)
        found = objective.away(server.w)
        return found if found.is_known else self.away, objective.loss(server.w, server.value_of_all)

    def ticked(self, now: float) -> None:
        if self.clock() - self._looked >= COMMANDS:
            self._looked = self.clock()
            if self.commands.take():
                self.recorder.flush()
            if self.ending is None:
                self.staffing.look()
        if self._pausing and self.server.policy.idle and self.server.policy.paused:
            cause, self._pausing = self._pausing, ""
            self.checkpoint()
            self.session.state(Standing("paused", cause))
        if self.recorder.tick(self.server, now):
            self._progress(*so_far(self.server.policy, self.phase))
            self._follow_memory()
            self.staffing.scale(now)

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
        self.session.state(Standing("stopping", "stopped by a command", Reason.STOPPED))
        self.end(Standing("stopped", "stopped by a command", Reason.STOPPED))

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
        self.steering.compression = self._compression = name

    def in_force(self) -> dict[str, Any]:
        """The knobs that may be changed on the way, as they are."""
        bound = self._bound if self.phase == "finish" else staleness_bound(self.config, self.server.policy)
        return {
            "learning_rate": self.base_rate, "alpha": self.objective.alpha, "compression": self._compression,
            "staleness": bound, "workers": self.staffing.count if self.server.elastic else None,
        }  # fmt: skip

    def checkpoint(self) -> bool:
        """Save, or, where there is no room, pause: the last good checkpoint stays. Whether it was saved."""
        self._saved = self.clock()
        try:
            parts = save_parts(self.server.parameters, self.session.checkpoints.directory, self.server.version)
            self.session.checkpoints.save(self.snapshot(parts))
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

    def _moment(self) -> CheckpointMoment:
        now, loss = self.clock(), self.recorder.last.loss if self.recorder.last else None
        return CheckpointMoment(self.round, self.epoch, now, now - self._saved, self.saving, loss, self.score)

    def snapshot(self, parts: Mapping[str, Any]) -> Snapshot:
        """The run as it is now; `parts` says what parameter shards have written of it themselves."""
        meta, arrays = self.server.state(whole=not parts)
        meta |= {
            **parts, "config": self.config.as_dict(), "resolved": vars(self.resolved), "phase": self.phase,
            **self.objective.identity,
            "base_rate": self.base_rate, "alpha": self.objective.alpha, "compression": self.steering.compression,
            "staleness": self.in_force()["staleness"], "bad_epochs": self._bad_epochs,
            "steps_done": self.steps_done, "steps_ledger": self._steps_ledger, "tamed": self.steering.tamed,
            "seconds": self.clock(), "epoch": self.epoch,
            "workers": self.staffing.count, "workers_by_person": self.staffing.by_person,
            "compression_of_steps": self._compression, "parameter_shards": self.server.parameters.count,
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
            self.session.checkpoints.hold(False)
            self.happened(
                "warning", f"{used:.0%} of the memory is in use: nothing is read ahead, and checkpoints are on disk "
                "alone, until there is room.", reason=Reason.OUT_OF_MEMORY, used=used,
            )  # fmt: skip
        elif used < self.config.max_memory - ROOM and knobs.tight:
            knobs.tight, knobs.prefetch = False, self.resolved.prefetch
            self.session.checkpoints.hold(True)
