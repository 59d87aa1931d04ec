"""The API as an ASGI application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from onceflow.api import models
from onceflow.api.guard import App, Guard, error_body
from onceflow.api.routes import assets, dags, explain, health, lanes, runs, watchers
from onceflow.api.services import Services
from onceflow.config import Settings
from onceflow.model import errors
from onceflow.model.text import message_of
from onceflow.runtime.log import get_logger
from onceflow.store.database import BAD_DATA, Database

STATUS: tuple[tuple[type[errors.OnceflowError], int], ...] = (
    (errors.NotFoundError, 404),
    (errors.ConflictError, 409),
    (errors.InputError, 422),
    (errors.UnreachableError, 503),
    (errors.UnsupportedError, 503),
    (errors.OnceflowError, 500),
)
ERRORS: dict[int | str, dict[str, Any]] = {status: {"model": models.Error} for status in (401, 404, 409, 413, 422, 503)}

log = get_logger("onceflow.api")


def create_app(
    database: Database,
    settings: Settings,
    token: str,
    *,
    reads: Database | None = None,
    wake: Callable[..., None] = lambda *_topics: None,
) -> App:
    """The API, behind its guard. `reads` is a pool for listings; `wake` is called with topics after a write."""
    app = FastAPI(
        title="Onceflow",
        description="One change, one run. Errors have `detail`, `code`, `where` and `remedy`.",
        docs_url=None,
        redoc_url=None,
        responses=ERRORS,
    )
    app.state.services = Services(database, reads or database, settings, wake)
    for routes in (health, dags, runs, lanes, assets, watchers, explain):
        app.include_router(routes.router)
    app.add_exception_handler(errors.OnceflowError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    for kind in BAD_DATA:
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unknown)
    return Guard(app, token, settings.host)


async def _known(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.OnceflowError)
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return JSONResponse(error_body(error), status)


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    refusal = errors.InputError(f"the database refuses an argument: {message_of(error)}", remedy="see /openapi.json")
    return JSONResponse(error_body(refusal), 422)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [{"loc": list(e["loc"]), "msg": e["msg"], "type": e["type"]} for e in error.errors()]
    where = _place(found[0]["loc"]) if found else ""
    as_json = "json" in request.headers.get("content-type", "")
    remedy = (
        "see /openapi.json" if as_json or where != "body" else "send the body with `Content-Type: application/json`"
    )
    return JSONResponse({"detail": found, "code": "bad_input", "where": where, "remedy": remedy}, 422)


def _place(parts: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in parts)


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    body = {"detail": error.detail, "code": code, "where": "", "remedy": "see /openapi.json"}
    return JSONResponse(body, error.status_code, error.headers)


async def _unknown(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", method=request.method, path=request.url.path, exc_info=error)
    body = {"detail": "internal error", "code": "internal", "where": "", "remedy": "see the API server's log"}
    return JSONResponse(body, 500)
