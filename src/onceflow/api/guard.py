"""What stands before every route: the right host, no foreign origin, the token, a bounded body."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from onceflow.model.errors import OnceflowError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_LIMIT = 1 << 20
OPEN = frozenset({"/health", "/ready", "/api/v2/monitor/health"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Refusal(Exception):
    """A request that gets no further."""

    def __init__(self, status: int, error: OnceflowError) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error


class Guard:
    """An ASGI application around another. On a loopback address only loopback names are answered (DNS rebinding)."""

    def __init__(self, app: App, token: str, host: str) -> None:
        self._app = app
        self._token = token.encode()
        literal = f"[{host}]" if ":" in host else host.lower()
        self._hosts = LOOPBACK | {literal} if literal in LOOPBACK or literal.startswith("127.") else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._check_host(headers)
            if scope["path"] not in OPEN:
                self._check_token(headers)
            body = await _read_body(headers, receive)
        except Refusal as refusal:
            await _refuse(refusal, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    def _check_host(self, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._hosts is not None and name.lower() not in self._hosts:
            message = f"this server is not {host!r}"
            remedy = f"allowed: {', '.join(sorted(self._hosts))}; start it with --host to serve others"
            raise Refusal(403, OnceflowError(message, code="bad_host", where="Host", remedy=remedy))
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            remedy = "ask from a page of this server, or without an Origin header"
            raise Refusal(403, OnceflowError("another site asks", code="bad_origin", where="Origin", remedy=remedy))

    def _check_token(self, headers: dict[str, str]) -> None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode("latin-1"), self._token):
            message = "the token is wrong" if token else "a token is needed"
            remedy = "send `Authorization: Bearer TOKEN`; TOKEN is in HOME/token or ONCEFLOW_TOKEN of the server"
            raise Refusal(401, OnceflowError(message, code="unauthorized", where="Authorization", remedy=remedy))


async def _read_body(headers: dict[str, str], receive: Receive) -> bytes | None:
    """The whole body; None if the client went away. Raises Refusal when it is larger than BODY_LIMIT."""
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > BODY_LIMIT:
        raise _too_large()
    blocks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        blocks.append(message.get("body", b""))
        size += len(blocks[-1])
        if size > BODY_LIMIT:
            raise _too_large()
        if not message.get("more_body", False):
            return b"".join(blocks)


def _too_large() -> Refusal:
    error = OnceflowError(
        f"the body is larger than {BODY_LIMIT} bytes",
        code="too_large",
        where="body",
        remedy="store the data elsewhere and send its address",
    )
    return Refusal(413, error)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = json.dumps(error_body(refusal.error)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_body(error: OnceflowError) -> dict[str, str]:
    """An error as the API writes it: Airflow's `detail`, and our code, place and remedy."""
    return {"detail": error.message, "code": error.code, "where": error.where, "remedy": error.remedy}
