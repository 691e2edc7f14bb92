"""A worker: answers requests about blocks, one at a time, and keeps no state that matters.

How a request finds its worker, and what happens when one is lost, belongs to `engines`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import mmap
import os
import pickle
import select
import signal
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shoal.errors import EngineError, TrainingError
from shoal.lazy.classes import dataclass
from shoal.utils import die_with_parent, plain_error, read_at, write_at

NAME = Path("/proc/self/comm")  # what the system's lists of processes call this one: a fork has its parent's command


class Request(Protocol):
    """A picklable, frozen question; the answer depends on nothing but its fields, so it may be redone."""

    def answer(self, worker: Worker) -> Any: ...


@dataclass(frozen=True)
class SharedArray:
    """The name of an array that every worker can see; small enough to be a field of a request."""

    key: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool = False  # the layout is kept, since another layout gives BLAS sums with other last bits
    writable: bool = False  # by all who see it; who writes what and when is agreed between them

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


class ParameterStore(Protocol):
    """What a training worker sees of the parameter server."""

    def join(self) -> Any:
        """The first work, or None where there is none any more."""

    def push_pull(self, update: Any) -> Any:
        """Hand in what was done and wait, as long as the mode demands, for the next work; None: leave."""


class AskNode(Protocol):
    """Another machine calls a function; None where it cannot be asked or fails."""

    def __call__(self, node: str, function: Callable[..., Any], *arguments: Any) -> Any: ...


class Worker:
    """Answers requests; lends them buffers that outlive a request, the shared arrays, and the parameter store."""

    def __init__(self, rank: int = 0, store: ParameterStore | None = None, *, apart: bool = False) -> None:
        self.rank = rank
        self.apart = apart  # it may be on another machine than whoever asks, with another disk
        self.node = ""  # that machine, where there are several
        self.ask_node: AskNode | None = None  # lets another machine answer, where there are several
        self._store = store
        self._scratch: dict[str, npt.NDArray[np.uint8]] = {}
        self._arrays: dict[int, npt.NDArray[Any]] = {}
        self.known: dict[str, Any] = {}

    def serving(self, store: ParameterStore) -> Worker:
        """The same worker, with a parameter store."""
        self._store = store
        return self

    def handle(self, request: Request) -> Any:
        return request.answer(self)

    def scratch(self, name: str, nbytes: int) -> npt.NDArray[np.uint8]:
        """`nbytes` of memory with whatever the last user of this name left there; valid for one request.

        Fresh memory costs a page fault every 4 KB, for every block anew: this costs them once.
        """
        buffer = self._scratch.get(name)
        if buffer is None or buffer.size < nbytes:
            buffer = self._scratch[name] = np.empty(nbytes + nbytes // 4, np.uint8)
        return buffer[:nbytes]

    def array(self, shared: SharedArray) -> npt.NDArray[Any]:
        if shared.key not in self._arrays:
            raise EngineError(f"Shared array {shared.key} is not there any more: it was released.")
        return self._arrays[shared.key]

    def know(self, name: str, what: Any) -> None:
        """Keep something small at hand, which any worker that needs it was told."""
        self.known[name] = what

    @property
    def store(self) -> ParameterStore:
        if self._store is None:
            raise EngineError("There is no parameter server here: this request belongs into `Engine.run_workers`.")
        return self._store

    def hold(self, shared: SharedArray, array: npt.NDArray[Any]) -> None:
        self._arrays[shared.key] = array

    def drop(self, key: int) -> None:
        self._arrays.pop(key, None)


@dataclass(frozen=True)
class Ping:
    """A request that takes no time: what it takes all the same is the way there and back, with what it carries."""

    load: Any = None

    def answer(self, worker: Worker) -> Any:
        return self.load


# --- messages between an engine and a worker process ---------------------------------------------------


@dataclass(frozen=True)
class Hold:
    """To a worker: map the array whose descriptor comes along."""

    shared: SharedArray


@dataclass(frozen=True)
class Drop:
    """To a worker: the array was released."""

    key: int


@dataclass(frozen=True)
class Ready:
    """From a worker: everything is imported, requests are welcome."""


@dataclass(frozen=True)
class Reply:
    """From a worker: the report, or why there is none."""

    report: Any = None
    error: TrainingError | None = None


@dataclass(frozen=True)
class Push:
    """From a training worker: what it has done, or None when it joins. It waits for `Work`."""

    update: Any


@dataclass(frozen=True)
class Work:
    """To a training worker: what to do next, or None to leave."""

    work: Any


Parts = list[bytes | memoryview]


def pack(message: object) -> Parts:
    """The pickle, then the memory of its arrays as it is."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    return [head, *(buffer.raw() for buffer in buffers)]


def unpack(parts: Sequence[bytes | memoryview]) -> Any:
    return pickle.loads(parts[0], buffers=parts[1:])


