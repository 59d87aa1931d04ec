"""Names that people see: run ids, and numbers in a short form that reads well aloud."""

from __future__ import annotations

from datetime import datetime

from onceflow.model.states import RunType
from onceflow.model.times import to_rfc3339

# Douglas Crockford's base 32: no i, l, o or u, so nothing is mistaken for a digit or spells a word.
DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def base32(n: int) -> str:
    """A number of 0 or more in Crockford's base 32, lower case, without padding. Raises ValueError below 0."""
    if n < 0:
        raise ValueError(f"base32 of {n}: only 0 and above")
    text = DIGITS[n & 31]
    while n := n >> 5:
        text = DIGITS[n & 31] + text
    return text


def run_id(run_type: RunType, created_at: datetime, pk: int) -> str:
    """`<type>__<time>_<pk>`, for example `manual__2026-01-31T09:30:00.000000Z_1z`.

    `created_at` is the database's time; the row's primary key makes the id unique even within one microsecond.
    """
    return f"{run_type.value}__{to_rfc3339(created_at)}_{base32(pk)}"
