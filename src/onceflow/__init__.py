"""Onceflow: event-driven workflows with one promise: one change, one run.

    from onceflow import DAG, Asset, task

Everything a DAG file needs is here, under the names of `airflow.sdk`. Names are imported when first used, so that
`import onceflow` costs next to nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    from onceflow.model.errors import UnsupportedError

    raise UnsupportedError(
        "Onceflow does not run on Windows", where=sys.platform, remedy="use Linux, macOS, or Linux under WSL 2"
    )

__version__ = "0.1.0"

if TYPE_CHECKING:
    from onceflow.model.message import MessageId
    from onceflow.model.states import RunState as DagRunState
    from onceflow.model.states import TaskState as TaskInstanceState
    from onceflow.model.states import TriggerRule
    from onceflow.sdk.asset import Asset, AssetAll, AssetAny, AssetWatcher, Metadata
    from onceflow.sdk.asset_function import asset
    from onceflow.sdk.consume import All, Each, Latest, Window
    from onceflow.sdk.context import Context, get_current_context
    from onceflow.sdk.dag import DAG, dag
    from onceflow.sdk.decorators import setup, task, teardown
    from onceflow.sdk.edges import EdgeModifier, Label, chain, chain_linear, cross_downstream
    from onceflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowSkipException,
        AirflowTaskTimeout,
        FailTask,
        SkipTask,
        TaskError,
        TaskTimeout,
    )
    from onceflow.sdk.filter import Filter
    from onceflow.sdk.group import TaskGroup, task_group
    from onceflow.sdk.once import Effect, once
    from onceflow.sdk.operator import BaseOperator
    from onceflow.sdk.operators import (
        BashOperator,
        BranchPythonOperator,
        EmptyOperator,
        PythonOperator,
        ShortCircuitOperator,
    )
    from onceflow.sdk.params import Param
    from onceflow.sdk.schedule import (
        CronDataIntervalTimetable,
        CronTriggerTimetable,
        DeltaDataIntervalTimetable,
        DeltaTriggerTimetable,
    )
    from onceflow.sdk.sensor import BaseSensorOperator, PokeReturnValue
    from onceflow.sdk.taskrun import TaskInstance
    from onceflow.sdk.trigger import BaseEventTrigger, BaseTrigger, Checkpoint, TriggerEvent
    from onceflow.sdk.variable import Variable
    from onceflow.sdk.xcom import XComArg

_HOME = {
    "model.message": ("MessageId",),
    "model.states:RunState": ("DagRunState",),
    "model.states:TaskState": ("TaskInstanceState",),
    "model.states": ("TriggerRule",),
    "sdk.asset": ("Asset", "AssetAll", "AssetAny", "AssetWatcher", "Metadata"),
    "sdk.asset_function": ("asset",),
    "sdk.consume": ("All", "Each", "Latest", "Window"),
    "sdk.context": ("Context", "get_current_context"),
    "sdk.dag": ("DAG", "dag"),
    "sdk.decorators": ("setup", "task", "teardown"),
    "sdk.edges": ("EdgeModifier", "Label", "chain", "chain_linear", "cross_downstream"),
    "sdk.exceptions": (
        "AirflowException",
        "AirflowFailException",
        "AirflowSkipException",
        "AirflowTaskTimeout",
        "FailTask",
        "SkipTask",
        "TaskError",
        "TaskTimeout",
    ),
    "sdk.filter": ("Filter",),
    "sdk.group": ("TaskGroup", "task_group"),
    "sdk.once": ("Effect", "once"),
    "sdk.operator": ("BaseOperator",),
    "sdk.operators": (
        "BashOperator",
        "BranchPythonOperator",
        "EmptyOperator",
        "PythonOperator",
        "ShortCircuitOperator",
    ),
    "sdk.params": ("Param",),
    "sdk.schedule": (
        "CronDataIntervalTimetable",
        "CronTriggerTimetable",
        "DeltaDataIntervalTimetable",
        "DeltaTriggerTimetable",
    ),
    "sdk.sensor": ("BaseSensorOperator", "PokeReturnValue"),
    "sdk.taskrun": ("TaskInstance",),
    "sdk.trigger": ("BaseEventTrigger", "BaseTrigger", "Checkpoint", "TriggerEvent"),
    "sdk.variable": ("Variable",),
    "sdk.xcom": ("XComArg",),
}
_NAMES = {name: home for home, names in _HOME.items() for name in names}

__all__ = [
    "DAG",
    "AirflowException",
    "AirflowFailException",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "All",
    "Asset",
    "AssetAll",
    "AssetAny",
    "AssetWatcher",
    "BaseEventTrigger",
    "BaseOperator",
    "BaseSensorOperator",
    "BaseTrigger",
    "BashOperator",
    "BranchPythonOperator",
    "Checkpoint",
    "Context",
    "CronDataIntervalTimetable",
    "CronTriggerTimetable",
    "DagRunState",
    "DeltaDataIntervalTimetable",
    "DeltaTriggerTimetable",
    "Each",
    "EdgeModifier",
    "Effect",
    "EmptyOperator",
    "FailTask",
    "Filter",
    "Label",
    "Latest",
    "MessageId",
    "Metadata",
    "Param",
    "PokeReturnValue",
    "PythonOperator",
    "ShortCircuitOperator",
    "SkipTask",
    "TaskError",
    "TaskGroup",
    "TaskInstance",
    "TaskInstanceState",
    "TaskTimeout",
    "TriggerEvent",
    "TriggerRule",
    "Variable",
    "Window",
    "XComArg",
    "asset",
    "chain",
    "chain_linear",
    "cross_downstream",
    "dag",
    "get_current_context",
    "once",
    "setup",
    "task",
    "task_group",
    "teardown",
]


def __getattr__(name: str) -> Any:
    home = _NAMES.get(name)
    if home is None:
        raise AttributeError(f"module 'onceflow' has no name {name!r}")
    from importlib import import_module

    module, _, attribute = home.partition(":")
    value = getattr(import_module(f"onceflow.{module}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
