"""Who works on a run: the engine that its config asks for, worker processes kept between fits, and the machines of a
cluster; which work goes to them is not decided here. Quick to import: workers start while what a run needs is imported.

Starting workers takes longer than most fits. So an engine stays open for a while after its last use, one for each
number of workers, and is gone after an idle time, at the exit of this process, or when this process is killed.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.data.files import Identity
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.errors import ConfigError
from shoal.files.parts import parts_of
from shoal.home import home
from shoal.networks.extra import need_torch
from shoal.runs.slots import CLUSTER, cores
from shoal.settings.config import RunConfig
from shoal.settings.limits import NETWORK_WORKERS, TORCH_BYTES, worker_count
from shoal.settings.values import moved
from shoal.settings.when import MODULE, NETWORK
from shoal.utils import Progress, available_memory, forks_within, silent

if TYPE_CHECKING:
    from shoal.coordinator import Coordinator
    from shoal.engines.cluster.connection import Connection

IDLE_SECONDS = 60.0


def workers_for(config: RunConfig) -> int:
    """How many worker processes suit the file and the config; 0 for none, this process does it."""
    config.ready(target=False)
    count = worker_count(config, _size(config.file), cores())
    if count > NETWORK_WORKERS and config.model in (MODULE, NETWORK):
        count = max(1, min(count, int(config.max_memory * available_memory()) // TORCH_BYTES))
    return count


def _size(file: str) -> int:
    return sum(Identity.of(path).size for path in parts_of(file))


def make_engine(config: RunConfig) -> Engine:
    """The engine that the config asks for; whoever opens it closes it."""
    preload = ["shoal.passes.blocks" if config.solver == "exact" else "shoal.passes.gradient_loop"]
    if config.model in (MODULE, NETWORK) and config.solver == "gradient":
        need_torch()
        preload.append("shoal.networks.live")  # PyTorch takes seconds to import: before the first batch, not in it
    if config.engine == "ray":
        return _cluster_engine(config, preload)
    workers = workers_for(config)
    return _processes(workers, preload) if workers else InlineEngine()


def _processes(workers: int, preload: Sequence[str] = ()) -> Engine:
    from shoal.engines.processes import ProcessEngine  # here: a small fit needs none

    return ProcessEngine(workers, preload=preload, forks=forks_within())


def _cluster_engine(config: RunConfig, preload: list[str]) -> Engine:
    from shoal.engines.cluster.connection import Connection  # here: only those who ask for it need Ray

    address = config.cluster or os.environ.get(CLUSTER, "")
    connection = Connection.to(address, max(config.workers, cores()), config.open_cluster)
    from shoal.engines.cluster.engine import RayEngine

    return RayEngine(config.workers, connection, preload=preload)


def reachable(config: RunConfig) -> RunConfig:
    """The place for a question about a model: where it was fitted, or this machine if that was a cluster which is gone
    or which this process may not join. Answers have the same bits."""
    if config.engine != "ray":
        return config
    address = config.cluster or os.environ.get(CLUSTER, "")
    if address:
        from shoal.engines.cluster.connection import can_be_joined  # here: only those who ask for it need Ray

        if can_be_joined(address, config.open_cluster):
            return config
    return moved(replace(config, workers=0), {"engine": "auto"})


# ------------------------------------------------------------------ kept between fits


class KeptEngine:
    """One engine, used by one thread at a time: a second one waits, as there are no more cores than workers."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self.make = make
        self.engine: Engine | None = None
        self.turn = threading.Lock()
        self.last_used = 0.0
        self.watched = False

    @contextmanager
    def lent(self) -> Iterator[Engine]:
        with self.turn:
            if self.engine is None:
                self.engine = self.make()
            try:
                yield self.engine
            except BaseException:
                self._close()  # whatever was under way is of no use to the next one
                raise
            self.last_used = time.monotonic()
            self._watch(IDLE_SECONDS)

    def close(self, patience: float = -1) -> None:
        """When its user is done, or not at all if that takes too long: then it ends with this process."""
        if self.turn.acquire(timeout=patience):
            try:
                self._close()
            finally:
                self.turn.release()

    def _close(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()

    def _watch(self, seconds: float) -> None:
        """One timer at a time looks whether the engine is idle: a new one for each fit would cost more than it."""
        if not self.watched:
            self.watched = True
            timer = threading.Timer(seconds, self._look)
            timer.daemon = True
            timer.start()

    def _look(self) -> None:
        with self.turn:
            self.watched = False
            left = self.last_used + IDLE_SECONDS - time.monotonic()
            if self.engine is None:
                return
            if left <= 0:
                self._close()
            else:
                self._watch(left)


_kept: dict[Hashable, KeptEngine] = {}
_lock = threading.Lock()
_of_parent: list[KeptEngine] = []


def pooled_engine(workers: int) -> AbstractContextManager[Engine]:
    """An engine with that many worker processes, kept from the last use where there was one."""
    return _pooled(workers, lambda: _processes(workers))


@contextmanager
def _pooled(key: Hashable, make: Callable[[], Engine]) -> Iterator[Engine]:
    with _lock:
        kept = _kept.setdefault(key, KeptEngine(make))
    with kept.lent() as engine:
        yield engine


@contextmanager
def engine_for(workers: int) -> Iterator[Engine]:
    """This process for 0 workers, else worker processes that are kept."""
    with pooled_engine(workers) if workers else InlineEngine() as engine:
        yield engine


def _engine_of(config: RunConfig) -> AbstractContextManager[Engine]:
    if config.engine == "ray":
        key = config.engine, config.cluster, config.open_cluster, config.workers
        return _pooled(key, lambda: make_engine(config))
    return engine_for(workers_for(config))


@contextmanager
def kept_coordinator(
    config: RunConfig, progress: Progress | None = None, folder: Path | None = None
) -> Iterator[Coordinator]:
    """A coordinator for the config's file whose workers, if the file is large enough for some, are kept."""
    from shoal.coordinator import Coordinator  # here: workers start before it is imported

    with _engine_of(config) as engine:
        yield Coordinator(engine, folder or home(), progress or silent)


def close_pools(patience: float = -1) -> None:
    """End all kept workers now; the next fit that needs some starts new ones. Waits for a fit that uses them."""
    with _lock:
        kept = list(_kept.values())
    for one in kept:
        one.close(patience)


def _after_fork() -> None:
    """A fork has its parent's engines but not its turn to use them, and maybe locks that nobody will open.

    They are kept, untouched: if they were collected here, their clean-up would act on the parent's workers.
    """
    global _lock
    _of_parent.extend(_kept.values())
    _kept.clear()
    _lock = threading.Lock()


atexit.register(close_pools, patience=1.0)  # a thread that still fits ends with this process, and its workers too
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ------------------------------------------------------------------ machines


@contextmanager
def _cluster(config: RunConfig, progress: Progress) -> Iterator[tuple[str, Connection]]:
    """The config's cluster or the environment's, with its address, for a question about itself."""
    address = config.cluster or os.environ.get(CLUSTER, "")
    if not address:
        raise ConfigError(f"Expected the address of a cluster in {CLUSTER}, got none. Set it to HOST:PORT.")
    progress(f"asking the cluster at {address}", 0.0)
    from shoal.engines.cluster.connection import Connection  # here: only those who ask for it need Ray

    connection = Connection.to(address, allow_open=config.open_cluster)
    try:
        yield address, connection
    finally:
        connection.close()


def cluster_nodes(config: RunConfig, progress: Progress) -> dict[str, Any]:
    """The nodes of the config's cluster or of the environment's, those with cores first."""
    with _cluster(config, progress) as (address, connection):
        from shoal.engines.cluster.nodes import look_at_nodes

        found = look_at_nodes()
        return {"address": address, "cores": connection.cores(), "free": connection.free_cores(), "nodes": found}


def free_cores(config: RunConfig) -> int:
    """Cores of the config's cluster or of the environment's that nobody uses at this moment; all, if each is used."""
    with _cluster(config, silent) as (_, connection):
        return connection.free_cores() or connection.cores()
