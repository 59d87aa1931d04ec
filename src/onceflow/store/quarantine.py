"""Events whose payload breaks their asset's contract: mended, or let go on as they are, by a person."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from onceflow.model.contract import flaw
from onceflow.model.errors import ConflictError, InputError, NotFoundError
from onceflow.model.limits import check_extra
from onceflow.model.rules import Rules
from onceflow.model.serialize import dumps
from onceflow.store.database import Database


async def release(
    database: Database,
    event: int,
    *,
    extra: Any = None,
    as_it_is: bool = False,
    by: Mapping[str, Any],
    reason: str | None = None,
    now: datetime | None = None,
) -> None:
    """Let a quarantined event go on, with another payload or as it is; it keeps its identity and its place.

    Raises NotFoundError for an unknown event, ConflictError for one that is not quarantined, InputError when the
    payload given breaks the contract as well.
    """
    text = None if as_it_is else dumps({} if extra is None else extra, "extra")
    if text is not None:
        check_extra(text, "extra")
    async with database.transaction() as tx:
        asset = await tx.fetchrow("events/lock_asset", event)
        if asset is None:
            raise NotFoundError(f"there is no event {event}", remedy="`onceflow events list --quarantined` lists them")
        schema = Rules.of(json.loads(asset["rules"])).schema
        if text is not None and schema is not None and (problem := flaw(schema, text)):
            raise InputError(f"this payload breaks the schema, too: {problem}", where="extra", remedy="correct it")
        if await tx.fetchval("events/release", event, text, dumps(dict(by)), reason, now) is None:
            raise ConflictError(
                f"event {event} is not quarantined", remedy="`onceflow events list --quarantined` lists those that are"
            )
