"""One call of gRPC to a part of Ray, to which its own library has no way, or only after a second of imports. It is
written by hand: nothing is asked but whether it worked. What is called, and what that means, is known elsewhere."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4  # kinds of frames of HTTP/2
END_STREAM, ACKNOWLEDGED, END_HEADERS = 1, 1, 4  # their flags
LONGEST = 1 << 16  # bytes of a frame that an answer may have
POST = b"\x83\x86"  # and http, by their numbers


def call(door: tuple[str, int], path: bytes, message: bytes, seconds: float, token: str = "") -> bytes:
    """The headers that end the answer, in which names and values are plain text; empty where there is none."""
    fields = [
        (b":path", path),
        (b":authority", b"cluster"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ]
    if token:
        fields.append((b"authorization", f"Bearer {token}".encode()))
    deadline = time.monotonic() + seconds
    with contextlib.suppress(OSError), socket.create_connection(door, seconds) as line:
        head = POST + b"".join(_field(*field) for field in fields)
        body = struct.pack(">BI", 0, len(message)) + message  # not compressed
        line.sendall(
            GREETING + _frame(SETTINGS, 0, 0, b"") + _frame(HEADERS, END_HEADERS, 1, head)
            + _frame(DATA, END_STREAM, 1, body)
        )  # fmt: skip
        return _end(line, deadline)
    return b""


def _end(line: socket.socket, deadline: float) -> bytes:
    with line.makefile("rb") as answer:
        while time.monotonic() < deadline and len(top := answer.read(9)) == 9:
            length, kind, flags = int.from_bytes(top[:3], "big"), top[3], top[4]
            if length > LONGEST:
                break
            body = answer.read(length)
            if kind == SETTINGS and not flags & ACKNOWLEDGED:
                line.sendall(_frame(SETTINGS, ACKNOWLEDGED, 0, b""))
            if kind == HEADERS and flags & END_STREAM:
                return body
    return b""


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def _field(name: bytes, value: bytes) -> bytes:
    """A header as it is."""
    return b"".join((b"\0", _length(name), name, _length(value), value))


def _length(text: bytes) -> bytes:
    """In seven bits, or what is beyond them in the next bytes, seven bits each, the lowest first."""
    if (left := len(text) - 127) < 0:
        return bytes([len(text)])
    found = bytearray([127])
    while left > 127:
        found.append(128 | left & 127)
        left >>= 7
    return bytes([*found, left])
