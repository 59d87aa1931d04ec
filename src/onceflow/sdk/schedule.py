"""What `schedule=` may be, and how it becomes a schedule of the model."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta, tzinfo
from typing import Any

from onceflow.model.asset_expr import simplify
from onceflow.model.consume import check_policy, default_policy
from onceflow.model.dagspec import AssetSchedule, Schedule
from onceflow.model.errors import DagError
from onceflow.model.event_filter import Filter, to_text
from onceflow.model.timetable import ALLOWED, check_interval, parse_schedule_text
from onceflow.sdk.asset import AssetAll, AssetExpression
from onceflow.sdk.consume import ALLOWED as POLICIES_ALLOWED
from onceflow.sdk.consume import POLICIES, Window
from onceflow.sdk.where import here


class CronTriggerTimetable:
    """Cron in a named time zone: `CronTriggerTimetable("0 6 * * *", timezone="Europe/Berlin")`."""

    def __init__(self, cron: str, *, timezone: str | tzinfo, interval: Any = None, run_immediately: Any = None) -> None:
        self.expression = cron
        self.timezone = timezone
        self.where = here()


class CronDataIntervalTimetable(CronTriggerTimetable):
    """The same as CronTriggerTimetable: runs start at their slot."""

    def __init__(self, cron: str, timezone: str | tzinfo) -> None:
        super().__init__(cron, timezone=timezone)


class DeltaTriggerTimetable:
    """A run every so often: `DeltaTriggerTimetable(timedelta(hours=6))`."""

    def __init__(self, delta: timedelta, *, interval: Any = None) -> None:
        self.delta = delta
        self.where = here()


class DeltaDataIntervalTimetable(DeltaTriggerTimetable):
    """The same as DeltaTriggerTimetable: runs start at their slot."""


Timetable = CronTriggerTimetable | DeltaTriggerTimetable
ScheduleArg = str | timedelta | Timetable | AssetExpression | Collection[AssetExpression] | None


def build(schedule: Any, consume: Any, start_date: datetime | None, *, owner: str, where: str) -> Schedule:
    """The model's schedule for what an author wrote. Raises DagError naming what is allowed."""
    if isinstance(schedule, (list, tuple, set, frozenset)):
        schedule = _all_of(schedule, owner, where)
    if isinstance(schedule, AssetExpression):
        return _of_assets(schedule, consume, owner, where)
    if consume is not None:
        remedy = "leave consume out, or schedule on assets"
        raise DagError(f"{owner} has consume={consume!r} but no assets in its schedule", where=where, remedy=remedy)
    if schedule is None or isinstance(schedule, str):
        if isinstance(schedule, str) and schedule.strip() in ("None", "@none", ""):
            schedule = None
        return parse_schedule_text(schedule, _cron_zone(schedule, start_date, where), where)
    for kind, convert in _CONVERSIONS.items():
        if isinstance(schedule, kind):
            return convert(schedule, where)
    raise DagError(f"unknown schedule {schedule!r} of {owner}", where=where, remedy=ALLOWED)


def zone_name(zone: Any, where: str) -> str:
    """The IANA name of a time zone given as text or as an object."""
    if isinstance(zone, str):
        return zone
    name = getattr(zone, "key", None) or getattr(zone, "name", None)
    if isinstance(name, str):
        return name
    if isinstance(zone, tzinfo) and not zone.utcoffset(None):
        return "UTC"
    remedy = "use a named zone, such as zoneinfo.ZoneInfo('Europe/Berlin')"
    raise DagError(f"a cron schedule needs a named time zone, not {zone!r}", where=where, remedy=remedy)


def _cron_zone(schedule: str | None, start_date: Any, where: str) -> str:
    zone = getattr(start_date, "tzinfo", None)
    if zone is None or schedule is None or schedule.strip() in ("@once", "@continuous"):
        return "UTC"
    return zone_name(zone, where)


def _all_of(schedule: Collection[Any], owner: str, where: str) -> AssetExpression:
    """A list of assets means all of them, as in Airflow."""
    wrong = [item for item in schedule if not isinstance(item, AssetExpression)]
    if wrong or not schedule:
        remedy = "a list as schedule holds assets: schedule=[Asset(...), ...] means all of them"
        raise DagError(f"unknown schedule {schedule!r} of {owner}", where=where, remedy=remedy)
    return AssetAll(*(sorted(schedule, key=str) if isinstance(schedule, (set, frozenset)) else schedule))


def _of_assets(schedule: AssetExpression, consume: Any, owner: str, where: str) -> AssetSchedule:
    condition = simplify(schedule.condition(), where)
    filters = _filters(schedule, owner, where)
    if isinstance(consume, type) and issubclass(consume, POLICIES) and consume is not Window:
        consume = consume()
    if consume is not None and not isinstance(consume, POLICIES):
        raise DagError(f"consume of {owner} is {consume!r}", where=where, remedy=POLICIES_ALLOWED)
    policy = default_policy(condition) if consume is None else consume.policy
    if isinstance(consume, Window):
        check_policy(condition, policy, where, max_size=consume.max_size)
        return AssetSchedule(condition, policy, consume.quiet, consume.max_wait, consume.max_size, filters)
    return AssetSchedule(condition, check_policy(condition, policy, where), filters=filters)


def _filters(schedule: AssetExpression, owner: str, where: str) -> dict[str, Filter]:
    """The filters by asset. One asset has one in a schedule: an event is wanted or not, whatever part asks."""
    found: dict[str, Filter | None] = {}
    for asset, wanted in schedule.filters():
        other = found.setdefault(asset, wanted)
        if other != wanted:
            texts = " and ".join(f"`{to_text(f)}`" if f else "no filter" for f in (other, wanted))
            raise DagError(
                f"the schedule of {owner} names asset {asset!r} twice, with {texts}",
                where=where,
                remedy="say in one filter what is wanted of an asset, joined by & and |, and use that everywhere",
            )
    return {asset: wanted for asset, wanted in found.items() if wanted is not None}


def _of_timedelta(schedule: Any, where: str) -> Schedule:
    return check_interval(schedule.total_seconds(), where)


def _of_cron(schedule: Any, where: str) -> Schedule:
    return parse_schedule_text(schedule.expression, zone_name(schedule.timezone, schedule.where), schedule.where)


def _of_delta(schedule: Any, where: str) -> Schedule:
    return check_interval(schedule.delta.total_seconds(), schedule.where)


_CONVERSIONS: dict[type[Any], Callable[[Any, str], Schedule]] = {
    timedelta: _of_timedelta,
    CronTriggerTimetable: _of_cron,
    DeltaTriggerTimetable: _of_delta,
}
