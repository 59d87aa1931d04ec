"""Assets, as people see them."""

from __future__ import annotations

from contextlib import aclosing

from onceflow.model.errors import NotFoundError
from onceflow.model.rules import Rules
from onceflow.queries.rows import Page, Row, Rows, page, stream
from onceflow.store.assets import find
from onceflow.store.database import Database


async def stream_assets(
    database: Database,
    retention: float | None,
    name: str | None = None,
    *,
    active: bool | None = None,
    limit: int | None = None,
) -> Rows:
    """Assets by name, with their consumers, watchers and rules; `name` may be a URI.

    `retention` is the setting, in seconds, for assets that do not say how long their events are kept.
    """
    async with aclosing(stream(database, "assets/list", name, active, limit, 0)) as rows:
        async for row in rows:
            yield _with_rules(row, retention)


async def list_assets(
    database: Database,
    retention: float | None,
    name: str | None = None,
    *,
    active: bool | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Page:
    """A page of assets."""
    found = await page(database, "assets/list", name, active, limit, offset)
    return Page([_with_rules(row, retention) for row in found.rows], found.total)


async def show_asset(database: Database, retention: float | None, name: str) -> Row:
    """One asset by name or URI. Raises NotFoundError."""
    ref = (await find(database, [name]))[name]
    [row] = (await list_assets(database, retention, ref.name)).rows
    return row


def _with_rules(row: Row, retention: float | None) -> Row:
    """The row with what its rules say, in seconds; None: no key, or for ever.

    `horizon_seconds`: a change that is told again later than that may be a new event.
    """
    rules = Rules.of(row.pop("rules"))
    own = rules.retention if rules.retention is not None else retention
    return row | {
        "declared_key": str(rules.key) if rules.key else None,
        "retention_seconds": own,
        "protection_seconds": rules.protection,
        "horizon_seconds": rules.horizon(retention),
        "high_water": rules.high_water,
    }


async def asset_name(database: Database, asset_id: int) -> str:
    """The name of the asset with this id. Raises NotFoundError."""
    name = await database.fetchval("assets/by_id", asset_id)
    if name is None:
        raise NotFoundError(f"there is no asset with the id {asset_id}", remedy="GET /api/v2/assets lists them")
    return name
