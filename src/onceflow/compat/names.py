"""The mapping: Airflow's modules, their names, and where Onceflow has what they mean."""

from __future__ import annotations

from collections.abc import Mapping

import onceflow

Names = dict[str, str]


def _own(*names: str, **renamed: str) -> Names:
    """Names that Onceflow has under the same name, and those it has under another (theirs=ours)."""
    return {name: f"onceflow:{name}" for name in names} | {
        theirs: f"onceflow:{ours}" for theirs, ours in renamed.items()
    }


NOT_AIRFLOWS = {"All", "Checkpoint", "Each", "FailTask", "SkipTask", "TaskError", "TaskTimeout"}
OPERATORS = {"BashOperator", "BranchPythonOperator", "EmptyOperator", "PythonOperator", "ShortCircuitOperator"}
SDK = _own(*sorted(set(onceflow.__all__) - NOT_AIRFLOWS - OPERATORS))
SDK |= {"macros": "onceflow.sdk.templates:MACROS", "ObjectStoragePath": "", "ParamsDict": ""}
SDK = {name: home for name, home in SDK.items() if home}

EXCEPTIONS = _own(
    "AirflowException",
    "AirflowFailException",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    AirflowSensorTimeout="AirflowException",
    AirflowNotFoundException="AirflowException",
    AirflowBadRequest="AirflowException",
    AirflowConfigException="AirflowException",
) | {"AirflowSensorTimeout": "onceflow.sdk.sensor:SensorTimeout"}
ASSETS = _own(
    "Asset", "AssetAll", "AssetAny", "AssetWatcher", Dataset="Asset", DatasetAll="AssetAll", DatasetAny="AssetAny"
)
EDGES = _own("chain", "chain_linear", "cross_downstream")
PYTHON = _own("PythonOperator", "BranchPythonOperator", "ShortCircuitOperator", "get_current_context")
DECORATORS = _own("dag", "setup", "task", "task_group", "teardown")
TIMETABLES = _own(
    "CronDataIntervalTimetable", "CronTriggerTimetable", "DeltaDataIntervalTimetable", "DeltaTriggerTimetable"
)
TRIGGERS = _own("BaseEventTrigger", "BaseTrigger", "TriggerEvent")
STATES = _own("DagRunState", "TaskInstanceState")
BASH = _own("BashOperator")
EMPTY = _own("EmptyOperator")
SENSORS = _own("BaseSensorOperator", "PokeReturnValue") | {"PythonSensor": "onceflow.sdk.sensor:PythonSensor"}

MODULES: Mapping[str, Names] = {
    "airflow": _own("DAG", "Dataset", "Asset", "XComArg") | _own(Dataset="Asset"),
    "airflow.datasets": ASSETS,
    "airflow.datasets.metadata": _own("Metadata"),
    "airflow.decorators": DECORATORS,
    "airflow.exceptions": EXCEPTIONS,
    "airflow.io": {},
    "airflow.models": _own("BaseOperator", "DAG", "Param", "TaskInstance", "Variable", "XComArg"),
    "airflow.models.baseoperator": _own("BaseOperator") | EDGES,
    "airflow.models.dag": _own("DAG", "dag"),
    "airflow.models.param": _own("Param"),
    "airflow.models.taskinstance": _own("TaskInstance"),
    "airflow.models.variable": _own("Variable"),
    "airflow.models.xcom_arg": _own("XComArg"),
    "airflow.operators": {},
    "airflow.operators.bash": BASH,
    "airflow.operators.empty": EMPTY,
    "airflow.operators.dummy": _own(DummyOperator="EmptyOperator"),
    "airflow.operators.python": PYTHON,
    "airflow.providers.standard": {},
    "airflow.providers.standard.operators.bash": BASH,
    "airflow.providers.standard.operators.empty": EMPTY,
    "airflow.providers.standard.operators.python": PYTHON,
    "airflow.providers.standard.sensors.python": SENSORS,
    "airflow.providers.standard.version": {},
    "airflow.sdk": SDK,
    "airflow.sdk.bases": {},
    "airflow.sdk.bases.operator": _own("BaseOperator") | EDGES,
    "airflow.sdk.bases.sensor": SENSORS,
    "airflow.sdk.bases.trigger": TRIGGERS,
    "airflow.sdk.bases.xcom": {},
    "airflow.sdk.definitions.asset": ASSETS,
    "airflow.sdk.definitions.asset.decorators": _own("asset"),
    "airflow.sdk.definitions.asset.metadata": _own("Metadata"),
    "airflow.sdk.definitions.context": _own("Context", "get_current_context"),
    "airflow.sdk.definitions.dag": _own("DAG", "dag"),
    "airflow.sdk.definitions.decorators": DECORATORS,
    "airflow.sdk.definitions.edges": _own("EdgeModifier", "Label"),
    "airflow.sdk.definitions.param": _own("Param"),
    "airflow.sdk.definitions.taskgroup": _own("TaskGroup"),
    "airflow.sdk.definitions.timetables": {},
    "airflow.sdk.definitions.variable": _own("Variable"),
    "airflow.sdk.definitions.xcom_arg": _own("XComArg"),
    "airflow.sdk.exceptions": EXCEPTIONS,
    "airflow.sdk.execution_time.context": _own("Context", "get_current_context"),
    "airflow.sdk.types": {},
    "airflow.sensors.base": SENSORS,
    "airflow.sensors.python": SENSORS,
    "airflow.settings": {},
    "airflow.timetables": {},
    "airflow.timetables.interval": TIMETABLES,
    "airflow.timetables.trigger": TIMETABLES,
    "airflow.triggers": {},
    "airflow.triggers.base": TRIGGERS,
    "airflow.utils": {},
    "airflow.utils.context": _own("Context"),
    "airflow.utils.dates": {},
    "airflow.utils.edgemodifier": _own("EdgeModifier", "Label"),
    "airflow.utils.helpers": EDGES,
    "airflow.utils.state": STATES,
    "airflow.utils.task_group": _own("TaskGroup", "task_group"),
    "airflow.utils.trigger_rule": _own("TriggerRule"),
    "airflow.utils.types": {},
    "airflow.version": {},
}

# What people ask for that Onceflow does not have, and what to do instead.
MISSING: Mapping[str, str] = {
    "AssetAlias": "aliases do not exist in Onceflow yet; name the asset itself",
    "DatasetAlias": "aliases do not exist in Onceflow yet; name the asset itself",
    "Connection": "connections do not exist in Onceflow; read secrets from the environment of the worker",
    "BaseHook": "hooks and connections do not exist in Onceflow; use the service's own client library",
    "airflow.hooks.base": "hooks and connections do not exist in Onceflow; use the service's own client library",
    "airflow.sdk.bases.hook": "hooks and connections do not exist in Onceflow; use the service's own client library",
    "ObjectStoragePath": "use fsspec or the store's own client library",
    "TriggerDagRunOperator": "let the task have an outlet and schedule the other DAG on that asset",
    "ExternalTaskSensor": "let the other task have an outlet and schedule this DAG on that asset",
    "airflow.operators.trigger_dagrun": "let the task have an outlet and schedule the other DAG on that asset",
    "airflow.providers.standard.operators.trigger_dagrun": (
        "let the task have an outlet and schedule the other DAG on that asset"
    ),
    "airflow.utils.dates.days_ago": "give a fixed start_date",
    "MultipleCronTriggerTimetable": "use one DAG per cron expression",
    "AssetOrTimeSchedule": "use one DAG per kind of schedule",
}
