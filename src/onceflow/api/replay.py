"""`Idempotency-Key`: a request that is sent again gets the answer that it got, and does nothing twice.

The key is noted with the request's body before anything is done. What is done under it is done once, because it carries
an id that is made of both: an event's sighting, a run's request. So a request whose answer was lost in a crash does
nothing more when it comes again. The answer is kept for `replay_seconds`, if it was no refusal: that did nothing, and
its key may be used again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import Header, Request, Response

from onceflow.api.services import Answer
from onceflow.model.errors import InputError, OnceflowError
from onceflow.model.limits import check_key
from onceflow.runtime.crash_points import crash_point
from onceflow.store import requests
from onceflow.store.database import BAD_DATA, Database

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotency-Replayed": "true"}

IdempotencyKey = Annotated[
    str | None, Header(alias=HEADER, description="The same request again: the same answer, and nothing twice.")
]


async def answered_once(
    database: Database, request: Request, key: str | None, perform: Callable[[UUID], Awaitable[Answer]]
) -> Response:
    """The answer of `perform`, which is given an id under which it does things once; or the one that was kept.

    Raises InputError for another body under the same key, and what `perform` raises.
    """
    if key is None:
        return await perform(uuid4())
    check_key(key, HEADER)
    name = _hash(b"onceflow.request", request.method, request.url.path, key)
    body = _hash(b"onceflow.body", json.dumps(json.loads(await request.body()), sort_keys=True))
    crash_point("api-server.begin.before")
    known = await requests.begin(database, name, body)
    crash_point("api-server.begin.after_commit")
    if known.body != body:
        raise InputError(
            "another request came under this key",
            where=HEADER,
            remedy="a key belongs to one request with one body; send what is new under a new one",
            code="key_reused",
        )
    if known.answer is not None:
        return _replayed(known)
    try:
        answer = await perform(_hash(b"onceflow.sent", name.hex, body.hex))
    except (OnceflowError, *BAD_DATA):
        crash_point("api-server.forget.before")
        await requests.forget(database, name)
        crash_point("api-server.forget.after_commit")
        raise
    crash_point("api-server.answer.before")
    text = bytes(answer.body).decode()
    kept = await requests.finish(database, name, body, answer.status_code, text)
    crash_point("api-server.answer.after_commit")
    return answer if kept.answer == text else _replayed(kept)


def _replayed(known: requests.Known) -> Response:
    assert known.status is not None
    return Response(known.answer, known.status, REPLAYED, media_type="application/json")


def _hash(person: bytes, *parts: str) -> UUID:
    text = json.dumps(parts).encode()
    return UUID(bytes=hashlib.blake2b(text, digest_size=16, person=person).digest())
