"""A file written for Airflow, with its imports as they are."""

from __future__ import annotations

from pathlib import Path

from system import System
from watched import append

FILE = '''
    """Orders, as an Airflow 3 installation has them."""
    from __future__ import annotations

    import asyncio
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

    import pendulum
    from airflow.exceptions import AirflowSkipException
    from airflow.providers.standard.operators.bash import BashOperator
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, Asset, AssetWatcher, chain, dag, get_current_context, task
    from airflow.triggers.base import BaseEventTrigger, TriggerEvent


    class NewLines(BaseEventTrigger):
        def __init__(self, path: str, poke_interval: float = 0.1):
            super().__init__()
            self.path = path
            self.poke_interval = poke_interval

        def serialize(self) -> tuple[str, dict[str, Any]]:
            return "orders_dag.NewLines", {{"path": self.path, "poke_interval": self.poke_interval}}

        async def run(self) -> AsyncIterator[TriggerEvent]:
            seen = 0
            while True:
                path = Path(self.path)
                lines = path.read_text().splitlines() if path.exists() else []
                for line in lines[seen:]:
                    yield TriggerEvent({{"line": line}})
                seen = len(lines)
                await asyncio.sleep(self.poke_interval)


    orders = Asset("orders", uri="file://shop/orders", watchers=[
        AssetWatcher(name="new_lines", trigger=NewLines(path={path!r}))
    ])
    totals = Asset("totals")

    with DAG(
        dag_id="orders",
        schedule=[orders],
        start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Berlin"),
        catchup=False,
        tags=["shop"],
        default_args={{"retries": 1, "retry_delay": pendulum.duration(seconds=0.1), "owner": "shop"}},
    ):
        start = EmptyOperator(task_id="start")

        @task
        def extract(triggering_asset_events=None):
            return [e.extra["line"] for events in triggering_asset_events.values() for e in events]

        @task(multiple_outputs=True)
        def transform(lines: list[str]) -> dict[str, int]:
            return {{"count": len(lines), "letters": sum(map(len, lines))}}

        @task.branch
        def route(count: int):
            return "shout" if count else "nothing"

        @task(outlets=[totals])
        def load(letters: int, ti=None):
            context = get_current_context()
            assert context["ti"].task_id == "load" and ti.run_id == context["run_id"]
            ti.xcom_push(key="letters", value=letters)

        shout = BashOperator(task_id="shout", bash_command="echo run {{{{ run_id }}}} of {{{{ dag.dag_id }}}}")
        nothing = EmptyOperator(task_id="nothing")
        end = EmptyOperator(task_id="end", trigger_rule="none_failed_min_one_success")
        found = transform(extract())
        chain(start, route(found["count"]), [shout, nothing], end)
        load(found["letters"])


    @dag(schedule=totals, start_date=pendulum.datetime(2026, 1, 1))
    def report():
        @task(inlets=[totals])
        def look(inlet_events=None):
            if not inlet_events[totals]:
                raise AirflowSkipException("no totals")
            return inlet_events[totals][-1].asset.name
        look()


    report()
'''


async def test_unmodified_airflow_file_runs(tmp_path: Path, database_url: str) -> None:
    lines = tmp_path / "lines"
    async with System(tmp_path, database_url, triggerers=1) as system:
        await system.sound("orders_dag.py", FILE.format(path=str(lines)))
        append(lines, "first order")
        [run] = await system.finished("orders", 1)
        tasks = {t["task_id"]: t for t in await system.tasks("orders", run["run_id"])}
        assert run["state"] == "success", tasks
        assert {name for name, t in tasks.items() if t["state"] != "success"} == {"nothing"}
        assert tasks["nothing"]["state"] == "skipped"
        logs = await system.cli("tasks", "logs", "orders", run["run_id"], "shout")
        assert f"run {run['run_id']} of orders" in logs.stdout
        [report] = await system.finished("report", 1)
        assert report["state"] == "success"
        [[letters]] = await system.sql("select value::text from xcom where key = 'letters' and task_id = 'load'")
        assert letters == str(len("first order"))
        assert (await system.dag("orders"))["tags"] == ["shop"]
        await system.verify()
