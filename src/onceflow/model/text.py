"""Texts of unknown origin (exceptions, file names, descriptions): what no database stores, found or written as escapes.

PostgreSQL's text has no NUL character, and UTF-8 no half of a surrogate pair; JSON can spell both, but its server-side
functions then fail for the whole document.
"""

from __future__ import annotations

import re
from typing import Any

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
MESSAGE_LIMIT = 10_000
FLAW_LIMIT = 500
TRACE_LIMIT = 50_000


def storable(text: str) -> str:
    r"""The text with what cannot be stored written as `\x00` and `\ud800`."""
    return UNSTORABLE.sub(lambda found: ascii(found.group())[1:-1], text)


def shortened(text: str, limit: int = TRACE_LIMIT) -> str:
    """The text; of one with more than `limit` characters beginning and end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters left out … {text[-half:]}"


def cut(text: str, limit: int) -> str:
    """The text; of one with more than `limit` characters the beginning, so many in all."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def flaw_text(text: str) -> str:
    """What is wrong with a payload, as it can be stored, and not too long."""
    return cut(storable(text), FLAW_LIMIT)


def message_of(error: BaseException) -> str:
    """What an exception says, fit to be stored, whatever its `__str__` does."""
    try:
        return storable(shortened(str(error), MESSAGE_LIMIT))
    except BaseException as second:
        return f"(its message cannot be shown: __str__ raised {type(second).__name__})"


def find_unstorable(value: Any) -> str | None:
    """Where in JSON's own types the first such character is, as a path (`tasks[0].doc`); None if nowhere.

    Names of an object's fields are texts too.
    """
    if isinstance(value, str):
        return "" if UNSTORABLE.search(value) else None
    if isinstance(value, dict):
        parts = [("", name) for name in value] + [(f".{name}", item) for name, item in value.items()]
    elif isinstance(value, list):
        parts = [(f"[{index}]", item) for index, item in enumerate(value)]
    else:
        return None
    for step, item in parts:
        if (below := find_unstorable(item)) is not None:
            return storable(step + below)
    return None
