"""The resource sampler against what the processes and the kernel's own files say."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from shoal import metrics
from shoal.metrics import ResourceSampler
from support.processes import command_of
from support.runs import until

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
SPINNER = [sys.executable, "-c", "while True: pass"]


@pytest.fixture
def sampler() -> Iterator[ResourceSampler]:
    sampler = ResourceSampler()
    yield sampler
    sampler.close()


@pytest.fixture
def started() -> Iterator[Callable[[list[str]], subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen(command))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_host_memory_is_that_of_the_machine(sampler: ResourceSampler) -> None:
    sample = sampler.sample_host(0.0)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert sample.memory_total == total
    assert 0 < sample.memory_used < total
    assert 0 <= sample.cpu <= 1


def test_first_host_sample_has_no_rates(sampler: ResourceSampler) -> None:
    sample = sampler.sample_host(3.0)
    assert (sample.seconds, sample.disk_read, sample.disk_write, sample.net_in, sample.net_out) == (3.0, 0, 0, 0, 0)


def test_host_cpu_sees_a_busy_core(sampler: ResourceSampler) -> None:
    sampler.sample_host(0.0)
    burn(0.3)
    assert sampler.sample_host(1.0).cpu >= 0.5 / (os.cpu_count() or 1)


def test_host_rates_are_counters_over_the_callers_time(
    sampler: ResourceSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter([(100, 200, 300, 400), (150, 200, 1300, 404), (0, 0, 0, 0)])
    monkeypatch.setattr(metrics, "_bytes_moved", lambda: next(counts))
    sampler.sample_host(10.0)
    second = sampler.sample_host(14.0)
    assert (second.disk_read, second.disk_write, second.net_in, second.net_out) == (12.5, 0, 250, 1)
    third = sampler.sample_host(15.0)  # a device went away: its counters are no longer in the sum
    assert (third.disk_read, third.disk_write, third.net_in, third.net_out) == (0, 0, 0, 0)


def test_two_looks_at_one_moment_agree(sampler: ResourceSampler) -> None:
    sampler.sample_host(0.0)
    burn(0.05)
    first = sampler.sample_host(1.0)
    assert sampler.sample_host(1.0) == first
    worker = sampler.sample_worker(0, os.getpid(), 1.0)
    again = sampler.sample_worker(0, os.getpid(), 1.0)
    assert worker is not None
    assert again is not None
    assert again.cpu == worker.cpu


def test_machines_without_disks_or_network_are_sampled(
    sampler: ResourceSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden() -> None:
        raise PermissionError("/proc/net/dev")

    monkeypatch.setattr(psutil, "disk_io_counters", lambda: None)
    monkeypatch.setattr(psutil, "net_io_counters", hidden)
    sampler.sample_host(0.0)
    sample = sampler.sample_host(1.0)
    assert (sample.disk_read, sample.disk_write, sample.net_in, sample.net_out) == (0, 0, 0, 0)


def test_worker_cpu_is_process_time_over_time(sampler: ResourceSampler) -> None:
    first = sampler.sample_worker(0, os.getpid(), 0.0)
    assert first is not None
    assert first.cpu == 0.0
    before = sum(os.times()[:2])
    burn(0.2)
    used = sum(os.times()[:2]) - before
    sample = sampler.sample_worker(0, os.getpid(), 2.0)
    assert sample is not None
    assert sample.cpu == pytest.approx(used / 2.0, abs=0.03)  # the kernel counts in hundredths of a second
    quiet = sampler.sample_worker(0, os.getpid(), 1002.0)
    assert quiet is not None
    assert quiet.cpu < 0.001


def test_workers_are_told_apart(
    sampler: ResourceSampler, started: Callable[[list[str]], subprocess.Popen[bytes]]
) -> None:
    processes = [started(SLEEPER), started(SPINNER)]
    sleeper, spinner = (psutil.Process(process.pid) for process in processes)
    sleeper.suspend()  # even its start may not take time any more
    for rank, process in enumerate(processes):
        sampler.sample_worker(rank, process.pid, 0.0)
    started_at, before = time.monotonic(), spinner.cpu_times().user
    until(lambda: spinner.cpu_times().user > before + 0.2)
    elapsed = time.monotonic() - started_at
    samples = [sampler.sample_worker(rank, process.pid, elapsed) for rank, process in enumerate(processes)]
    idle, busy = (sample.cpu for sample in samples if sample is not None)
    assert idle < busy <= 1.1


def test_worker_memory_is_resident_memory(sampler: ResourceSampler) -> None:
    before = sampler.sample_worker(0, os.getpid(), 0.0)
    block = bytearray(os.urandom(1 << 20) * 64)
    after = sampler.sample_worker(0, os.getpid(), 1.0)
    assert before is not None
    assert after is not None
    assert 0.8 * len(block) < after.memory - before.memory < 2 * len(block)
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else None
    if pages is not None:
        assert after.memory == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE"), rel=0.1)


def test_what_the_caller_knows_is_passed_through(sampler: ResourceSampler) -> None:
    sample = sampler.sample_worker(3, os.getpid(), 7.5, state="waiting", rows=12, staleness=1.5, wait=0.25)
    assert sample is not None
    assert (sample.rank, sample.pid, sample.seconds, sample.state) == (3, os.getpid(), 7.5, "waiting")
    assert (sample.rows, sample.staleness, sample.wait) == (12, 1.5, 0.25)


def test_a_process_that_is_gone_gives_none(
    sampler: ResourceSampler, started: Callable[[list[str]], subprocess.Popen[bytes]]
) -> None:
    process = started(SLEEPER)
    assert sampler.sample_worker(0, process.pid, 0.0) is not None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table of processes
    assert sampler.sample_worker(0, process.pid, 1.0) is None
    process.wait()
    assert sampler.sample_worker(0, process.pid, 2.0) is None
    assert sampler.sample_worker(1, process.pid, 2.0) is None  # never seen alive


def test_a_replaced_worker_starts_anew(
    sampler: ResourceSampler, started: Callable[[list[str]], subprocess.Popen[bytes]]
) -> None:
    sampler.sample_worker(0, os.getpid(), 0.0)
    fresh = started(SLEEPER)
    sample = sampler.sample_worker(0, fresh.pid, 1.0)
    assert sample is not None
    assert (sample.pid, sample.cpu) == (fresh.pid, 0.0)


def test_psutil_is_imported_at_the_first_look() -> None:
    code = "import sys; from shoal import metrics; s = metrics.ResourceSampler(); print('psutil' in sys.modules); s.sample_host(0.0); print('psutil' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=Path(metrics.__file__).parent
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


# ------------------------------------------------------------------------------------- graphics processors


def program(folder: Path, script: str) -> None:
    """A stand-in for nvidia-smi, alone on the search path."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!{sys.executable}\n{script}\n")
    path.chmod(0o755)


