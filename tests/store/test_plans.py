"""Hot statements touch what there is to do, not what is stored, with fresh statistics and with none.

The database has 50,000 finished runs, 30,000 held deliveries, 10,000 queued tasks, 3,000 watchers and assets. Functions
are looked into: auto_explain reports the plan of every statement inside.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ground import connected
from plans import SERVER_SETTINGS, touched_by, touched_by_text

from onceflow.config import load
from onceflow.runtime.postgres import EmbeddedPostgres
from onceflow.store.migrate import migrate

HISTORY = Path(__file__).with_name("history.sql").read_text(encoding="utf-8")
OWNER, OTHER = uuid.UUID(int=1), uuid.UUID(int=9)
SLOT = datetime(2030, 1, 1, tzinfo=UTC)
SEEN = [uuid.UUID(int=n) for n in range(100, 110)]
LARGE = ("delivery", "task", "run", "event", "attempt", "watcher", "asset", "dag", "process")
SMALL = {"asset_declaration", "dag_file", "migration", "subscription"}
"""Tables of a few rows: without statistics the planner may read them whole."""


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a server with the history, stopped."""
    home = tmp_path_factory.mktemp("past") / "home"
    with EmbeddedPostgres(home, load().pg_bindir) as server:
        asyncio.run(_fill(server.url))
    return home


