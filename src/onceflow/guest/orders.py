"""Orders to a template: a fixed header, the order itself as bytes that the template hands on unread, and a descriptor.

    header   length of the order (4 bytes), id (8), signal (1), big-endian
    order    marshal of a plain object: host and guest run the same interpreter

A signal other than 0 is meant for the child with that id; then there is no order and no descriptor. What a template
does between two forks is copied page by page, since a fork write-protects its memory: so its child reads the order.
"""

from __future__ import annotations

import marshal
import socket
from struct import Struct
from typing import Any

HEADER = Struct("!IqB")


def pack(number: int, order: dict[str, Any]) -> bytes:
    """An order for a new child that is known by `number`."""
    body = marshal.dumps(order)
    return HEADER.pack(len(body), number, 0) + body


def pack_signal(number: int, signum: int) -> bytes:
    """An order to send a signal to that child and its process group."""
    return HEADER.pack(0, number, signum)


def receive(sock: socket.socket) -> tuple[int, int, bytes, int]:
    """The next order: number, signal, bytes, descriptor (-1: none). Raises EOFError when the host has gone."""
    head, descriptors, _, _ = socket.recv_fds(sock, HEADER.size, 1)
    while len(head) < HEADER.size:
        more = sock.recv(HEADER.size - len(head))
        if not more:
            raise EOFError("the host has gone")
        head += more
    length, number, signum = HEADER.unpack(head)
    body = sock.recv(length, socket.MSG_WAITALL) if length else b""
    return number, signum, body, descriptors[0] if descriptors else -1


def unpack(body: bytes) -> dict[str, Any]:
    """The order that `pack` wrote."""
    return marshal.loads(body)
