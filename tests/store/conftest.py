"""How deep the random programs go. Longer: `PROGRAMS=500 pytest --timeout 3600 tests/store/test_state_machine.py`.

By default they are the same programs each time, and one that fails is shown as it is; with PROGRAMS they are new ones,
and one that fails is made shorter first.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

DEFAULT_PROGRAMS = 20
STEPS = 25


@pytest.fixture(scope="session")
def programs() -> settings:
    """How many random programs, of how many steps."""
    asked = os.environ.get("PROGRAMS")
    return settings(
        max_examples=int(asked or DEFAULT_PROGRAMS),
        stateful_step_count=STEPS,
        derandomize=asked is None,
        phases=[Phase.generate, Phase.shrink] if asked else [Phase.generate],
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
