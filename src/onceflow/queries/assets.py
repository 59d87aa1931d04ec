"""Assets, as people see them."""

from __future__ import annotations

from onceflow.model.errors import NotFoundError
from onceflow.queries.rows import Page, Rows, page, stream
from onceflow.store.database import Database


def stream_assets(
    database: Database, name: str | None = None, *, active: bool | None = None, limit: int | None = None
) -> Rows:
    """Assets by name, with their consumers and watchers; `name` may be a URI."""
    return stream(database, "assets/list", name, active, limit, 0)


async def list_assets(
    database: Database,
    name: str | None = None,
    *,
    active: bool | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Page:
    """A page of assets."""
    return await page(database, "assets/list", name, active, limit, offset)


async def asset_name(database: Database, asset_id: int) -> str:
    """The name of the asset with this id. Raises NotFoundError."""
    name = await database.fetchval("assets/by_id", asset_id)
    if name is None:
        raise NotFoundError(f"there is no asset with the id {asset_id}", remedy="GET /api/v2/assets lists them")
    return name
