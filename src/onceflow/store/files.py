"""DAG files: registering what one declares, all in one transaction, as a compare-and-set on the file's term.

A broken file keeps its subscriptions, so that no event is missed while it is broken; a removed file, or a DAG or asset
that a file no longer names, closes them, and what was pending stays.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onceflow.model.asset_expr import assets_of
from onceflow.model.dagspec import AssetSchedule, AssetSpec, DagSpec, FileSpec, ParseFailure
from onceflow.model.errors import DagError
from onceflow.model.rules import Rules
from onceflow.model.serialize import dumps
from onceflow.model.spec_json import dag_spec_from_json, spec_hash, to_json
from onceflow.model.timetable import anchor_for, first_slot
from onceflow.store import watches
from onceflow.store.database import Connection, Database
from onceflow.store.watches import CONFLICT

AUTHOR = {"kind": "author"}
SETTING = {"kind": "setting", "name": "new_dags_paused"}
RETURN_SECONDS = 60.0
"""A DAG that is away no longer than this was moved, or its file was being written: it misses no event."""
RELEASED_BY_EDIT = ["inactive", "unscheduled"]


@dataclass(frozen=True)
class KnownFile:
    """A file as it was last registered."""

    id: int
    path: str
    source_hash: str
    term: int
    present: bool
    failure: dict[str, Any] | None

    @property
    def in_conflict(self) -> bool:
        """It could not be registered because of another file, so it is worth trying again unchanged."""
        return self.failure is not None and self.failure.get("code") == CONFLICT


async def known(database: Database, bundle: str = "default") -> dict[str, KnownFile]:
    """All files that were ever registered, by path."""
    return {r["path"]: _known(r) for r in await database.fetch("files/read", bundle)}


async def add(database: Database, path: str, bundle: str = "default") -> KnownFile:
    """The file's row, made if it is new."""
    row = await database.fetchrow("files/add", bundle, path)
    assert row is not None
    return _known(row)


async def declares(database: Database, file: KnownFile) -> bool:
    """Whether the file defines a DAG or declares an asset, as it was last registered."""
    return await database.fetchval("files/declares", file.id)


async def register(
    database: Database,
    file: KnownFile,
    spec: FileSpec,
    source: bytes,
    *,
    paused: bool,
    parse_seconds: float,
    gone: Collection[str] = (),
    beside: Collection[str] = (),
    now: datetime | None = None,
) -> bool:
    """Register what the file declares; False when another dag-processor registered the file meanwhile.

    `paused`: how new DAGs start. `gone`: files that are no longer there, so that their DAGs may move to this one.
    `beside`: files that changed together with this one and are registered next, so that what they said of an asset
    before does not stand against what this one says now.

    Raises DagError with code "conflict" when another file declares something else under the same name.
    """
    async with database.transaction() as tx:
        warnings = json.dumps(list(spec.warnings))
        if not await _set(tx, file, spec.source_hash, None, warnings, parse_seconds):
            return False
        await tx.execute("files/store_source", spec.source_hash, source)
        assets = await _declare_assets(tx, file, spec.assets, sorted(beside))
        await watches.declare(tx, file.id, watches.watches_of(spec, assets), beside)
        kept = {d.dag_id for d in spec.dags}
        for dag in sorted(spec.dags, key=lambda d: d.dag_id):
            await _register_dag(tx, file, dag, spec.source_hash, assets, paused, gone, kept, now)
        for row in await tx.fetch("files/dags", file.id):
            if row["active"] and row["dag_id"] not in kept:
                await _remove_dag(tx, row["id"])
    return True


async def register_failure(database: Database, file: KnownFile, failure: ParseFailure, parse_seconds: float) -> bool:
    """Note why the file could not be loaded; what it declared before stays as it was."""
    async with database.transaction() as tx:
        return await _set(tx, file, failure.source_hash, json.dumps(to_json(failure)), None, parse_seconds)


async def register_removal(database: Database, file: KnownFile) -> bool:
    """The file is gone: its DAGs go stale, new deliveries stop, pending ones stay."""
    async with database.transaction() as tx:
        row = await tx.fetchrow("files/set_if_term", file.id, file.term, "", False, None, "[]", None)
        if row is None:
            return False
        await _declare_assets(tx, file, ())
        await watches.declare(tx, file.id, ())
        for dag in await tx.fetch("files/dags", file.id):
            await _remove_dag(tx, dag["id"])
    return True


