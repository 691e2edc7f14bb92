"""What the machine and the workers are using right now; when to look, and keeping what was seen, is the caller's."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shoal.metrics import HostSample, WorkerSample

if TYPE_CHECKING:
    import psutil

GPU_EVERY = 5.0  # seconds between two questions to nvidia-smi, which takes up to a second to answer
GPU_STALE = 30.0  # seconds after which an answer that did not come is given up


@dataclass(frozen=True)
class _Look:
    """A worker's process as it was seen last; `used` is its processor time."""

    process: psutil.Process
    used: float
    now: float
    cpu: float


class ResourceSampler:
    """Rates are those between two calls; `now` is the caller's clock in seconds. Used by one thread at a time."""

    def __init__(self) -> None:
        self._host: HostSample | None = None
        self._cores = (0.0, 0.0)
        self._moved = (0, 0, 0, 0)
        self._workers: dict[int, _Look] = {}
        self._gpu = _Gpu()

    def sample_host(self, now: float) -> HostSample:
        """The first call tells the use of cores since the machine was started, and no rates."""
        if self._host is not None and now <= self._host.seconds:
            return replace(self._host, seconds=now)
        import psutil  # 20 ms that programs which never sample need not spend

        cores, moved, memory = _core_seconds(), _bytes_moved(), psutil.virtual_memory()
        busy, total = (new - old for new, old in zip(cores, self._cores, strict=True))
        cpu = min(max(busy / total, 0.0), 1.0) if total > 0 else 0.0
        rates = [0.0] * 4
        if self._host is not None:
            elapsed = now - self._host.seconds
            rates = [max(new - old, 0) / elapsed for new, old in zip(moved, self._moved, strict=True)]
        self._cores, self._moved = cores, moved
        self._host = HostSample(now, cpu, memory.total - memory.available, memory.total, *rates)
        return self._host

    def sample_worker(
        self, rank: int, pid: int, now: float,
        state: str = "running", rows: int = 0, staleness: float = 0.0, wait: float = 0.0,
    ) -> WorkerSample | None:  # fmt: skip
        """None when the process is gone. The first look at a process has no time to compare with: `cpu` is 0."""
        import psutil

        try:
            look, memory = self._look_at(rank, pid, now)
        except psutil.Error:
            self._workers.pop(rank, None)
            return None
        self._workers[rank] = look
        return WorkerSample(now, rank, pid, state, look.cpu, memory, rows, staleness, wait, self._gpu.share())

    def _look_at(self, rank: int, pid: int, now: float) -> tuple[_Look, int]:
        import psutil

        before = self._workers.get(rank)
        process = before.process if before is not None and before.process.pid == pid else psutil.Process(pid)
        if not process.is_running():  # gone, or the number is another process's by now
            raise psutil.NoSuchProcess(pid)
        with process.oneshot():
            if process.status() == psutil.STATUS_ZOMBIE:
                raise psutil.ZombieProcess(pid)
            times = process.cpu_times()
            memory = int(process.memory_info().rss)
        used = times.user + times.system
        if before is None or before.process is not process:
            return _Look(process, used, now, 0.0), memory
        if now <= before.now:
            return before, memory
        return _Look(process, used, now, max(used - before.used, 0.0) / (now - before.now)), memory

    def close(self) -> None:
        """End a question to nvidia-smi that is under way; closing twice is harmless."""
        self._gpu.close()


def _core_seconds() -> tuple[float, float]:
    """Seconds that cores were busy, and all seconds, since the machine was started."""
    import psutil

    times = psutil.cpu_times()
    # Linux counts the time of guests in `user` and `nice` as well.
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - times.idle - getattr(times, "iowait", 0.0), total


def _bytes_moved() -> tuple[int, int, int, int]:
    """Disk read and written, network in and out since the machine was started; 0 where there is no such device."""
    import psutil

    disk, net = _counters(psutil.disk_io_counters), _counters(psutil.net_io_counters)
    read, written = (disk.read_bytes, disk.write_bytes) if disk else (0, 0)
    came, went = (net.bytes_recv, net.bytes_sent) if net else (0, 0)
    return read, written, came, went


def _counters(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, RuntimeError):  # a container may hide these files
        return None


class _Gpu:
    """The use of graphics processors by nvidia-smi, asked in the background: training never waits for it."""

    def __init__(self) -> None:
        self._program = shutil.which("nvidia-smi")
        self._question: subprocess.Popen[str] | None = None
        self._asked = float("-inf")
        self._answer: float | None = None

    def share(self) -> float | None:
        """Of all of them, 0 to 1, a few seconds old; None without nvidia-smi or before its first answer."""
        if self._program is None:
            return None
        if self._question is not None and self._question.poll() is not None:
            self._answer = _mean_share(self._question.communicate()[0])
            self._question = None
        elapsed = time.monotonic() - self._asked
        if self._question is None and elapsed >= GPU_EVERY:
            self._ask(self._program)
        elif self._question is not None and elapsed >= GPU_STALE:
            self.close()
            self._program = self._answer = None  # its driver hangs: do not ask again
        return self._answer

    def _ask(self, program: str) -> None:
        self._asked = time.monotonic()
        try:
            self._question = subprocess.Popen(
                [program, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        except OSError:
            self._program = None

    def close(self) -> None:
        if self._question is not None:
            self._question.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # a hung driver holds it even now
                self._question.communicate(timeout=1)
            self._question = None


def _mean_share(text: str) -> float | None:
    """One percentage a line; [N/A] for a processor that does not tell."""
    shares = [float(line) / 100 for line in text.split("\n") if line.strip().replace(".", "", 1).isdigit()]
    return sum(shares) / len(shares) if shares else None
