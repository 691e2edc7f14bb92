"""The way into a Ray cluster: one that is there, by its address, or a small one of our own; not what runs on it.

Whoever can reach an open cluster can run programs on it, so a token is always asked for; it stays in the environment
of processes and is never written or shown.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shoal.engines.cluster.knocking import turns_away
from shoal.engines.cluster.lean import send_plain_arrays
from shoal.engines.worker_process import import_path
from shoal.errors import ConfigError, EngineError, Remedy, ResourceError
from shoal.utils import THREAD_LIMITS

SECONDS = 5.0  # for an address to answer
FAREWELL = 20.0  # seconds to leave a cluster in order
STORE = 200 << 20  # bytes of the object store of a small cluster
MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).internal_kv_keys(b'', None)"
REFUSED = b"nauthenticated"  # what a cluster says to whoever has no token, again and again


class Connection:
    """This process on a cluster. There is one at a time for a process; several engines may share it."""

    _lock = threading.RLock()
    _current: Connection | None = None

    def __init__(self, address: str, folder: Path | None, leave: Callable[[], None] | None) -> None:
        """`leave` undoes what was done to Ray for it; None where the cluster was chosen by somebody else."""
        self.address = address
        self._folder, self._leave, self._users = folder, leave, 0

    @classmethod
    def to(cls, address: str = "", cores: int = 1, allow_open: bool = False) -> Connection:
        """The cluster at the address; without one, a new cluster of so many cores that is gone with its last user."""
        with cls._lock:
            current = cls._current
            if current is None:
                current = cls._current = _joined(address, allow_open) if address else _started(cores)
            elif address and address != current.address:
                raise ConfigError(
                    f"This process is at work on the cluster {current.address or 'of its own'} and cannot use that at "
                    f"{address} at the same time. Wait for the other work to end, or use another process.",
                    knobs=["cluster"],
                )
            current._users += 1
            return current

    def close(self) -> None:
        """Leave it when the last user does."""
        with self._lock:
            self._users -= 1
            if self._users or Connection._current is not self:
                return
            Connection._current = None
            if self._leave is not None:
                _left(self._folder)
                self._leave()

    def free_cores(self) -> int:
        import ray

        return int(ray.available_resources().get("CPU", 0))

    def cores(self) -> int:
        import ray

        return int(ray.cluster_resources().get("CPU", 0))

    def gcs_address(self) -> str:
        """Where its head answers, also that of a small cluster of our own."""
        import ray

        return str(ray.get_runtime_context().gcs_address)

    def waiting(self) -> str:
        cores, free = self.cores(), self.free_cores()
        return f"waiting for a free core of the cluster, which has {cores:,}, {free:,} of them free"

    def no_place(self) -> str:
        """Why no worker finds a core."""
        where = f"at {self.address}" if self.address else "of this run"
        return (
            f"The cluster {where} has {self.cores()} cores and {self.free_cores()} of them are free, so no worker has "
            "found a place. Wait until others are done, or add a node, and try again."
        )


def can_be_joined(address: str, allow_open: bool) -> bool:
    """Whether somebody answers there, and this process has what it takes; whom it meets is seen when it joins."""
    if importlib.util.find_spec("ray") is None or not (allow_open or _has_token()):
        return False
    with contextlib.suppress(ConfigError, ResourceError):
        _check_answers(address)
        return True
    return False


def imported() -> Any:
    """Ray as the environment is now, or what to do without."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    again = "ray" in sys.modules
    try:
        import ray

        if again and not ray.is_initialized():  # it has looked at the environment when it was imported
            importlib.import_module("ray._raylet").Config.initialize("")
    except ImportError as error:
        raise ResourceError(
            f"Expected Ray for engine ray, but it cannot be imported ({error}). "
            "Install it with: pip install 'shoal[ray]'."
        ) from None
    return ray


def _is_there() -> bool:
    """Whether somebody else in this process has chosen a cluster: then it is theirs to end."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


# ------------------------------------------------------------------ a cluster that is there


def _joined(address: str, allow_open: bool) -> Connection:
    if _is_there():
        return Connection(address, None, None)
    host, port = _check_answers(address)
    _use_token(allow_open)
    if allow_open or turns_away(host, port, SECONDS):
        ray = imported()
    else:
        with _asking_without_token(address) as asking:
            ray = imported()  # takes as long as the question
            _check_closed(address, asking)
    with _plain_words(address):
        leave = _init(ray, address=address)
    return Connection(address, None, leave)


def _check_answers(address: str) -> tuple[str, int]:
    """Its host and port."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ConfigError(
            f"Expected the address of a cluster as HOST:PORT, got '{address}'. `ray start --head` prints it.",
            knobs=["cluster"],
        )
    host = host.strip("[]")
    try:
        socket.create_connection((host, int(port)), SECONDS).close()
    except OSError as error:
        raise ResourceError(
            f"Nobody answers at {address}, where a cluster was expected ({error}). Start it with `ray start --head`, "
            "or correct the address."
        ) from None
    return host, int(port)


def _has_token() -> bool:
    named = os.environ.get(TOKEN) or os.environ.get(TOKEN_PATH)
    return bool(named) or Path("~/.ray/auth_token").expanduser().exists()


