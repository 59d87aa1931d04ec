"""Children die with their parent: by the kernel on Linux, by an end of file on their standard input everywhere."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, signum: int = signal.SIGKILL) -> None:
    """Ask the kernel to send `signum` to this process when its parent ends; `parent` is the expected parent's pid.

    On systems without that, the end of standard input has to be watched instead.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), signum)
