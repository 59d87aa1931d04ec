"""Airflow's module names mapped onto Onceflow's, in guest processes only.

`install()` adds an import finder, so that files that say `from airflow.sdk import DAG` run unchanged. It never hides a
real Airflow: where one is installed, importing it in a DAG file is an error that says so, unless ONCEFLOW_COMPAT=force.
"""

from __future__ import annotations

import sys


def install() -> None:
    """Map `airflow` and its modules, once per process."""
    from onceflow.compat.finder import AirflowFinder

    if not any(isinstance(finder, AirflowFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AirflowFinder())
