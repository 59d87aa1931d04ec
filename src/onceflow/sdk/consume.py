"""How a consumer takes events: `DAG(schedule=orders, consume=Each())`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from onceflow.model.dagspec import Policy
from onceflow.model.errors import DagError
from onceflow.sdk.options import Option, convert, duration, optional, whole
from onceflow.sdk.where import here

DURATION = Option(None, optional(duration))
SIZE = Option(None, optional(whole(2)))


class Each:
    """One run per event. The default of a schedule without `&`."""

    policy: Policy = "each"

    def __repr__(self) -> str:
        return "Each()"


class All:
    """Every pending event of the consumer into one run. The default of a schedule with `&`."""

    policy: Policy = "all"

    def __repr__(self) -> str:
        return "All()"


class Latest:
    """Only the newest event of each asset; older ones are superseded.

    While as many runs are active as `max_active_runs` allows (1, if it is not given) events wait, and the newest starts
    when a run ends.
    """

    policy: Policy = "latest"

    def __repr__(self) -> str:
        return "Latest()"


class Window:
    """Events that come close together into one run.

    quiet:    the run is made when no event came for so long (a timedelta or seconds)
    max_wait: but at the latest so long after the first event
    max_size: and at once when so many events wait; a run takes no more

    Times are those at which events were recorded, by the database's clock. If the condition is not met in time, the
    events wait until it is.
    """

    policy: Policy = "window"

    def __init__(
        self,
        *,
        quiet: timedelta | float | None = None,
        max_wait: timedelta | float | None = None,
        max_size: int | None = None,
    ) -> None:
        where = here()
        self.quiet: float | None = convert("quiet", DURATION, quiet, owner="a Window", where=where)
        self.max_wait: float | None = convert("max_wait", DURATION, max_wait, owner="a Window", where=where)
        self.max_size: int | None = convert("max_size", SIZE, max_size, owner="a Window", where=where)
        if self.quiet is None and self.max_wait is None:
            message = f"{self!r} has no end: the last events would wait for ever"
            raise DagError(message, where=where, remedy="give quiet= or max_wait=")
        if self.quiet is not None and self.max_wait is not None and self.max_wait <= self.quiet:
            message = f"{self!r} never waits for quiet: max_wait is over before"
            raise DagError(message, where=where, remedy="make max_wait longer than quiet, or leave quiet out")

    def __repr__(self) -> str:
        given = {"quiet": self.quiet, "max_wait": self.max_wait, "max_size": self.max_size}
        return f"Window({', '.join(f'{name}={value:g}' for name, value in given.items() if value is not None)})"


ConsumeArg = Each | All | Latest | Window
POLICIES: tuple[type[Any], ...] = (Each, All, Latest, Window)
ALLOWED = "allowed: Each(), All(), Latest(), Window(quiet=…, max_wait=…, max_size=…)"
