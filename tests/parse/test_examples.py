"""The example DAGs load without a warning, and their tasks run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "dags"

RUN = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[3])
from authoring import Store, event, run_task
from onceflow.guest.loader import load_file
from onceflow.model.upstream import Graph
from onceflow.sdk.spec import Compiler

EVENTS = {
    "sales_report": [event(1, "sales", {"orders": 1})],
    "on_commit": [event(1, "commits", {"sha": "0" * 40, "author": "Ann", "message": "hello"})],
}
folder = Path(sys.argv[2])
loaded = load_file(sys.argv[1], folder)
spec = Compiler(folder).file(sys.argv[1], "0", loaded.dags, loaded.assets)
assert not spec.warnings, spec.warnings
for dag in loaded.dags:
    [stored] = [d for d in spec.dags if d.dag_id == dag.dag_id]
    store = Store(EVENTS.get(dag.dag_id, []))
    for task_id in Graph(stored).order:
        params = {name: param.value for name, param in dag.params.items()}
        run = {"logical_date": "2026-01-31T00:00:00Z"}
        result = run_task(dag, task_id, store, run=run, params=params, try_number=2)
        assert result.outcome == "success", (task_id, result.error)
"""


@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("*.py"))])
def test_an_example_loads_and_runs(name: str) -> None:
    support = Path(__file__).parents[1] / "sdk"
    command = [sys.executable, "-c", RUN, name, str(EXAMPLES), str(support)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
