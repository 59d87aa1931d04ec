"""What routes share, and how they get it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Query, Request
from fastapi.responses import JSONResponse

from onceflow.config import Settings
from onceflow.model.errors import InputError
from onceflow.model.times import from_rfc3339
from onceflow.runtime.crash_points import crash_point
from onceflow.store.database import Database

Done = TypeVar("Done")

PAGE_LIMIT = 1000
ACTOR = "X-Onceflow-Actor"
LONGEST_ACTOR = 200


@dataclass(frozen=True)
class Services:
    """`reads` has the settings that listings need, `writes` those of short statements; `wake` tells other processes."""

    writes: Database
    reads: Database
    settings: Settings
    wake: Callable[..., None]


def _services(request: Request) -> Services:
    return request.app.state.services


Shared = Annotated[Services, Depends(_services)]
Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="At most so many entries.")]
Offset = Annotated[int, Query(ge=0, description="Entries to leave out first.")]


class Answer(JSONResponse):
    """JSON in ASCII, so that also half a surrogate pair, which a payload may hold, arrives as it was given."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def moment(text: str | None, where: str) -> datetime | None:
    """A time given in a query or body; None if it was not. Raises InputError."""
    return None if text is None else from_rfc3339(text, where)


Actor = Annotated[
    str | None,
    Header(alias=ACTOR, description="Who asks, for the record: a name as the client tells it. It gives no right."),
]


def _requester(request: Request, actor: Actor = None) -> dict[str, Any]:
    """Who asks, for the record. Raises InputError."""
    by = {"kind": "api", "client": request.client.host if request.client else ""}
    if actor is None:
        return by
    if not actor.strip() or len(actor) > LONGEST_ACTOR or not actor.isprintable():
        remedy = f"a name of 1 to {LONGEST_ACTOR} characters that can be printed"
        raise InputError(f"the actor is {actor[:40]!r}", where=ACTOR, remedy=remedy)
    return by | {"actor": actor.strip()}


Requester = Annotated[dict[str, Any], Depends(_requester)]


async def intervene(deed: Awaitable[Done]) -> Done:
    """What a person does, in one transaction; what it answers. Every route by which people change something has it."""
    crash_point("api-server.intervene.before")
    done = await deed
    crash_point("api-server.intervene.after_commit")
    return done
