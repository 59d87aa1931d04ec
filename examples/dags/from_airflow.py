"""A file as people write it for Airflow 3: nothing in it names Onceflow."""

from __future__ import annotations

import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Asset, dag, task

greetings = Asset("greetings")


@dag(
    schedule="@hourly",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"owner": "airflow", "retries": 1},
    tags=["example"],
)
def from_airflow():
    @task(outlets=[greetings])
    def greet(name: str) -> str:
        return f"hello {name}"

    show = BashOperator(task_id="show", bash_command="echo 'slot {{ ts }}: {{ ti.xcom_pull(task_ids=\"greet\") }}'")

    greet("world") >> show


from_airflow()
