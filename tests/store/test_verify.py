"""`verify` finds every kind of broken promise, and none in a healthy database."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow.queries.verify import checks, verify
from onceflow.store import lanes
from onceflow.store.database import Database
from onceflow.store.lanes import Choice
from people import World

ORDERS = ["asset", "orders"]
QUARANTINED = "event_id, flaw, extra, stand_in, same_as, held_at, released_at, released_by"


@pytest.fixture
async def world(world: World) -> World:
    """Two consumers; four events, of which one was seen twice; runs in every state."""
    await world.dag("report", ORDERS)
    await world.dag("join", ["and", [ORDERS, ["asset", "prices"]]], policy="all")
    for key in ("a", "b", "a", None):
        await world.emit("orders", key)
    first, second, _third = await world.judge("report")
    await world.start(first)
    await world.finish(first)
    await world.start(second)
    await world.judge("join")
    await world.emit("prices")
    await world.judge("join")
    [original] = [r["run_id"] for r in await world.sql.fetch("select run_id from run where id = $1", first)]
    await lanes.rerun(world.database, "report", original, by={"kind": "cli", "user": "anna"})
    await lanes.replay(world.database, "report", Choice(["orders"]), by={"kind": "cli", "user": "anna"})
    return world


async def test_healthy(world: World) -> None:
    result = await verify(world.database)
    assert result["violations"] == []
    assert result["ok"]
    assert (result["events"], result["deliveries"], result["runs"]) == (4, 7, 8)
    assert result["by_disposition"] == {"started": 4, "joined": 3}


async def test_an_empty_database_is_healthy(database: Database) -> None:
    result = await verify(database)
    assert result["ok"] and result["by_disposition"] == {} and result["events"] == 0


async def test_an_event_outside_the_subscription_needs_no_delivery(world: World) -> None:
    """airflow #68888: who subscribes late gets what comes after, and verify knows the difference."""
    late = await world.dag("late")
    await world.subscribe(await world.asset("orders"), late)
    await world.emit("orders", "z")
    result = await verify(world.database)
    assert result["ok"], result["violations"]