async def _set(
    tx: Connection, file: KnownFile, source_hash: str, failure: str | None, warnings: str | None, seconds: float
) -> bool:
    args = (file.id, file.term, source_hash, True, failure, warnings, seconds)
    return await tx.fetchrow("files/set_if_term", *args) is not None


async def _declare_assets(
    tx: Connection, file: KnownFile, assets: Sequence[AssetSpec], beside: Sequence[str] = ()
) -> dict[str, int]:
    """Add, change and lock the file's assets, and lock those it was subscribed to; ids by name.

    One registration at a time does this, so that what `conflicts` finds is still so when it is written. An asset
    is added without its URI, which it gets when those that are no longer declared have given up theirs.
    """
    names, uris = [a.name for a in assets], [a.uri for a in assets]
    await tx.execute("assets/declare_alone")
    await tx.execute("watchers/lock", names, file.id, watches.definitions_of(assets))
    await tx.execute("assets/add", names)
    locked = {r["name"]: r["id"] for r in await tx.fetch("assets/lock", names, file.id)}
    conflict = await tx.fetchrow("assets/conflicts", file.id, names, uris, list(beside))
    if conflict is not None:
        where = _place(assets, conflict["name"])
        raise DagError(
            f"asset {conflict['name']!r} (uri {conflict['uri']!r}) contradicts asset {conflict['other_name']!r}"
            f" (uri {conflict['other_uri']!r}) declared in {conflict['other_place']}",
            where=where,
            remedy="an asset's name and URI belong to it alone, in all files",
            code=CONFLICT,
        )
    rules = [dumps(a.rules.as_dict()) for a in assets]
    entrances = [a.outlet or bool(a.watchers) for a in assets]
    await _check_rules(tx, file, assets, rules, entrances, beside)
    ids, places = [locked[n] for n in names], [a.where for a in assets]
    await tx.execute("assets/declare", file.id, ids, uris, places, rules, entrances)
    await tx.execute("assets/set_rules", list(locked.values()))
    await tx.execute("assets/deactivate_undeclared", list(locked.values()))
    await tx.execute("assets/clear_changed_uris", names, uris)
    await tx.execute("assets/update", names, uris, [a.group for a in assets], [dumps(a.extra) for a in assets])
    return locked


async def _check_rules(
    tx: Connection,
    file: KnownFile,
    assets: Sequence[AssetSpec],
    rules: Sequence[str],
    entrances: Sequence[bool],
    beside: Sequence[str],
) -> None:
    """Raise DagError if what this file says of an asset's changes does not fit what another file says."""
    names = [a.name for a in assets]
    found = await tx.fetchrow("assets/rule_conflicts", file.id, names, rules, entrances, list(beside))
    if found is None:
        return
    other = f"{found['path']} ({found['place']})"
    if found["differ"]:
        message = f"asset {found['name']!r} has other rules in {other}: {Rules.of(json.loads(found['other']))}"
    else:
        message = (
            f"asset {found['name']!r} has a key function or a high-water mark in one file, and here or in {other} "
            "changes come in without it"
        )
    remedy = "declare the asset in one module and import that object wherever its changes are made or watched"
    raise DagError(message, where=_place(assets, found["name"]), remedy=remedy, code=CONFLICT)


def _place(assets: Sequence[AssetSpec], name: str) -> str:
    return next(a.where for a in assets if a.name == name)


