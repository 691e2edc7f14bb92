"""Servers of files and what they are asked: which state a file is in, a range of it, or all of it from the beginning.

A range that comes short is asked for again, and one of another state is an error. Plain http needs nothing but Python;
other stores are read through the package `fsspec`, with the credentials of the environment.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import io
import netrc
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.errors import ConfigError, DataError, ResourceError, SourceChanged
from shoal.lazy.classes import dataclass

PATIENCE = 30.0  # seconds without a byte after which a server is taken for gone
PAUSES = (0.2, 1.0, 3.0)  # seconds between attempts
PIECE = 1 << 20  # bytes that are skipped at a time
GONE = {401: "asks for a login", 403: "does not allow it", 404: "has no such file", 410: "has no such file any more"}


@dataclass(frozen=True)
class RemoteState:
    """What a server says of a file: how long it is, whether any range of it can be had, and what tells this state."""

    size: int
    ranged: bool
    mark: str  # the entity tag, the time of the last change, or both; empty where the server tells none

    @property
    def st_size(self) -> int:
        return self.size

    @property
    def st_mtime_ns(self) -> int:
        return int.from_bytes(hashlib.sha256(self.mark.encode()).digest()[:7], "big")

    st_ctime_ns = st_mtime_ns
    st_mtime = 0.0
    st_nlink = 1

    @property
    def st_ino(self) -> int:
        return 0 if self.mark else os.getpid()  # no other process takes what cannot be told for the same


class RangeReader(io.RawIOBase):
    """A file that is read at any place, each read a range of the same state."""

    def __init__(self, store: Web | OtherStore, state: RemoteState) -> None:
        self.store, self.file_state, self.at = store, state, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.file_state.size}[whence]
        self.at = max(0, begin + offset)
        return self.at

    def readinto(self, target: Any, /) -> int:
        count = min(len(target), self.file_state.size - self.at)
        if count <= 0:
            return 0
        self.store.fill(memoryview(target).cast("B")[:count], self.at, self.file_state.mark)
        self.at += count
        return count


# ------------------------------------------------------------------ http


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Whoever is sent to another server gets no login of the first one."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and urllib.parse.urlsplit(newurl).netloc != urllib.parse.urlsplit(req.full_url).netloc:
            new.remove_header("Authorization")
        return new


class _TryAgainError(Exception):
    """What may be gone in a moment, in words."""


@dataclass(frozen=True)
class Web:
    """One file of a web server."""

    address: str
    name: str

    def state(self) -> RemoteState:
        found: RemoteState = self._again(self._look)
        return found

    def _look(self) -> RemoteState:
        with self._asked({"Range": "bytes=0-0"}) as answer:
            mark = _mark(answer.headers)
            if answer.status == 206 and (total := _total(answer.headers)) is not None:
                return RemoteState(total, True, mark)
            length = answer.headers.get("Content-Length", "")
            if not length.isdigit():
                raise DataError(
                    f"The server of '{self.name}' does not say how long the file is, so nobody could tell whether all "
                    "of it came. Download it and name it by its path."
                )
            return RemoteState(int(length), False, mark)

    def fill(self, target: memoryview, offset: int, mark: str) -> None:
        done = 0

        def more() -> None:
            nonlocal done  # what has come stays: the next attempt goes on behind it
            begin, end = offset + done, offset + len(target) - 1
            with self._asked({"Range": f"bytes={begin}-{end}"}) as answer:
                if answer.status != 206 or _mark(answer.headers) != mark:
                    raise changed_there(self.name)
                while done < len(target):
                    if not (count := answer.readinto(target[done:])):
                        raise _TryAgainError("it broke off in the middle of the file")
                    done += count

        while done < len(target):
            before = done
            try:
                more()
            except (_TryAgainError, *FAULTS):
                if done > before:
                    continue
                self._again(more)

    def stream(self, state: RemoteState) -> io.RawIOBase:
        return _Stream(self, state)

    @contextlib.contextmanager
    def asked(self, state: RemoteState) -> Iterator[Any]:
        """All of the file, from its beginning."""
        with self._again(lambda: self._opened({})) as answer:
            if _mark(answer.headers) != state.mark:
                raise changed_there(self.name)
            yield answer

    def _again(self, work: Any) -> Any:
        """What `work` answers, tried a few times; what stays wrong in a plain sentence."""
        for pause in (*PAUSES, None):
            try:
                return work()
            except (_TryAgainError, *FAULTS) as error:
                if pause is None or _is_final(error):
                    raise self._told(error) from None
                time.sleep(pause)
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def _asked(self, headers: Mapping[str, str]) -> Iterator[Any]:
        with self._opened(headers) as answer:
            yield answer

    def _opened(self, headers: Mapping[str, str]) -> Any:
        plain = {"Accept-Encoding": "identity", "User-Agent": "shoal", **headers, **_login(self.address)}
        request = urllib.request.Request(self.address, headers=plain)
        try:
            return urllib.request.build_opener(_Redirects).open(request, timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (429, 500, 502, 503, 504):
                raise _TryAgainError(f"it answers {error.code}") from None
            what = GONE.get(error.code, f"answers {error.code}")
            raise DataError(
                f"Expected '{self.name}' at {_host(self.address)}, but the server {what} ({error.code}). "
                "Check the address."
            ) from None

    def _told(self, error: BaseException) -> DataError:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):
            said = getattr(reason, "verify_message", "") or reason.reason
            why = f"its certificate or encryption cannot be trusted ({said})"
        elif isinstance(reason, TimeoutError) or "timed out" in str(reason):
            why = f"nothing came for {PATIENCE:.0f} seconds"
        elif isinstance(reason, OSError) and reason.strerror:
            why = str(reason.strerror)
        else:
            why = str(reason) or type(reason).__name__
        return DataError(
            f"'{self.name}' could not be read from {_host(self.address)}: {why}. Nothing of it was used. "
            "Check the address and the connection, then try again."
        )


FAULTS = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


def _is_final(error: BaseException) -> bool:
    """Whether another attempt would end in the same way."""
    return isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError)


class _Stream(io.RawIOBase):
    """A whole file from its beginning; one that ends too early is begun again, and what was read before is skipped."""

    def __init__(self, web: Web, state: RemoteState) -> None:
        self.web, self.file_state, self.at, self.failures = web, state, 0, 0
        self._answer: Any = None
        self._close: Any = None

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def readinto(self, target: Any, /) -> int:
        while self.at < self.file_state.size:
            try:
                if self._answer is None:
                    self._begin()
                if count := int(self._answer.readinto(target) or 0):
                    self.at += count
                    return count
                raise _TryAgainError("it broke off in the middle of the file")
            except (_TryAgainError, *FAULTS) as error:
                self._end()
                self.failures += 1
                if self.failures > len(PAUSES) or _is_final(error):
                    raise self.web._told(error) from None
                time.sleep(PAUSES[self.failures - 1])
        return 0

    def _begin(self) -> None:
        self._close = contextlib.ExitStack()
        self._answer = self._close.enter_context(self.web.asked(self.file_state))
        left = self.at
        while left:
            piece = self._answer.read(min(left, PIECE))
            if not piece:
                raise _TryAgainError("it broke off in the middle of the file")
            left -= len(piece)

    def _end(self) -> None:
        if self._close is not None:
            self._close.close()
        self._answer = self._close = None

    def close(self) -> None:
        self._end()
        super().close()


def changed_there(name: str) -> SourceChanged:
    return SourceChanged(
        f"'{name}' changed on its server while it was read. Wait until it is complete, then try again."
    )


def _mark(headers: Any) -> str:
    tag = (headers.get("ETag") or "").removeprefix("W/").strip('"')
    return re.sub(r"\s+", "_", f"{tag}.{headers.get('Last-Modified') or ''}".strip("."))


def _total(headers: Any) -> int | None:
    found = re.fullmatch(r"bytes \d+-\d+/(\d+)", headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc


def _login(address: str) -> dict[str, str]:
    """Of ~/.netrc, as curl and others take it; it is sent to that server only and written nowhere."""
    try:
        found = netrc.netrc(os.environ.get("NETRC") or None).hosts.get(urllib.parse.urlsplit(address).hostname or "")
    except (OSError, netrc.NetrcParseError):
        return {}
    if found is None:
        return {}
    both = base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()
    return {"Authorization": f"Basic {both}"}


# ------------------------------------------------------------------ other stores


@dataclass(frozen=True)
class OtherStore:
    """One file of a store that fsspec knows."""

    address: str
    name: str

    def _files(self) -> Any:
        try:
            import fsspec
        except ImportError:
            raise ResourceError(
                f"Expected the package fsspec, which reads {self.address.partition(':')[0]}:// addresses; it is not "
                "installed. Install it: pip install 'shoal[remote]'."
            ) from None
        try:
            return fsspec.core.url_to_fs(self.address, use_listings_cache=False)
        except ImportError as error:
            raise ResourceError(f"{error} Install it to read {self.address.partition(':')[0]}:// addresses.") from None

    def state(self) -> RemoteState:
        with self._in_words():
            files, path = self._files()
            files.invalidate_cache()
            found = files.info(path)
        if found.get("type") == "directory":
            raise DataError(
                f"Expected a file at '{self.address}', got a folder. Add a / to its name to read all tables in it."
            )
        told = [
            found.get(name) for name in ("ETag", "etag", "LastModified", "mtime", "updated", "created", "generation")
        ]
        mark = ".".join(str(one).strip('"') for one in told if one is not None)
        return RemoteState(int(found["size"]), True, re.sub(r"\s+", "_", mark))

    def listed(self) -> list[str]:
        """The addresses of the files that a pattern stands for or, behind a last /, of those in a folder."""
        with self._in_words():
            files, path = self._files()
            files.invalidate_cache()
            if self.address.endswith("/"):
                found = [one["name"] for one in files.ls(path, detail=True) if one["type"] == "file"]
            else:
                found = [name for name, one in files.glob(path, detail=True).items() if one["type"] == "file"]
        store = self.address.partition("://")[0]
        return [f"{store}://{str(name).lstrip('/')}" for name in found]

    def fill(self, target: memoryview, offset: int, mark: str) -> None:
        with self._in_words():
            files, path = self._files()
            piece = files.cat_file(path, start=offset, end=offset + len(target))
        if len(piece) != len(target) or self.state().mark != mark:
            raise changed_there(self.name)
        target[:] = piece

    def stream(self, state: RemoteState) -> io.RawIOBase:
        return RangeReader(self, state)

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (DataError, ResourceError, ConfigError):
            raise
        except FileNotFoundError:
            raise DataError(f"Expected a file at '{self.address}', found none. Check the address.") from None
        except Exception as error:  # noqa: BLE001 - every store has errors of its own
            raise DataError(
                f"'{self.address}' could not be read: {type(error).__name__}: {error}. Nothing of it was used. "
                "Check the address and the credentials of the environment."
            ) from None