def gpu_after_answer(sampler: ResourceSampler) -> float | None:
    sampler.sample_worker(0, os.getpid(), 0.0)
    question = sampler._gpu._question
    assert question is not None
    os.waitid(os.P_PID, question.pid, os.WEXITED | os.WNOWAIT)
    sample = sampler.sample_worker(0, os.getpid(), 1.0)
    assert sample is not None
    return sample.gpu


def test_without_nvidia_smi_gpu_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sample = ResourceSampler().sample_worker(0, os.getpid(), 0.0)
    assert sample is not None
    assert sample.gpu is None


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("print('50\\n[N/A]\\n100')", 0.75),
        ("print('7')", 0.07),
        ("print('No devices were found')", None),
        ("raise SystemExit(9)", None),
    ],
)
def test_gpu_is_the_mean_of_those_that_tell(
    script: str, expected: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    sampler = ResourceSampler()
    assert gpu_after_answer(sampler) == (pytest.approx(expected) if expected is not None else None)
    sampler.close()


def test_gpu_is_asked_seldom_and_never_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "import time; time.sleep(60)")
    monkeypatch.setenv("PATH", str(tmp_path))
    sampler = ResourceSampler()
    for i in range(20):
        sample = sampler.sample_worker(0, os.getpid(), float(i))
        assert sample is not None
        assert sample.gpu is None
    assert len([p for p in psutil.Process().children() if "nvidia-smi" in command_of(p)]) == 1
    sampler.close()
    sampler.close()


def test_a_gpu_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "import time; time.sleep(60)")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(metrics, "GPU_STALE", 0.0)
    sampler = ResourceSampler()
    for i in range(3):
        sampler.sample_worker(0, os.getpid(), float(i))
    assert sampler._gpu._program is None  # the fixture of all tests sees to the process itself
