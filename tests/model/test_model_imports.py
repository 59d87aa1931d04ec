"""The model is what every process and every guest loads, so it loads nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import onceflow.model

FOLDER = Path(onceflow.model.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
HEAVY = {"asyncio", "asyncpg", "fastapi", "pydantic", "pendulum", "cronsim", "zoneinfo", "socket", "ssl", "logging"}


def test_there_is_a_model() -> None:
    assert "upstream" in MODULES


@pytest.mark.parametrize("heavy", sorted(HEAVY))
def test_the_whole_model_loads_without(heavy: str, loaded: set[str]) -> None:
    assert heavy not in loaded


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    code = "import sys\n" + "".join(f"import onceflow.model.{m}\n" for m in MODULES) + "print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())
