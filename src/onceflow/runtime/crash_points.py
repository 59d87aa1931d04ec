"""Named moments of a process: the boundaries of its transactions, where tests kill it, freeze it or cut it off.

The table of all of them, with what must be true afterwards, is tests/fault/test_crash_points.py; a point that is not in
it fails the build, and so does a transaction that has none before or after it. Outside tests nobody listens, and a
point costs a look at an empty list.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def crash_point(name: str) -> None:
    """This process is at that moment: `<role>.<transaction>.<where in it>`; "role" is what every role does."""
    for reached in _listeners:
        reached(name)


def listen(path: str) -> None:
    """Tell the function `reached` of a Python file of each point; "" is nobody."""
    if path:
        _listeners.append(runpy.run_path(path)["reached"])
