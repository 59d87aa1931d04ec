"""Emitting changes for people and programs: checked, and sent under the same sighting until an answer is known."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

from onceflow.model.change import Change
from onceflow.model.errors import InputError
from onceflow.model.limits import check_extra, check_key
from onceflow.model.serialize import dumps
from onceflow.store.database import BAD_DATA, Database, is_transient, unreachable
from onceflow.store.events import Recorded, record

PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts when the answer did not arrive."""


def change(
    asset: str, key: str | None = None, extra: Any = None, *, sighting: uuid.UUID | None = None, where: str = ""
) -> Change:
    """A change to emit. Raises InputError when the key or the extra (any JSON value; null counts as {}) is refused."""
    if key is not None:
        check_key(key, where)
    text = dumps({} if extra is None else extra, f"{where}.extra" if where else "extra")
    check_extra(text, where)
    return Change(asset=asset, extra=text, key=key, sighting=sighting or uuid.uuid4())


async def emit(database: Database, changes: Sequence[Change], source: dict[str, Any]) -> list[Recorded]:
    """Record the changes in one transaction; the answers are in the order given.

    When the connection breaks it is not known whether the changes were stored: they are sent again with the same
    sightings, which neither doubles nor loses them. Raises NotFoundError for an unknown asset, InputError for data that
    the database refuses, UnreachableError when it stays away.
    """
    for pause in (*PAUSES, None):
        try:
            return await record(database, changes, source)
        except BAD_DATA as error:
            raise InputError(
                f"the database refuses the data: {error}", remedy="correct it; nothing was stored"
            ) from error
        except Exception as error:
            if not is_transient(error):
                raise
            if pause is None:
                raise unreachable(database.url, error) from error
            await asyncio.sleep(pause)
    raise AssertionError("the last attempt returns or raises")
