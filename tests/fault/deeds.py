"""What befalls a process at a crash point; copied into a test's folder and loaded by its processes.

The test arms a point by a file of its name beside this one, which holds the deed. The first process that gets there
renames it, to `<point>.struck.<pid>`, and does it to itself.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

FOLDER = Path(__file__).parent


def reached(point: str) -> None:
    armed = FOLDER / point
    try:
        deed = armed.read_text()
        armed.rename(FOLDER / f"{point}.struck.{os.getpid()}")
    except FileNotFoundError:
        return
    match deed:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "cut":
            cut_off()


def cut_off() -> None:
    """End this process's connections to PostgreSQL, as a network that goes away would."""
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        try:
            connection = socket.socket(fileno=os.dup(int(descriptor.name)))
        except OSError:
            continue  # no socket
        with connection:
            if ".s.PGSQL." in _peer(connection):
                connection.shutdown(socket.SHUT_RDWR)


def _peer(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername())
    except OSError:
        return ""
