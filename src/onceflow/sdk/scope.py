"""Which DAG and task group a new task joins: the ones whose `with` blocks are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onceflow.sdk.dag import DAG
    from onceflow.sdk.group import TaskGroup
    from onceflow.sdk.operator import BaseOperator

open_dags: list[DAG] = []
open_groups: list[TaskGroup] = []
open_teardowns: list[BaseOperator] = []
made: list[DAG] = []  # every DAG, in order
registered: list[DAG] = []  # every DAG whose `with` block was closed, in order


def current_dag() -> DAG | None:
    return open_dags[-1] if open_dags else None


def current_group() -> TaskGroup | None:
    """The innermost open group of the current DAG."""
    group = open_groups[-1] if open_groups else None
    return group if group is not None and group.dag is current_dag() else None