class Channel:
    """One end of a `multiprocessing` pipe, with a file per direction beside it for messages too large for the pipe.

    A side writes its file only after the other side has read the message before: requests and replies
    alternate, and `Hold`, `Drop` and `Ready` are small. So no lock, and never two large writes that wait for
    each other. The file is written and read, not mapped: it grows by itself, and where memory is short
    that is an error to be reported, not a SIGBUS.
    """

    SMALL = 64 * 1024
    _HEAD = struct.Struct("<I?")  # number of parts, whether they are in the file; their lengths follow

    def __init__(self, connection: Connection, inbox: int, outbox: int) -> None:
        self._connection, self._inbox, self._outbox = connection, inbox, outbox

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, parts: Parts) -> None:
        lengths = [len(part) for part in parts]
        in_file = sum(lengths) > self.SMALL
        head = self._HEAD.pack(len(parts), in_file) + struct.pack(f"<{len(parts)}Q", *lengths)
        if in_file:
            self._write_file(parts)
        self._connection.send_bytes(head if in_file else b"".join((head, *parts)))

    def receive(self) -> list[memoryview]:
        """The parts, copied out; EOFError at the other side's end."""
        try:
            frame = memoryview(self._connection.recv_bytes())
        except ConnectionError:
            raise
        except OSError as error:  # it ended in the middle of a message
            raise EOFError(str(error)) from None
        count, in_file = self._HEAD.unpack_from(frame)
        lengths = struct.unpack_from(f"<{count}Q", frame, self._HEAD.size)
        offset = 0 if in_file else self._HEAD.size + 8 * count
        if count == 1 and not in_file:
            return [frame[offset:]]  # no array in it that somebody might write to
        parts = [np.empty(length, np.uint8).data for length in lengths]
        for part in parts:
            if in_file:
                read_at(self._inbox, part, offset)
            else:
                part[:] = frame[offset : offset + len(part)]
            offset += len(part)
        return parts

    def send_descriptor(self, descriptor: int, pid: int) -> None:
        reduction.send_handle(self._connection, descriptor, pid)

    def receive_descriptor(self) -> int:
        return reduction.recv_handle(self._connection)

    def close(self) -> None:
        self._connection.close()
        os.close(self._inbox)
        os.close(self._outbox)

    def _write_file(self, parts: Parts) -> None:
        offset = 0
        for part in parts:
            write_at(self._outbox, part, offset)
            offset += len(part)


class ChannelStore:
    """The parameter server at the other end of a worker's channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def join(self) -> Any:
        die_with_parent()  # a worker that was stopped to see what happens could not hear of the coordinator's end
        return self.push_pull(None)

    def push_pull(self, update: Any) -> Any:
        self._channel.send(pack(Push(update)))
        return unpack(self._channel.receive()).work


# --- the worker process --------------------------------------------------------------------------------


def serve(arguments: Sequence[str]) -> None:
    """The life of a worker: `python -m shoal.worker RANK PARENT TIED PIPE INBOX OUTBOX LIFELINE STDERR [MODULE...]`."""
    rank, parent, tied, connection, inbox, outbox, lifeline, stderr = map(int, arguments[:8])
    if tied:
        die_with_parent()
    with contextlib.suppress(OSError):  # not everywhere
        NAME.write_text(f"shoal-worker {rank}")
    for descriptor in (connection, inbox, outbox, lifeline, stderr):
        os.set_inheritable(descriptor, False)  # a compiler that a request starts must not keep us alive
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the coordinator's to act on
    threading.Thread(target=_die_with, args=(lifeline, parent), daemon=True).start()
    _take_over_stderr(stderr)
    faulthandler.enable()
    channel = Channel(Connection(connection), inbox, outbox)
    try:
        channel.send(pack(Ready()))
        for module in arguments[8:]:
            importlib.import_module(module)
        _answer_all(Worker(rank, ChannelStore(channel)), channel)
    except (EOFError, ConnectionError):
        pass  # the coordinator closed its end: a normal day's end
    finally:
        channel.close()


def _answer_all(worker: Worker, channel: Channel) -> None:
    while True:
        reply = _answer(worker, channel, channel.receive())
        if reply:
            channel.send(reply)


def _answer(worker: Worker, channel: Channel, parts: list[memoryview]) -> Parts:
    """The packed reply; whatever goes wrong between the two pickles is a reply as well."""
    request = None
    try:
        request = unpack(parts)
        if isinstance(request, Hold):
            _hold(worker, channel, request.shared)
            return []
        if isinstance(request, Drop):
            worker.drop(request.key)
            return []
        return pack(Reply(worker.handle(request)))
    except Exception as error:
        if isinstance(request, Hold):  # nobody waits for an answer to it
            raise
        return pack(Reply(error=portable(plain_error(request, error))))


def portable(error: TrainingError) -> TrainingError:
    """The error if it survives the journey: one with a constructor of its own may fail to be unpickled."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - pickling runs the error's own code
        copy = None
    return error if type(copy) is type(error) else EngineError(str(error))


def _hold(worker: Worker, channel: Channel, shared: SharedArray) -> None:
    try:
        descriptor = channel.receive_descriptor()
    except (OSError, RuntimeError):
        sys.exit("A shared array came without its descriptor: too many files are open.")
    try:
        access = mmap.ACCESS_WRITE if shared.writable else mmap.ACCESS_READ
        memory = mmap.mmap(descriptor, shared.nbytes, access=access) if shared.nbytes else b""
    finally:
        os.close(descriptor)
    flat = np.frombuffer(memory, shared.dtype) if memory else np.empty(0, shared.dtype)
    worker.hold(shared, flat.reshape(shared.shape, order="F" if shared.fortran else "C"))


def _die_with(lifeline: int, parent: int) -> None:
    """End this process as soon as the coordinator is gone, in the middle of a computation too.

    The pipe tells at once. The parent's number is looked at as well, since a fork of the coordinator
    that someone else made would hold the pipe open.
    """
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    while not poll.poll(1000) and os.getppid() == parent:
        pass
    os._exit(0)


def _take_over_stderr(stderr: int) -> None:
    """From here on write where the coordinator writes; what was said until now went to the start-up log."""
    said = os.pread(2, Channel.SMALL, 0)
    os.dup2(stderr, 2)
    os.dup2(stderr, 1)  # standard output may be a table that the coordinator is printing
    os.close(stderr)
    if said:
        os.write(2, said)


if __name__ == "__main__":
    # Requests are pickled as `worker.Name`: serve from the module of that name, not from its twin `__main__`.
    from shoal import worker
    from shoal.home import keep_private

    keep_private()
    worker.serve(sys.argv[1:])
