"""When a timed DAG runs. A slot is an instant (UTC) at which one run is due; that run's logical date is its slot.

    once         one slot
    continuous   the next run follows the end of the one before, so only the first slot is known ahead
    cron         in the DAG's time zone; in a night of clock change as Debian's cron does (see cronsim): a job at a
                 fixed time runs once, right after the gap if its time was left out; a repeating one runs in both passes
                 (Known weakness: where the clock changes by half an hour, on Lord Howe Island, a schedule that steps by
                 several hours loses one slot on that day.)
    interval     anchor, anchor + step, anchor + 2 steps, ..., counted in whole microseconds, so it never drifts

Runs start at their slot, not a period later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from onceflow.model.dagspec import (
    ContinuousSchedule,
    CronSchedule,
    IntervalSchedule,
    NoSchedule,
    OnceSchedule,
    Schedule,
)
from onceflow.model.errors import DagError

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
ALLOWED = (
    f"allowed: None, @once, @continuous, {', '.join(PRESETS)}, "
    "a cron expression of 5 fields (minute hour day month weekday) or 6 (seconds last), a timedelta, assets"
)
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Due:
    """The slots to run now, oldest first, and the next one after them that is not done (None: there is none)."""

    slots: tuple[datetime, ...]
    next_at: datetime | None


def parse_schedule_text(text: str | None, timezone: str = "UTC", where: str = "") -> Schedule:
    """The schedule that a text stands for. Raises DagError with what is allowed, for the text or the time zone."""
    if text is None:
        return NoSchedule()
    text = " ".join(text.split())
    if text == "@once":
        return OnceSchedule()
    if text == "@continuous":
        return ContinuousSchedule()
    schedule = CronSchedule(PRESETS.get(text, text), timezone)
    _check_cron(schedule, text, where)
    return schedule


def check_interval(seconds: float, where: str = "") -> IntervalSchedule:
    """The schedule of a run every so many seconds. Raises DagError unless that is a microsecond or more."""
    schedule = IntervalSchedule(seconds)
    if _step(schedule) < TICK:
        raise DagError(f"an interval of {seconds} s", where=where, remedy="an interval must be longer than 0")
    return schedule


def anchor_for(start_date: datetime | None, created_at: datetime) -> datetime:
    """Where interval slots hang, to be stored with the DAG when it is first seen."""
    return start_date or created_at


def first_slot(
    schedule: Schedule, *, start_date: datetime | None, created_at: datetime, catchup: bool
) -> datetime | None:
    """The first slot of a DAG that was first seen at `created_at`; None if it has no slots.

    With catch-up it is the first one from `start_date` on. Without, it is the newest one already past, if there is a
    `start_date` and it lies before that; else the next one to come.
    """
    anchor = anchor_for(start_date, created_at)
    if isinstance(schedule, (OnceSchedule, ContinuousSchedule)):
        return anchor
    if start_date is None:
        return next_slot(schedule, created_at, anchor=anchor)
    if not catchup and start_date <= created_at:
        last = latest_slot(schedule, created_at, anchor=anchor)
        if last is not None and last >= start_date:
            return last
        return next_slot(schedule, created_at, anchor=anchor)
    return next_slot(schedule, start_date - TICK, anchor=anchor)


def next_slot(schedule: Schedule, after: datetime, *, anchor: datetime) -> datetime | None:
    """The first slot strictly after an instant; None if there is none.

    For a continuous schedule every instant is a slot: ask with the end of the last run.
    """
    try:
        if isinstance(schedule, CronSchedule):
            return next(_cron_slots(schedule, after), None)
        if isinstance(schedule, IntervalSchedule):
            step = _step(schedule)
            return anchor + step * max(0, (after - anchor) // step + 1)
        if isinstance(schedule, ContinuousSchedule):
            return after + TICK
        return anchor if isinstance(schedule, OnceSchedule) and after < anchor else None
    except OverflowError:  # after the year 9999
        return None


def latest_slot(schedule: Schedule, at: datetime, *, anchor: datetime) -> datetime | None:
    """The last slot at or before an instant; None if there is none. Costs the same however many there were."""
    if isinstance(schedule, CronSchedule):
        return _latest_cron_slot(schedule, at)
    if isinstance(schedule, IntervalSchedule) and at >= anchor:
        step = _step(schedule)
        return anchor + step * ((at - anchor) // step)
    if isinstance(schedule, ContinuousSchedule):
        return at
    return anchor if isinstance(schedule, OnceSchedule) and at >= anchor else None


def due(
    schedule: Schedule,
    *,
    next_at: datetime,
    now: datetime,
    anchor: datetime,
    catchup: bool,
    end_date: datetime | None,
    limit: int = 100,
) -> Due:
    """What is to run now, given the first slot not yet done.

    With catch-up: every slot up to `now`, at most `limit` of them; then `next_at` may still be in the past. Without:
    only the newest. No slot after `end_date`, ever. A continuous schedule gives its one slot and no next: the end of
    the run decides that (`next_slot`).
    """
    until = now if end_date is None else min(now, end_date)
    if next_at > until:
        return Due((), None if end_date is not None and next_at > end_date else next_at)
    if isinstance(schedule, (OnceSchedule, ContinuousSchedule)):
        return Due((next_at,), None)
    slots = [next_at]
    if not catchup:
        slots = [max(next_at, latest_slot(schedule, until, anchor=anchor) or next_at)]
    following = next_slot(schedule, slots[-1], anchor=anchor)
    while catchup and following is not None and following <= until and len(slots) < limit:
        slots.append(following)
        following = next_slot(schedule, following, anchor=anchor)
    if following is not None and end_date is not None and following > end_date:
        following = None
    return Due(tuple(slots), following)


def _step(schedule: IntervalSchedule) -> timedelta:
    return timedelta(microseconds=round(schedule.seconds * 1_000_000))


def _check_cron(schedule: CronSchedule, text: str, where: str) -> None:
    try:
        _zone(schedule.timezone)
    except (KeyError, ValueError, OSError) as error:
        message = f"unknown time zone {schedule.timezone!r}"
        raise DagError(message, where=where, remedy="give an IANA name, such as UTC or Europe/Berlin") from error
    try:
        first = next(_cron_slots(schedule, datetime(2024, 1, 1, tzinfo=UTC)), None)
    except ValueError as error:
        raise DagError(f"unknown schedule {text!r}: {error}", where=where, remedy=ALLOWED) from error
    if first is None:
        raise DagError(f"schedule {text!r} never comes", where=where, remedy="name a day that its month has")


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    return UTC if name == "UTC" else ZoneInfo(name)


def _cron(schedule: CronSchedule, start: datetime, reverse: bool = False) -> Iterator[datetime]:
    """cronsim on an expression as Airflow reads it: a sixth field is the seconds, and cronsim wants those first.

    Raises ValueError on an expression that cronsim does not know.
    """
    from cronsim import CronSim, CronSimError

    parts = schedule.expression.split()
    if len(parts) == 6:
        parts = [parts[5], *parts[:5]]
    try:
        return CronSim(" ".join(parts), start.astimezone(_zone(schedule.timezone)), reverse)
    except CronSimError as error:
        raise ValueError(str(error)) from error


def _cron_slots(schedule: CronSchedule, after: datetime) -> Iterator[datetime]:
    """Slots strictly after an instant, rising. In a repeated hour cronsim may name an earlier one first: dropped."""
    last = after
    for local in _cron(schedule, after):
        slot = local.astimezone(UTC)
        if slot > last:
            last = slot
            yield slot


def _latest_cron_slot(schedule: CronSchedule, at: datetime) -> datetime | None:
    """Look back, then walk forward from there: in a night of clock change only the way forward is exact."""
    for local in _cron(schedule, at + timedelta(seconds=1), reverse=True):
        found: datetime | None = None
        for slot in _cron_slots(schedule, local.astimezone(UTC) - TICK):
            if slot > at:
                break
            found = slot
        if found is not None:
            return found
    return None