FAULTS: dict[str, list[str]] = {
    "event_without_delivery": ["delete from delivery where event_id = 1"],
    "delivery_without_subscription": ["update subscription set from_seq = from_seq + 1 where from_seq = 1"],
    "delivery_of_no_event": ["update delivery set asset_id = asset_id + 1000 where event_id = 1"],
    "subscription_overlap": [
        "drop index subscription_open",
        "insert into subscription select asset_id, dag_id, 2, null from subscription limit 1",
    ],
    "subscribers_out_of_step": ["update asset set subscribers = '{}' where name = 'prices'"],
    "run_without_start": ["update delivery set run_id = run_id, disposition = 'joined' where disposition = 'started'"],
    "delivery_in_wrong_run": [
        "update delivery y set run_id = (select max(id) from run where dag_id <> 1) where dag_id = 1 and event_id = 1"
    ],
    "two_runs_of_one_event": ["update run set start_event = 1 where dag_id = 1"],
    "two_runs_of_one_slot": ["update run set logical_date = '2026-01-01' where dag_id = 1"],
    "two_runs_of_one_number": ["update run set ordinal = 1 where dag_id = 1"],
    "continuous_run_twice": [
        "update dag set schedule_kind = 'continuous' where id = 1",
        "update run set run_type = 'scheduled', start_event = null where dag_id = 1",
    ],
    "run_out_of_order": [
        "update run set ordinal = 100 where dag_id = 1 and state = 'running'",
        "update dag set ordinal = 100 where id = 1",
    ],
    "run_without_decision": ["update run set decision_id = null where id = 1"],
    "run_of_wrong_version": ["update run set version_id = 2 where id = 1"],
    "too_many_running": [
        "update run set state = 'running', version_id = 1, started_at = now(), finished_at = null where dag_id = 1",
        "update dag set max_active_runs = 1 where id = 1",
        "update dag_version set spec = (jsonb_set(spec::jsonb, '{max_active_runs}', '1'))::json",
    ],
    "superseded_without_newer": [
        "update delivery set disposition = 'superseded', run_id = null, reason = 'x' where dag_id = 1 "
        "and event_id = (select max(event_id) from delivery where dag_id = 1)"
    ],
    "decided_without_reason": [
        "update delivery set disposition = 'filtered', run_id = null, reason = ' ' where dag_id = 1 and event_id = 1"
    ],
    "discarded_by_nobody": [
        "update delivery set disposition = 'discarded', run_id = null, reason = 'x' where dag_id = 1 and event_id = 1"
    ],
    "run_against_its_policy": [
        "update delivery set run_id = (select min(id) from run where dag_id = 1), disposition = 'joined' "
        "where dag_id = 1"
    ],
    "waits_for_nothing": [
        "update dag set schedule_kind = 'asset:latest', "
        """last_judgement = '{"condition": {"holds": true}}' where id = 1""",
        "update delivery set disposition = 'pending', run_id = null, decided_at = null "
        "where dag_id = 1 and event_id = 1",
    ],
    "events_not_numbered": ["update asset set seq = seq + 1 where name = 'orders'"],
    "quarantined_event_let_through": [
        "insert into quarantine (event_id, flaw, extra, held_at) values (1, 'is not a number', '{}', now())"
    ],
    "event_without_identity": ["update event set hash = gen_random_uuid() where id = 2"],
    "identities_not_counted": ["delete from change_key where event_id = 2"],
    "event_of_other_key": ["update event set key = 'z' where id = 1"],
    "tasks_of_run_missing": ["delete from task where state = 'success'"],
    "scheduled_run_without_slot": ["update run set run_type = 'scheduled', start_event = null where id = 1"],
    "two_events_of_one_change": ["update event set key = 'a'"],
    "attempt_still_open": ["update attempt set outcome = null, finished_at = null where outcome = 'success'"],
    "running_without_attempt": ["update task set token = gen_random_uuid() where state = 'running'"],
    "attempts_not_numbered": ["update task set attempt = 2 where state = 'success'"],
    "success_without_outcome": ["update attempt set outcome = 'failed' where outcome = 'success'"],
    "run_finished_too_early": ["update run set state = 'success', finished_at = now() where state = 'running'"],
    "run_finished_unnoticed": ["update run set state = 'running', finished_at = null where state = 'success'"],
    "held_by_no_storm": [
        "update delivery set disposition = 'held', reason = 'storm', judged = true, run_id = null, decided_at = null "
        "where dag_id = 1 and event_id = 1"
    ],
    "lane_without_person": ["update run set intervention_id = null where run_type = 'rerun'"],
    "member_of_wrong_run": [
        "insert into run_member (run_id, event_id) "
        "select id, start_event from run where run_type = 'asset_triggered' limit 1"
    ],
    "replay_without_event": [
        "delete from run_member m using run r where r.id = m.run_id and r.run_type = 'replay'",
    ],
    "rerun_of_other_events": [
        "insert into run_member (run_id, event_id) select id, 4 from run where run_type = 'rerun'",
    ],
    "cause_left_out": [
        "insert into cause (event_id, run_id, rounds) select 1, id, '{}' from run where run_type = 'rerun'",
    ],
    "task_before_its_run": ["update run set state = 'queued', started_at = null where state = 'running'"],
}


@pytest.mark.parametrize("kind", sorted(FAULTS))
async def test_fault(world: World, kind: str) -> None:
    await break_constraints(world.sql)
    changed = [await world.sql.execute(statement) for statement in FAULTS[kind]]
    assert not changed[-1].endswith(" 0"), changed
    result = await verify(world.database)
    assert not result["ok"]
    assert kind in {v["kind"] for v in result["violations"]}, result["violations"]
    assert all(v["meaning"] for v in result["violations"])


FURTHER = [
    ("event_without_identity", f"({QUARANTINED}) values (1, 'x', '{{}}', gen_random_uuid(), null, now(), null, null)"),
    (
        "quarantined_event_let_through",
        f"({QUARANTINED}) values (1, 'x', '{{}}', gen_random_uuid(), 2, now(), now(), '{{}}')",
    ),
]


@pytest.mark.parametrize(("kind", "row"), FURTHER)
async def test_fault_of_an_event_without_a_key(world: World, kind: str, row: str) -> None:
    await break_constraints(world.sql)
    await world.sql.execute(f"insert into quarantine {row}")
    assert kind in {v["kind"] for v in (await verify(world.database))["violations"]}


def test_every_check_has_its_fault() -> None:
    assert sorted(checks()) == sorted(FAULTS)


async def break_constraints(sql: Any) -> None:
    """Take away what holds the promise, as a broken index or a hand in the tables would."""
    await sql.execute(
        """
        do $$
        declare one record;
        begin
          alter table delivery disable trigger user;
          alter table run disable trigger user;
          drop index delivery_starter, run_start_event, run_slot;
          for one in select conrelid::regclass as place, conname from pg_constraint
                     where contype in ('f', 'c', 'u') and connamespace = 'public'::regnamespace loop
            execute format('alter table %s drop constraint %I', one.place, one.conname);
          end loop;
        end $$
        """
    )