async def _register_dag(
    tx: Connection,
    file: KnownFile,
    dag: DagSpec,
    source_hash: str,
    assets: dict[str, int],
    paused: bool,
    gone: Collection[str],
    kept: Collection[str],
    now: datetime | None,
) -> None:
    row = await tx.fetchrow("dags/lock", dag.dag_id, dag.previous_id)
    if row is None:
        start_paused = paused if dag.paused_on_creation is None else dag.paused_on_creation
        await tx.fetchrow("dags/add", dag.dag_id, file.id, _kind(dag), dag.max_active_runs)
        if start_paused:
            by = SETTING if dag.paused_on_creation is None else AUTHOR
            await tx.execute("dags/pause", dag.dag_id, dumps(by), None, now)
        row = await tx.fetchrow("dags/lock", dag.dag_id, "")
        assert row is not None
    defined = row["active"] and row["present"] and row["path"] not in gone
    if row["dag_id"] != dag.dag_id and (defined if row["file_id"] != file.id else row["dag_id"] in kept):
        raise DagError(
            f"DAG {dag.dag_id!r} has previous_id {row['dag_id']!r}, which is still defined in {row['path']}",
            where=dag.where or file.path,
            remedy="rename the DAG instead of copying it, or leave previous_id out",
            code=CONFLICT,
        )
    if row["file_id"] != file.id and defined:
        raise DagError(
            f"dag_id {dag.dag_id!r} is defined in {row['path']} already",
            where=dag.where or file.path,
            remedy="give one of the two DAGs another dag_id",
            code=CONFLICT,
        )
    await _update_dag(tx, file, dag, source_hash, row, now)
    await _subscribe(tx, row["id"], dag, assets)


async def _update_dag(
    tx: Connection, file: KnownFile, dag: DagSpec, source_hash: str, row: Any, now: datetime | None
) -> None:
    digest = spec_hash(dag)
    version, old = row["version_id"], json.loads(row["spec"]) if row["spec"] else None
    changed = row["spec_hash"] != digest
    if changed:
        version = await tx.fetchval("dags/add_version", row["id"], digest, json.dumps(to_json(dag)))
    anchor, next_slot = row["anchor_at"], row["next_slot_at"]
    if old is None or _timing(dag_spec_from_json(old)) != _timing(dag):
        created = row["created_at"] if old is None else (now or await tx.fetchval("processes/now"))
        anchor = anchor_for(dag.start_date, created)
        next_slot = first_slot(dag.schedule, start_date=dag.start_date, created_at=created, catchup=dag.catchup)
        if next_slot is not None and dag.end_date is not None and next_slot > dag.end_date:
            next_slot = None
    anew = changed or not row["active"]
    await tx.execute(
        "dags/update", row["id"], dag.dag_id, file.id, version, source_hash, _kind(dag), dag.max_active_runs, anchor,
        next_slot, anew, dag.max_rounds, dag.max_runs_per_minute,
    )  # fmt: skip
    if anew:
        await tx.execute("deliveries/reopen", row["id"], RELEASED_BY_EDIT)


async def _subscribe(tx: Connection, dag: int, spec: DagSpec, assets: dict[str, int]) -> None:
    """Make its subscriptions those that it asks for; one that lapsed a moment ago goes on as if it had not."""
    wanted = (
        {assets[n] for n in assets_of(spec.schedule.condition)} if isinstance(spec.schedule, AssetSchedule) else set()
    )
    present = {r["asset_id"] for r in await tx.fetch("assets/subscriptions", dag)}
    if gone := sorted(present - wanted):
        await tx.execute("assets/unsubscribe", dag, gone, False)
    new = wanted - present
    found = await tx.fetch("assets/lapsed", dag, sorted(new), RETURN_SECONDS) if new else []
    if lapsed := {r["asset_id"] for r in found}:  # it goes on where it was, and gets what came in between
        await tx.execute("assets/subscribe", dag, sorted(lapsed), True, None)
    if others := sorted(new - lapsed):
        await tx.execute("assets/subscribe", dag, others, spec.catchup, spec.start_date)


async def _remove_dag(tx: Connection, dag: int) -> None:
    present = [r["asset_id"] for r in await tx.fetch("assets/subscriptions", dag)]
    await tx.execute("dags/deactivate", dag)
    await tx.execute("assets/unsubscribe", dag, sorted(present), True)


def _kind(dag: DagSpec) -> str:
    schedule = dag.schedule
    return f"asset:{schedule.policy}" if isinstance(schedule, AssetSchedule) else schedule.kind


def _timing(dag: DagSpec) -> tuple[Any, ...]:
    return dag.schedule, dag.start_date, dag.end_date, dag.catchup


def _known(row: Any) -> KnownFile:
    failure = json.loads(row["failure"]) if row["failure"] else None
    return KnownFile(row["id"], row["path"], row["source_hash"], row["term"], row["present"], failure)
