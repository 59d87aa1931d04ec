"""How a consumer takes events: `DAG(schedule=orders, consume=Each())`."""

from __future__ import annotations

from typing import Literal


class Each:
    """One run per event. The default of a schedule without `&`."""

    policy: Literal["each"] = "each"

    def __repr__(self) -> str:
        return "Each()"


class All:
    """Every pending event of the consumer into one run. The default of a schedule with `&`."""

    policy: Literal["all"] = "all"

    def __repr__(self) -> str:
        return "All()"