def _use_token(allow_open: bool) -> None:
    """A token of the environment or of Ray's own file; without one only an open cluster would let us in."""
    if _has_token():
        os.environ[MODE] = "token"
    elif allow_open:
        os.environ.setdefault(MODE, "disabled")
    else:
        raise ConfigError(
            f"Expected the token of the cluster in {TOKEN}, in the file that {TOKEN_PATH} names, or in "
            "~/.ray/auth_token; found none. Ask whoever runs the cluster for it.",
            Remedy.say("To use a cluster that asks nobody for one, say so with --open-cluster (open_cluster: true)"),
            knobs=["cluster"],
        )


@contextlib.contextmanager
def _asking_without_token(address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Whether the cluster answers somebody without a token, asked by a process that has none."""
    bare = {name: value for name, value in os.environ.items() if name not in (TOKEN, TOKEN_PATH)}
    bare |= {MODE: "disabled", "HOME": os.devnull, **THREAD_LIMITS}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", PROBE, address], env=bare, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    ) as asking:  # fmt: skip
        try:
            yield asking
        finally:
            asking.kill()


def _check_closed(address: str, asking: subprocess.Popen[bytes]) -> None:
    assert asking.stderr is not None
    if any(REFUSED in line for line in asking.stderr):
        return
    if asking.wait() == 0:
        raise ConfigError(
            f"The cluster at {address} is open: it asks nobody for a token, so everybody who reaches it can run "
            f"programs on it. Start it with {MODE}=token.",
            Remedy.say("Where nobody else can reach it, use it all the same with --open-cluster (open_cluster: true)"),
            knobs=["cluster"],
        )
    raise ResourceError(
        f"What answers at {address} does not speak as a cluster does. Check the address: `ray start --head` prints it."
    )


@contextlib.contextmanager
def _plain_words(address: str) -> Iterator[None]:
    """What Ray says of a cluster that it cannot join, in a sentence."""
    from ray.exceptions import AuthenticationError, RayError

    try:
        yield
    except AuthenticationError:
        raise ConfigError(
            f"The cluster at {address} did not accept the token. Set {TOKEN} to the token it was started with.",
            knobs=["cluster"],
        ) from None
    except (RayError, RuntimeError, ConnectionError, OSError, ValueError) as error:
        text = " ".join(str(error).split())
        if "Version mismatch" in text:
            found = text.split("Version mismatch:")[1].strip()
            raise ResourceError(
                f"Ray and Python have to be of the same versions on all machines of a cluster. {found}. "
                "Install the same versions here or there."
            ) from None
        raise ResourceError(
            f"The cluster at {address} could not be joined: {text[:300]}. This machine has to be a node of it: "
            f"`ray start --address {address} --num-cpus 0` makes it one."
        ) from None


# ------------------------------------------------------------------ a small cluster of our own


def _started(cores: int) -> Connection:
    if _is_there():
        return Connection("", None, None)
    os.environ[MODE] = "token"
    if not (os.environ.get(TOKEN) or os.environ.get(TOKEN_PATH)):
        os.environ[TOKEN] = secrets.token_hex(32)
    ray = imported()
    folder = Path(tempfile.mkdtemp(prefix="shoal-ray-"))
    try:
        with _same_imports():
            leave = _init(
            ray, address="local", num_cpus=max(1, cores), include_dashboard=False, object_store_memory=STORE,
            _temp_dir=str(folder), _node_ip_address="127.0.0.1",
        )  # fmt: skip
    except BaseException as error:
        _left(folder)
        if isinstance(error, Exception) and not isinstance(error, EngineError):
            text = " ".join(str(error).split())[:300]
            raise ResourceError(
                f"A small cluster could not be started on this machine: {text}. Try again, or use engine processes."
            ) from None
        raise
    return Connection("", folder, leave)


@contextlib.contextmanager
def _same_imports() -> Iterator[None]:
    """What is started meanwhile finds the modules that this process finds, with one thread each."""
    before = dict(os.environ)
    os.environ.update(THREAD_LIMITS | {"PYTHONPATH": import_path()})
    try:
        yield
    finally:
        for name in (*THREAD_LIMITS, "PYTHONPATH"):
            os.environ.pop(name)
            if name in before:
                os.environ[name] = before[name]


def _init(ray: Any, **how: Any) -> Callable[[], None]:
    """Ray takes over signals and prints for itself; both stay ours. Returns how to undo what it was told here."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    _keep_quiet()
    leave = send_plain_arrays()
    try:
        ray.init(log_to_driver=False, configure_logging=False, **how)
    except BaseException:
        leave()
        raise
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
    return leave


def _keep_quiet() -> None:
    """Ray prints what its daemons say of lost workers to standard output, which may be a table; we say it ourselves."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_, **__: None


def _left(folder: Path | None) -> None:
    """Ray waits for a head that is gone; nobody waits for Ray."""
    import ray

    leaving = threading.Thread(target=ray.shutdown, name="leaving the cluster", daemon=True)
    leaving.start()
    leaving.join(FAREWELL)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
