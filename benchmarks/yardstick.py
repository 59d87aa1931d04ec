"""What is to be reached, and what Apache Airflow needs on the same kind of machine (2 cores, 24 GiB, fsync on).

Figures are known by `<measure>.<what>`. A limit holds for every variant of a figure (one scheduler, two schedulers).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """What a figure has to reach: at most `value`, or at least `value` if `more` is better."""

    value: float
    more: bool = False

    def holds(self, value: float) -> bool:
        return value >= self.value if self.more else value <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.more else '≤'} {self.value:g}"


@dataclass(frozen=True)
class Airflow:
    """Airflow 3.3.2, PostgreSQL 15, LocalExecutor, Python 3.12; medians, repeats differ by up to ±25 %.

    a: defaults, 1 scheduler and 1 triggerer; b: defaults, 2 and 2; t: tuned (idle sleep 0.1 s, large batches, best of 8
    or 32 workers). `more`: whether more is better.
    """

    a: float | None = None
    b: float | None = None
    t: float | None = None
    more: bool = False

    @property
    def best(self) -> float:
        known = [v for v in (self.a, self.b, self.t) if v is not None]
        return max(known) if self.more else min(known)

    def ratio(self, ours: float) -> float | None:
        """How many times better ours is than the best of theirs; below 1 it is worse."""
        if not ours or not self.best:
            return None
        return ours / self.best if self.more else self.best / ours


LIMITS = {
    "idle.memory fresh": Limit(300),
    "idle.memory after load": Limit(300),
    "idle.cpu": Limit(3),
    "latency.event → user code p50": Limit(20),
    "latency.event → user code p99": Limit(60),
    "burst.runs": Limit(300, more=True),
    "chain.per task": Limit(15),
    "parallel.tasks": Limit(300, more=True),
    "many_watchers.memory of each": Limit(10),
    "consume.50,000 pending events in one run": Limit(1),
    "consume.scheduler's memory for it": Limit(50),
    "imports.import onceflow": Limit(80),
    "imports.names of a DAG file": Limit(80),
    "verify.seconds": Limit(30),
    "promise.cost": Limit(20),
}

AIRFLOW = {
    "startup.first run created, first start": Airflow(a=17_600),
    "startup.first run done, first start": Airflow(a=21_700),
    "idle.memory fresh": Airflow(926, 1_245, 777),
    "idle.memory after load": Airflow(1_720, 2_980, 1_078),
    "idle.cpu": Airflow(8, 11, 12),
    "latency.event → run row p50": Airflow(580, 340, 80),
    "latency.event → run row p95": Airflow(940, 880, 120),
    "latency.event → run row p99": Airflow(990, 910, 120),
    "latency.event → user code p50": Airflow(830, 650, 240),
    "latency.event → user code p95": Airflow(1_230, 1_150, 320),
    "latency.event → user code p99": Airflow(1_310, 1_180, 330),
    "latency.event → run done p50": Airflow(1_610, 1_160, 270),
    "latency.event → run done p95": Airflow(2_060, 1_950, 380),
    "latency.event → run done p99": Airflow(2_100, 1_980, 530),
    "outlet.outlet → user code p50": Airflow(1_080),
    "outlet.outlet → user code p95": Airflow(1_260),
    "outlet.outlet → user code p99": Airflow(1_590),
    "burst.runs": Airflow(a=8.6, t=8.1, more=True),
    "chain.per task": Airflow(a=1_100, t=225),
    "parallel.tasks": Airflow(a=6.4, t=11.0, more=True),
    "files.500 files live": Airflow(a=53),
    "files.idle cpu with 500 files": Airflow(a=171),
    "watchers.cpu": Airflow(a=3.6),
    "watchers.cpu with PollTrigger": Airflow(a=3.6),
    "watchers.memory of the triggerer": Airflow(a=243),
    "watchers.change → event row p50": Airflow(a=1_000),
    "watchers.change → event row p95": Airflow(a=1_660),
    "watchers.all change, until all runs are done": Airflow(a=133),
    "takeover.killed": Airflow(a=28_000),
    "takeover.frozen": Airflow(a=27_000),
    "ingest.post p50": Airflow(a=14),
}
