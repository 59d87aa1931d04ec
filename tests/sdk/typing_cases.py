"""What a type checker must accept and refuse in DAG files. Lines marked `# refused` must be errors, all others none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

from onceflow import (
    DAG,
    All,
    Asset,
    AssetWatcher,
    BaseEventTrigger,
    BashOperator,
    Context,
    Each,
    EmptyOperator,
    Filter,
    Latest,
    MessageId,
    Metadata,
    PythonOperator,
    TaskGroup,
    TriggerEvent,
    TriggerRule,
    Window,
    chain,
    dag,
    once,
    setup,
    task,
    task_group,
    teardown,
)

orders = Asset("orders", uri="s3://b/orders", key="id")
sums = Asset("sums")


class Rows(BaseEventTrigger):
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "rows.Rows", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent({"id": 1}, key="1", cursor=1)
        yield TriggerEvent({"id": 1}, key=1)  # refused


Asset("x", watchers=[AssetWatcher(name="w", trigger=Rows())])
Asset("x", watchers=[AssetWatcher(name="w", trigger="rows")])  # refused
Asset("x", watchers=[Rows()])  # refused
Asset("x", key=["region", "id"])
Asset("x", key=lambda payload: payload["id"])
Asset("x", key=7)  # refused
Asset("x", retention=timedelta(days=7), protection="forever")
Asset("x", protection="for ever")  # refused
AssetWatcher("w", Rows(), key=["a", "b"])
AssetWatcher("w", Rows(), mode="all", match={"region": ["eu", "uk"], "paid": True}, canary=timedelta(minutes=1))
AssetWatcher("w", Rows(), match=Filter("total", ">", 10), keep_cursor=True, silent_after=60)
AssetWatcher("w", Rows(), mode="each")  # refused
AssetWatcher("w", Rows(), match="region")  # refused
TriggerEvent({}, message_id=MessageId("kafka://prod/orders/3", 42, epoch=1))
TriggerEvent({}, message_id="42")  # refused
headers: dict[str, str] = once("charge").headers
once(7)  # refused
Asset("x", ur="s3://x")  # refused
Asset(5)  # refused
Metadata("orders", {})  # refused


@task
def extract(day: str, limit: int = 10) -> list[int]:
    return [limit]


@task(retries=3, retry_delay=timedelta(seconds=1), outlets=[sums], trigger_rule="all_done", execution_timeout=5)
def total(rows: list[int]) -> int:
    return sum(rows)


@task(retrys=3)  # refused
def misspelt() -> None: ...


@task(trigger_rule="all_succes")  # refused
def misruled() -> None: ...


@task(retries="3")  # refused
def mistyped() -> None: ...


@task.branch(task_id="pick")
def pick(n: int) -> str:
    return "a"


@task.short_circuit
def go() -> bool:
    return True


@task_group
def both(day: str) -> None:
    extract(day)


@setup
def make() -> str:
    return "x"


@teardown(on_failure_fail_dagrun=True)
def clean(name: str) -> None: ...


with DAG("etl", schedule=orders & sums, consume=All(), start_date=datetime(2026, 1, 1), tags=["x"]) as made:
    rows = extract("monday")
    result = total(rows)
    pick(result) >> [go(), EmptyOperator(task_id="e", trigger_rule=TriggerRule.ALL_DONE)] >> both("x")
    rows["first"] >> result
    total.override(task_id="again", retries=1)(rows)
    chain(make(), clean("x"))
    with TaskGroup("g", prefix_group_id=False):
        BashOperator(task_id="sh", bash_command="ls", env={"A": "b"}, retries=2)
    PythonOperator(task_id="p", python_callable=print, op_args=[rows], queue="big")

    extract()  # refused
    extract(5)  # refused
    extract("monday", 5, 6)  # refused
    extract("monday", limits=5)  # refused
    both(5)  # refused
    total.override(retrys=1)  # refused
    BashOperator(task_id="sh")  # refused
    BashOperator(task_id="sh", bash_command=5)  # refused
    EmptyOperator(task_id="e", retrys=1)  # refused
    EmptyOperator("e")  # refused
    PythonOperator(task_id="p", python_callable=5)  # refused
    TaskGroup(5)  # refused

DAG("a", schedule="@daily", max_active_runs=1, catchup=True, consume=Each())
DAG("a", schedule=[orders, sums])
DAG("a", schedule=timedelta(hours=1))
DAG("a", schedule=orders.when("status", "==", "paid") | sums, consume=Latest(), while_paused="discard")
DAG("a", schedule=orders.when(Filter("n", ">", 1) & ~Filter("c", "in", ["x", 1, None])) & sums)
DAG("a", schedule=orders, consume=Window(quiet=5, max_wait=timedelta(minutes=1), max_size=10))
DAG("a", schedule=orders, consume=Window(5))  # refused
DAG("a", schedule=orders, consume=Window(quiet="5"))  # refused
DAG("a", schedule=orders, while_paused="drop")  # refused
orders.when("status", "=", "paid")  # refused
orders.when(~Filter.source("lane", "exists") & Filter("n", ">", 1))
Filter.source("lane", "is there")  # refused
orders.when("status", "==", {"a": 1})  # refused
Filter(5, "==", 5)  # refused
Filter("n", "==", 5) & "x"  # refused
DAG("a", schedule=5)  # refused
DAG("a", schedule=["orders"])  # refused
DAG("a", consume="each")  # refused
DAG("a", max_active_run=1)  # refused
DAG("a", start_date="2026-01-01")  # refused
DAG("a", "@daily")  # refused
DAG()  # refused


@dag(schedule="@daily", catchup=False)
def report(day: str = "monday") -> None:
    extract(day)


made = report()
report("friday")
report(5)  # refused


@dag(shedule="@daily")  # refused
def misnamed() -> None: ...


def execute(context: Context) -> None:
    context["ti"].xcom_push("k", 1)
