"""Whether a cluster turns away whoever has no token, asked in one call of gRPC written by hand: a process that imports
Ray for it takes a second. It says yes only where that was the answer; anything else it does not judge."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

CALL = b"/ray.rpc.NodeInfoGcsService/GetClusterId"  # the first call of everybody who joins; it changes nothing
FIELDS = (
    (b":path", CALL), (b":authority", b"cluster"), (b"content-type", b"application/grpc"), (b"te", b"trailers"),
)  # fmt: skip
REFUSED = (b"grpc-status\x0216", b"InvalidAuthToken")  # 16: unauthenticated; headers come as plain text
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4  # kinds of frames of HTTP/2
END_STREAM, ACKNOWLEDGED, END_HEADERS = 1, 1, 4  # their flags
LONGEST = 1 << 16  # bytes of a frame that a refusal may have


def turns_away(host: str, port: int, seconds: float) -> bool:
    """Whether the answer to a call without a token is that it needs one."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), seconds) as line:
        head = b"\x83\x86" + b"".join(_field(*field) for field in FIELDS)  # POST, http
        empty = bytes(5)  # a message that is not compressed and has no bytes
        line.sendall(
            GREETING + _frame(SETTINGS, 0, 0, b"") + _frame(HEADERS, END_HEADERS, 1, head)
            + _frame(DATA, END_STREAM, 1, empty)
        )  # fmt: skip
        return _is_refused(line, time.monotonic() + seconds)
    return False


def _is_refused(line: socket.socket, deadline: float) -> bool:
    with line.makefile("rb") as answer:
        while time.monotonic() < deadline and len(top := answer.read(9)) == 9:
            length, kind, flags = int.from_bytes(top[:3], "big"), top[3], top[4]
            if length > LONGEST:
                return False
            body = answer.read(length)
            if kind == SETTINGS and not flags & ACKNOWLEDGED:
                line.sendall(_frame(SETTINGS, ACKNOWLEDGED, 0, b""))
            if kind == HEADERS and flags & END_STREAM:
                return all(word in body for word in REFUSED)
            if kind == DATA:
                return False  # an answer to the question itself
    return False


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def _field(name: bytes, value: bytes) -> bytes:
    """A header as it is, with lengths of a byte."""
    return b"".join((b"\0", bytes([len(name)]), name, bytes([len(value)]), value))
