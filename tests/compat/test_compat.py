"""Files written for Airflow, in processes of their own: the mapping is installed there and nowhere else."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from onceflow.compat.names import MISSING, MODULES

RUN = (
    "import sys; from onceflow.guest.loader import load_file; print([d.dag_id for d in load_file(*sys.argv[1:]).dags])"
)


def load(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Load a DAG file in a fresh guest."""
    (folder / "file.py").write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, "-c", RUN, "file.py", str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )


def dags(folder: Path, text: str) -> str:
    done = load(folder, text)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", [module for module in MODULES if MODULES[module]])
def test_every_mapped_name_exists(module: str) -> None:
    for name, home in MODULES[module].items():
        place, _, attribute = home.partition(":")
        assert getattr(importlib.import_module(place), attribute) is not None, f"{module}.{name}"


def test_airflow_is_mapped_in_guests_only() -> None:
    code = "import onceflow; onceflow.DAG; import airflow"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "No module named 'airflow'" in done.stderr


def test_a_file_for_airflow_3_runs_unchanged(tmp_path: Path) -> None:
    text = """
        from __future__ import annotations

        import pendulum
        from airflow.providers.standard.operators.bash import BashOperator
        from airflow.providers.standard.operators.empty import EmptyOperator
        from airflow.providers.standard.operators.python import PythonOperator
        from airflow.sdk import (
            DAG, Asset, AssetWatcher, BaseOperator, Context, Label, Metadata, Param, TaskGroup, TriggerRule, XComArg,
            chain, dag, get_current_context, setup, task, task_group, teardown,
        )
        from airflow.sdk.bases.sensor import PokeReturnValue
        from airflow.sdk.exceptions import AirflowSkipException
        from airflow.timetables.trigger import CronTriggerTimetable
        from airflow.triggers.base import BaseEventTrigger, TriggerEvent

        class Ticks(BaseEventTrigger):
            def serialize(self):
                return "file.Ticks", {}

            async def run(self):
                yield TriggerEvent({"n": 1})

        ticks = Asset(name="ticks", watchers=[AssetWatcher(name="w", trigger=Ticks())])

        @dag(schedule=[ticks], start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), catchup=False, tags=["example"])
        def on_tick():
            @task
            def show(triggering_asset_events=None):
                print(triggering_asset_events)

            @task.branch(task_id="pick")
            def pick():
                return "show"

            pick() >> Label("go") >> show()

        on_tick()

        with DAG(
            "timed",
            schedule=CronTriggerTimetable("0 3 * * *", timezone="Europe/Rome"),
            default_args={"owner": "airflow", "retries": 1, "depends_on_past": False},
        ) as timed:
            with TaskGroup("load") as load:
                BashOperator(task_id="sh", bash_command="echo {{ ds }}")
            EmptyOperator(task_id="start") >> load >> PythonOperator(
                task_id="end", python_callable=print, trigger_rule=TriggerRule.ALL_DONE
            )
    """
    assert dags(tmp_path, text) == "['on_tick', 'timed']"


def test_a_file_for_airflow_2_runs_where_its_names_still_mean_something(tmp_path: Path) -> None:
    text = """
        from airflow import DAG, Dataset
        from airflow.decorators import dag, task
        from airflow.exceptions import AirflowException, AirflowFailException
        from airflow.models.baseoperator import chain
        from airflow.operators.bash import BashOperator
        from airflow.operators.empty import EmptyOperator
        from airflow.operators.python import BranchPythonOperator, PythonOperator, get_current_context
        from airflow.utils.task_group import TaskGroup
        from airflow.utils.trigger_rule import TriggerRule
        import airflow.utils.state as state

        with DAG(dag_id="old", schedule=[Dataset("s3://x")], default_view="graph") as dag:
            chain(EmptyOperator(task_id="a"), EmptyOperator(task_id="b"))
    """
    assert dags(tmp_path, text) == "['old']"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from airflow.sdk import Asett", "it has Asset"),
        ("from airflow.sdk import BashOperator", "is in airflow.operators.bash"),
        ("from airflow.sdk import AssetAlias", "aliases do not exist"),
        ("from airflow.sdk.bases.hook import BaseHook", "client library"),
        ("from airflow.providers.amazon.aws.hooks.s3 import S3Hook", "no module airflow.providers.amazon"),
        ("import airflow.sdk.definition", "near ones: airflow.sdk.definitions"),
        (
            "from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator",
            "schedule the other DAG",
        ),
    ],
)
def test_a_name_that_is_not_there_names_those_that_are(tmp_path: Path, line: str, words: str) -> None:
    done = load(tmp_path, line)
    assert done.returncode == 1
    assert words in done.stderr.strip().splitlines()[-1]


def test_files_may_try_several_homes_of_a_name(tmp_path: Path) -> None:
    text = """
        try:
            from airflow.sdk.nowhere import DAG
        except ImportError:
            from airflow.sdk import DAG
        import airflow.sdk
        assert not hasattr(airflow.sdk, "__wrapped__")
        with DAG("d"): pass
    """
    assert dags(tmp_path, text) == "['d']"


def test_a_real_airflow_is_never_hidden(tmp_path: Path) -> None:
    site = tmp_path / "site" / "airflow"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("__version__ = '3.0.0'\n")
    where = {"PYTHONPATH": os.pathsep.join([str(site.parent), *filter(None, [os.environ.get("PYTHONPATH")])])}
    text = "from airflow.sdk import DAG\nwith DAG('d'): pass\n"
    refused = load(tmp_path, text, **where)
    assert refused.returncode == 1
    assert "a real Airflow is installed here" in refused.stderr and "ONCEFLOW_COMPAT=force" in refused.stderr
    assert load(tmp_path, text, **where, ONCEFLOW_COMPAT="force").stdout.strip() == "['d']"
    wrong = load(tmp_path, text, **where, ONCEFLOW_COMPAT="yes")
    assert "allowed: force" in wrong.stderr


def test_a_folder_named_airflow_among_the_dags_is_no_airflow(tmp_path: Path) -> None:
    (tmp_path / "airflow").mkdir()
    assert dags(tmp_path, "from airflow.sdk import DAG\nwith DAG('d'): pass\n") == "['d']"


def test_what_is_missing_is_not_mapped() -> None:
    mapped = set(MODULES) | {f"{module}.{name}" for module, names in MODULES.items() for name in names}
    assert not mapped & {name for name in MISSING if "." in name}
