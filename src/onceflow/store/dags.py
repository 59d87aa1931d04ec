"""What people do to a DAG: pause it, let it run again."""

from __future__ import annotations

from dataclasses import dataclass

from onceflow.store.database import Connection, Database


@dataclass(frozen=True)
class Paused:
    """The state after the change; `released` counts the deliveries that the pause had held, pending again now."""

    dag_id: str
    paused: bool
    active: bool
    released: int = 0


async def pause(database: Database, dag_id: str) -> Paused | None:
    """Pause a DAG: its queued runs do not start and its events are held. None if there is no such DAG."""
    row = await database.fetchrow("dags/pause", dag_id)
    return None if row is None else Paused(dag_id, True, row["active"])


async def unpause(database: Database, dag_id: str) -> Paused | None:
    """Let a DAG run again and give back the deliveries held by the pause, in one transaction. None if there is none."""
    async with database.transaction() as connection:
        return await _unpause(connection, dag_id)


async def _unpause(connection: Connection, dag_id: str) -> Paused | None:
    row = await connection.fetchrow("dags/unpause", dag_id)
    if row is None:
        return None
    released = await connection.fetchval("deliveries/release_paused", row["id"])
    return Paused(dag_id, False, row["active"], released)
