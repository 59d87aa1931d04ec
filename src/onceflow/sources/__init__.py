"""Built-in event sources: triggers that watch git branches and files, and a helper that makes triggers of polls.

    poll.py    PollTrigger, poll_trigger   `async def poll(cursor)` on an interval or a cron expression
    git.py     GitHeadTrigger              the commits of a branch, over https, ssh or from a local path
    files.py   FileTrigger                 files that appear, change or go away

They run beside thousands of other triggers in one event loop, so whatever may block goes through `_threads.in_thread`.
None of them needs state of its own: what was seen is the watcher's cursor, what a change is called is its key, and both
follow from the source alone. So every triggerer, and every restart, tells the same changes by the same keys.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onceflow.sources.files import FileTrigger
    from onceflow.sources.git import GitHeadTrigger
    from onceflow.sources.poll import Polled, PollTrigger, poll_trigger

__all__ = ["FileTrigger", "GitHeadTrigger", "PollTrigger", "Polled", "poll_trigger"]

_HOME = {
    "FileTrigger": "files",
    "GitHeadTrigger": "git",
    "PollTrigger": "poll",
    "Polled": "poll",
    "poll_trigger": "poll",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