@pytest.fixture(scope="module", params=["no statistics", "analysed"])
def history(request: pytest.FixtureRequest, past: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a database with a past, on a server that reports plans."""
    home = tmp_path_factory.mktemp("history") / "home"
    shutil.copytree(past, home)
    (home / "postgres" / "local.conf").write_text(SERVER_SETTINGS)
    with EmbeddedPostgres(home, load().pg_bindir) as server:
        if request.param == "analysed":
            asyncio.run(_run(server.url, "vacuum analyze"))
        yield server.url


async def _fill(url: str) -> None:
    await migrate(url)
    await _run(url, "".join(f"alter table {t} set (autovacuum_enabled = false);" for t in LARGE) + HISTORY)


async def _run(url: str, text: str) -> None:
    async with connected(url) as sql:
        await sql.execute(text)


@pytest.fixture
async def sql(history: str) -> AsyncIterator[Any]:
    """A connection with the settings of a hot role."""
    async with connected(history) as connection:
        yield connection


@dataclass(frozen=True)
class Hot:
    """A statement, and what it may touch: rows returned, rows read, pages read, and the indexes it has to use."""

    name: str
    returns: int
    rows: int
    pages: int
    indexes: tuple[str, ...]
    args: Callable[[dict[str, Any]], tuple[Any, ...]]

    def __str__(self) -> str:
        return self.name


def _finish(known: dict[str, Any]) -> tuple[Any, ...]:
    ids, attempts, tokens = known["running"]
    n = len(ids)
    return (
        *(OWNER, ids, attempts, tokens, ["success"] * n, ["success"] * n, [0] * n, [None] * n, [None] * n),
        *(["1"] * n, [None] * n, [1], [1], SEEN[:1], SEEN[:1], ["new"], ["{}"], ["{}"], None, None),
    )


def _renew(known: dict[str, Any]) -> tuple[Any, ...]:
    return OWNER, known["running"][0], known["running"][2], 60.0


HOT = [
    Hot(
        *("server/glance", 1, 12, 60, ("delivery_unjudged", "task_unsettled", "dag_due", "run_queued")),
        lambda _: (True, 100),
    ),
    Hot(
        *("deliveries/find_consumers", 3, 12, 300, ("delivery_unjudged", "dag_judge")),
        lambda _: (64, 0, None),
    ),
    Hot("deliveries/claim", 1, 15, 60, ("delivery_unjudged",), lambda k: ([k["each1"]], 500, 2000, 10000, None)),
    Hot("deliveries/claim", 1, 15, 60, ("delivery_unjudged",), lambda k: ([k["all1"]], 500, 2000, 10000, None)),
    Hot("deliveries/claim", 1, 15, 60, ("delivery_unjudged",), lambda k: ([k["held"]], 500, 2000, 10000, None)),
    Hot(
        *("deliveries/settle", 0, 3, 60, ("delivery_pkey",)),
        lambda k: ([k["held"]], [30001], ["held"], ["pause"], [None], None),
    ),
    Hot("deliveries/mark_judged", 0, 3, 60, (), lambda k: ([k["all1"]], [50000])),
    Hot("deliveries/survey", 1, 40, 60, ("delivery_waiting", "run_running"), lambda k: ([k["all1"]], 5, None)),
    Hot("deliveries/oldest", 5, 40, 80, ("delivery_waiting",), lambda k: (k["all1"], 5)),
    Hot("deliveries/overtaking", 0, 10, 40, ("event_pkey",), lambda k: ([k["all1"]], [49999])),
    Hot("deliveries/supersede", 0, 10, 40, ("delivery_pkey",), lambda k: ([k["each1"]], [49999], None)),
    Hot("events/payloads", 3, 8, 40, ("event_pkey",), lambda _: ([1, 2, 3], 10_000)),
    Hot("deliveries/reopen", 0, 5, 60, ("delivery_waiting",), lambda k: (k["each1"], ["inactive"])),
    Hot(
        *("runs/create_from_deliveries", 1, 20, 150, ("delivery_pkey", "dag_pkey")),
        lambda k: (
            OTHER,
            [k["each1"]],
            [k["each1"]],
            ["{}"],
            [k["each1"]],
            [1],
            [49999],
            [0],
            [1],
            [49999],
            [True],
            None,
        ),
    ),
    Hot(
        *("runs/create_from_deliveries", 1, 60, 300, ("delivery_waiting", "dag_pkey")),
        lambda k: (OTHER, [k["all1"]], [k["all1"]], ["{}"], [k["all1"]], [1], [49990], [10], [], [], [True], None),
    ),
    Hot("runs/find_startable", 1, 15, 40, ("run_queued", "run_running"), lambda _: (64, 0)),
    Hot("runs/claim_startable", 6, 25, 40, ("run_queued", "run_running"), lambda k: ([k["busy"]], 200)),
    Hot("runs/create_manual", 1, 5, 300, ("dag_dag_id_key",), lambda _: ("busy", None, None, "{}", None, None)),
    Hot("runs/expire", 0, 5, 70, ("run_deadline",), lambda _: (100, None)),
    Hot("tasks/find_unsettled", 3, 10, 40, ("task_unsettled", "task_retry"), lambda _: (100, None)),
    Hot("tasks/claim", 8, 50, 300, ("task_queued",), lambda _: (OTHER, 8, "local", ["default"], 60.0, None)),
    Hot("tasks/claim", 8, 50, 300, ("task_queued",), lambda _: (OTHER, 8, "local", ["default", "other"], 60.0, None)),
    Hot("tasks/claim", 0, 5, 40, ("task_queued",), lambda _: (OTHER, 8, "elsewhere", ["default"], 60.0, None)),
    Hot("tasks/rescue", 0, 5, 40, ("task_lease",), lambda _: (500, 3, True, None)),
    Hot("tasks/renew", 5, 15, 200, ("task_pkey",), _renew),
    Hot("tasks/finish_if_attempt", 5, 90, 1000, ("task_pkey", "attempt_pkey"), _finish),
    Hot(
        *("runs/start", 1, 20, 400, ("run_pkey",)),
        lambda k: (
            *(k["queued"], k["busy"], None, [0, 1], ["a", "b"], ["queued", "waiting"], [1] * 2, ["local"] * 2),
            *(["default"] * 2, None),
        ),
    ),
    Hot(
        *("tasks/advance", 1, 30, 300, ("task_pkey", "run_pkey")),
        lambda k: (k["ended"][:1], ["success"], ["success"], k["ended"], [1], ["success"], None),
    ),
    Hot("dags/claim_due", 0, 10, 30, ("dag_pkey",), lambda _: ([20, 30, 40], 100, None)),
    Hot(
        *("runs/create_timed", 2, 15, 150, ("dag_pkey", "run_slot")),
        lambda _: (OTHER, [20, 30], [SLOT, SLOT], None),
    ),
    Hot("runs/create_continuous", 1, 20, 150, ("dag_pkey", "run_running"), lambda k: (OTHER, [k["endless"]], None)),
    Hot("dags/find_due", 0, 3, 10, ("dag_due",), lambda _: (100, None, 100)),
    Hot("dags/next_due", 1, 3, 10, ("dag_due",), lambda _: (100,)),
    Hot("watchers/claim", 10, 250, 500, ("watcher_free", "watcher_owner"), lambda _: (OTHER, 10, True)),
    Hot("watchers/claim", 5, 30, 200, ("watcher_free",), lambda _: (OTHER, 10, False)),
    Hot("watchers/owned", 95, 250, 200, ("watcher_owner",), lambda _: (OWNER, 60.0)),
    Hot("watchers/observed", 0, 250, 200, ("watcher_pkey",), lambda _: (OWNER, [30, 60, 90], [1] * 3)),
    Hot("watchers/routes", 3, 15, 60, ("watcher_pkey", "watch_watcher"), lambda _: ([30, 60, 90],)),
    Hot("watchers/release", 0, 250, 200, (), lambda _: (OWNER, [30, 60, 90], [1] * 3)),
    Hot("processes/renew", 0, 3, 10, ("process_pkey",), lambda _: (OTHER, 60.0, True)),
    Hot("processes/bury", 0, 10, 10, ("process_running",), lambda _: ([OTHER], True)),
    Hot("processes/live", 1, 6, 10, ("process_running",), lambda _: ("triggerer",)),
    Hot("assets/find", 2, 6, 30, ("asset_name_key", "asset_uri"), lambda _: (["asset7", "uri://8", "nowhere"],)),
    Hot(
        *("events/record", 1, 12, 120, ("asset_pkey", "change_key_pkey")),
        lambda _: ([7], SEEN[:1], SEEN[:1], ["new"], ["{}"], ["{}"], None, None, None),
    ),
    Hot(
        *("events/record_if_owner", 1, 15, 120, ("watcher_pkey", "asset_pkey", "change_key_pkey")),
        lambda _: (30, OWNER, 1, 1, "1", 1, 0, [7], SEEN[:1], SEEN[:1], ["new"], ["{}"], ["{}"], None, None, None),
    ),
    Hot(
        "assets/conflicts",
        0,
        6,
        40,
        ("asset_name_key", "asset_uri"),
        lambda _: (1, ["asset7", "new"], ["uri://8", ""], []),
    ),
    Hot("assets/lock", 3, 100, 60, ("asset_pkey", "dag_of_file"), lambda _: (["asset7", "asset9"], 1)),
    Hot("watchers/lock", 4, 20, 60, ("watcher_pkey",), lambda _: (["asset7", "asset9"], 1, ["d11", "d13"])),
    Hot(
        "pruning/events", 1, 6000, 12000, ("event_asset_id_seq_key", "delivery_run"), lambda _: (1, 31000, -3600.0, 100)
    ),
    Hot("pruning/events", 1, 300, 900, ("event_asset_id_seq_key",), lambda _: (1, 0, 3600.0, 100)),
    Hot("pruning/runs", 1, 900, 2700, ("run_ended",), lambda _: (-3600.0, 100)),
    Hot("pruning/keys", 1, 3, 10, ("expiring_key_at",), lambda _: (100,)),
    Hot("pruning/judgements", 1, 3, 10, (), lambda _: (0.0, 100)),
    Hot("pruning/requests", 1, 3, 10, (), lambda _: (0.0, 100)),
    Hot("requests/begin", 1, 3, 20, (), lambda _: (SEEN[0], SEEN[0])),
    Hot("dags/lock", 1, 10, 30, ("dag_dag_id_key",), lambda _: ("each1", "")),
]


@pytest.mark.parametrize("hot", HOT, ids=str)
async def test_a_hot_statement_touches_little(sql: Any, hot: Hot) -> None:
    """airflow #54283: what has ended costs the loops nothing."""
    args = hot.args(await known(sql))
    await touched_by(sql, hot.name, *args)  # the first visitor of dead index entries marks them
    touched, rows = await touched_by(sql, hot.name, *args)
    assert len(rows) == hot.returns
    assert touched.rows <= hot.rows, touched
    assert touched.pages <= hot.pages, touched
    assert set(hot.indexes) <= touched.indexes, touched
    assert touched.whole - SMALL == set(), touched


async def test_the_last_events_of_an_asset_are_read_alone(sql: Any) -> None:
    """airflow #54891: the last of 50,000 events is one row of an index."""
    for wanted in (1, 10):
        touched, rows = await touched_by(sql, "assets/latest_events", "asset1", wanted)
        assert len(rows) == wanted
        assert touched.rows <= 2 * wanted + 2, touched
        assert "event_asset_id_seq_key" in touched.indexes and touched.whole == set()


async def test_what_is_counted_over_all_watchers_is_a_small_table(sql: Any) -> None:
    """How many there are has to be counted: once per look, in a table as large as what is declared."""
    touched, _ = await touched_by(sql, "watchers/share", True, OWNER)
    assert touched.rows <= 3000 + 10


async def test_continuous_dags_are_looked_at_one_by_one(sql: Any) -> None:
    """Two index probes for each that is declared, whatever their history."""
    touched, rows = await touched_by(sql, "dags/find_continuous", 100, None)
    assert len(rows) == 100
    assert {"dag_continuous", "run_queued", "run_running"} <= touched.indexes
    assert touched.rows <= 3 * 500 + 100
    assert touched.whole == set()


async def test_a_run_s_tasks_are_read_by_its_index(sql: Any) -> None:
    runs = [r["id"] for r in await sql.fetch("select id from run where state = 'success' order by id limit 3")]
    touched, rows = await touched_by(sql, "tasks/claim_of_runs", runs, None)
    assert len(rows) == 3
    assert touched.rows <= 30
    assert "task_run_id_task_no_map_index_key" in touched.indexes


async def test_the_measure_sees_into_functions(sql: Any) -> None:
    """Were a function to read a whole table, it would show."""
    await sql.execute(
        "create function pg_temp.all_of_them() returns bigint language plpgsql as "
        "'begin return (select count(extra::text) from event); end'"
    )
    touched, _ = await touched_by_text(sql, "select pg_temp.all_of_them()")
    assert touched.whole == {"event"}
    assert touched.rows >= 50_000
    assert touched.pages > 100


async def known(sql: Any) -> dict[str, Any]:
    """Ids of what the history names."""
    found: dict[str, Any] = dict(await sql.fetch("select dag_id, id from dag where id <= 13"))
    tasks = await sql.fetch("select id, attempt, token from task where state = 'running' order by id limit 5")
    found["endless"] = await sql.fetchval("select min(id) from dag where schedule_kind = 'continuous'")
    found["queued"] = [await sql.fetchval("select min(id) from run where state = 'queued'")]
    found["ended"] = [r["id"] for r in await sql.fetch("select id from task where not settled order by id")]
    found["running"] = tuple([t[i] for t in tasks] for i in range(3))
    return found
