"""Framed JSON messages with guests over a socket pair: a 4-byte big-endian length, then UTF-8 JSON; the host's side.

The guests' side is `onceflow.guest.channel`. A file descriptor may travel with a message.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from typing import Any

from onceflow.guest.channel import LIMIT
from onceflow.model.errors import GuestError

LENGTH = 4
CHUNK = 262_144


class Frames:
    """The host's end of a socket pair, driven by the event loop. Callbacks: one per message, one at the end.

    Users' code may write to any descriptor: what is no message counts as the end.
    """

    def __init__(
        self, sock: socket.socket, on_message: Callable[[dict[str, Any]], None], on_close: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._on_message = on_message
        self._on_close = on_close
        self._received = bytearray()
        self._unsent = bytearray()
        self._open = True
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._readable)

    @property
    def open(self) -> bool:
        """The other end is there, as far as we know."""
        return self._open

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; silently nothing once the other end is gone."""
        body = json.dumps(message, separators=(",", ":")).encode()
        self.send_bytes(len(body).to_bytes(LENGTH, "big") + body)

    def send_bytes(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send bytes, and with them file descriptors; silently nothing once the other end is gone."""
        if not self._open:
            return
        if descriptors:
            self._send_with_descriptors(data, descriptors)
        else:
            self._write(data)

    def drain(self) -> None:
        """Handle at once what the other side sent before it ended."""
        while self._open and self._received_more():
            continue

    def close(self) -> None:
        """Close this end; `on_close` is not called for it."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()

    def _send_with_descriptors(self, data: bytes, descriptors: Sequence[int]) -> None:
        self._sock.setblocking(True)  # small, and its reader does nothing but read: never blocks for long
        try:
            if self._unsent:
                self._sock.sendall(self._unsent)
                self._unsent.clear()
            sent = socket.send_fds(self._sock, [data], list(descriptors))
            self._sock.sendall(data[sent:])
        except OSError:
            self._lost()
            return
        self._sock.setblocking(False)

    def _write(self, data: bytes) -> None:
        if not self._unsent:
            try:
                data = data[self._sock.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                self._lost()
                return
        if data:
            self._unsent += data
            self._loop.add_writer(self._sock.fileno(), self._writable)

    def _writable(self) -> None:
        try:
            sent = self._sock.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self._lost()
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._sock.fileno())

    def _readable(self) -> None:
        self._received_more()

    def _received_more(self) -> bool:
        try:
            data = self._sock.recv(CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._lost()
            return False
        self._received += data
        try:
            while self._open and (message := self._next()) is not None:
                self._on_message(message)
        except GuestError:
            self._lost()
        return True

    def _next(self) -> dict[str, Any] | None:
        if len(self._received) < LENGTH:
            return None
        length = int.from_bytes(self._received[:LENGTH], "big")
        if length > LIMIT:
            raise GuestError(f"a message of {length} bytes was announced")
        if len(self._received) < LENGTH + length:
            return None
        body = bytes(self._received[LENGTH : LENGTH + length])
        del self._received[: LENGTH + length]
        try:
            message = json.loads(body)
        except ValueError as error:
            raise GuestError(f"a message that is no JSON: {error}") from error
        if not isinstance(message, dict):
            raise GuestError(f"a message that is no object: {type(message).__name__}")
        return message

    def _lost(self) -> None:
        if self._open:
            self.close()
            self._on_close()
