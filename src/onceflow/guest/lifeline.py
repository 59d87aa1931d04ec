"""Child processes die with their parent: asked of the kernel on Linux."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def _bind() -> Callable[[int, int], int] | None:
    """prctl with two arguments, bound once: a guest calls it right after its fork."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong)
    prctl.restype = ctypes.c_int
    return prctl


_prctl = _bind()


def die_with_parent(parent: int, signum: int = signal.SIGKILL) -> None:
    """Ask the kernel to send `signum` to this process when its parent ends; `parent` is the expected parent's pid.

    On other systems a child watches for the end of the pipe or socket that leads to its parent.
    """
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signum)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), signum)
