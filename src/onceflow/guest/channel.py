"""Messages between a process and its guests: 4 bytes of length, big-endian, then that much JSON in UTF-8.

The guests' side, synchronous; `runtime/frames.py` is the same framing for asyncio.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from onceflow.model.errors import GuestError

ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
LIMIT = 64 * 1024 * 1024
Pipe = int | socket.socket


def pack(message: Any) -> bytes:
    """A message as bytes. Raises GuestError if it is longer than LIMIT."""
    body = ENCODER.encode(message).encode()
    if len(body) > LIMIT:
        raise GuestError(f"a message of {len(body)} bytes", remedy=f"at most {LIMIT} bytes are allowed")
    return len(body).to_bytes(4, "big") + body


def send(pipe: Pipe, message: Any) -> None:
    """Write one message, whole. Raises OSError if the other side is gone."""
    write(pipe, pack(message))


def write(pipe: Pipe, data: bytes) -> None:
    """Write all bytes."""
    if isinstance(pipe, socket.socket):
        pipe.sendall(data)
        return
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def recv(pipe: Pipe) -> Any:
    """Read one message. Raises EOFError if the other side closed, GuestError if what comes is no message."""
    size = int.from_bytes(_read(pipe, 4), "big")
    if size > LIMIT:
        raise GuestError(f"a message of {size} bytes was announced", remedy=f"at most {LIMIT} bytes are allowed")
    try:
        return json.loads(_read(pipe, size))
    except ValueError as error:
        raise GuestError(f"a message that is no JSON: {error}") from error


def _read(pipe: Pipe, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = pipe.recv(min(size, 1 << 20)) if isinstance(pipe, socket.socket) else os.read(pipe, min(size, 1 << 20))
        if not part:
            raise EOFError("the other side closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
