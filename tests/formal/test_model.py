"""The protocol's models: no execution breaks a property, and each guard is one without which some execution does."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

MODELS = Path(__file__).parents[2] / "models"
BOUNDS = {"KEYED", "FAULTS", "HOSTS", "SHOWN", "SCHEDULERS", "CHANGES", "TASKS", "LOST_LIMIT", "RETRIES"}
HOOKS = {"CREATED", "OUT_SIGHTING"}


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("models_check", MODELS / "check.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["models_check"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = _load()
needs_spin = pytest.mark.skipif(bool(check.missing()), reason=f"the models are not checked: {check.missing()}")


@needs_spin
@pytest.mark.parametrize("case", [c for c in check.WHOLE if not c.deep], ids=lambda c: c.name)
def test_no_execution_breaks_a_property(case: Any) -> None:
    result = check.run(case, steps=True)
    assert result.complete, "not every state was visited"
    assert result.fault == "", result.steps
    assert result.states > 0


@needs_spin
@pytest.mark.parametrize("case", check.WITHOUT, ids=lambda c: c.name)
def test_without_a_guard_the_checker_finds_the_fault(case: Any) -> None:
    result = check.run(case)
    assert result.fault.startswith(case.fault), f"{case.guard}: {result.fault or 'no fault found'}"
    assert result.passes(case)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.pml")), ids=lambda p: p.name)
def test_every_variant_of_a_model_is_checked(path: Path) -> None:
    used = set(re.findall(r"-D(\w+)", " ".join(c.flags for c in check.CHECKS)))
    asked = set(re.findall(r"#ifn?def (\w+)", path.read_text()))
    assert asked - used <= BOUNDS | HOOKS


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.pml")), ids=lambda p: p.name)
def test_every_assertion_says_what_it_asserts(path: Path) -> None:
    """A fault is named by the comment beside the assertion that failed."""
    lines = [line for line in path.read_text().splitlines() if "assert(" in line]
    assert [line for line in lines if "/*" not in line] == []


def test_every_guard_named_in_the_documentation_is_checked_and_the_other_way_round() -> None:
    text = (MODELS / "README.md").read_text()
    assert {c.name.split(":")[0].split(",")[0] for c in check.WITHOUT} == set(
        re.findall(r"^\| `([A-Z_]+)`", text, re.M)
    )
