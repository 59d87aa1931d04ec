"""The DAG folder of a trial: by each way in and for each kind of transaction something that happens."""

from __future__ import annotations

MOODY = "moods.py"

MOODS = '''
    import asyncio
    from pathlib import Path

    from onceflow import BaseEventTrigger, TriggerEvent


    class Moody(BaseEventTrigger):
        """Fails once when there is a file `fail` beside its lines, comes to its end when there is a file `pause`."""

        def __init__(self, path):
            super().__init__()
            self.path = path

        def serialize(self):
            return "moods.Moody", {"path": self.path}

        async def run(self):
            while True:
                for mood in ("fail", "pause"):
                    path = Path(self.path).with_name(mood)
                    if path.exists():
                        path.unlink()
                        if mood == "pause":
                            return
                        raise RuntimeError("told to fail")
                self.observed()
                await asyncio.sleep(0.05)
                if self.cursor == "never":
                    yield TriggerEvent({})


    class Everywhere(BaseEventTrigger):
        """Each line of a file is a change, told by every triggerer and from the beginning."""

        has_cursor = False
        has_key = True

        def __init__(self, path):
            super().__init__()
            self.path = path

        def serialize(self):
            return "moods.Everywhere", {"path": self.path}

        async def run(self):
            told = 0
            while True:
                path = Path(self.path)
                for line in (path.read_text().splitlines() if path.exists() else [])[told:]:
                    told += 1
                    yield TriggerEvent({}, key=line)
                self.observed()
                await asyncio.sleep(0.05)
'''

GIVEN = """
    import time
    from datetime import timedelta

    from onceflow import DAG, Asset, AssetWatcher, task
    from lines import Lines
    from moods import Everywhere, Moody

    moody = Asset("moody", watchers=[AssetWatcher("moody", Moody({lines!r}), canary=1)])
    told = Asset("told", watchers=[AssetWatcher("all", Everywhere({lines!r}), mode="all")])
    rush = Asset("rush", watchers=[AssetWatcher("rush", Lines({rush!r}), max_events_per_minute=1)])
    old = Asset("old", retention=timedelta(milliseconds=1))

    with DAG("posted", schedule=Asset("posts"), max_active_runs=100):
        @task(outlets=[Asset("made")])
        def work(): ...
        work()

    with DAG("follows", schedule=Asset("made"), max_active_runs=100):
        pass

    with DAG("by_hand", max_active_runs=100):
        @task
        def work(ti):
            ti.xcom_push("n", 1)
            time.sleep(0.5)
        work()

    with DAG("again", schedule=Asset("posts"), max_active_runs=100):
        pass

    with DAG("sleeps", schedule=Asset("posts"), is_paused_upon_creation=True):
        pass

    with DAG("ticks", schedule=timedelta(seconds=1), catchup=True, max_active_runs=100):
        pass

    with DAG("always", schedule="@continuous", max_active_runs=1):
        @task
        def work():
            time.sleep(0.5)
        work()

    with DAG("everywhere", schedule=told, max_active_runs=100):
        pass

    with DAG("rushed", schedule=rush, max_active_runs=100):
        pass

    with DAG("bursts", schedule=Asset("bursts"), max_runs_per_minute=1, max_active_runs=100):
        pass

    with DAG("overdue", dagrun_timeout=timedelta(seconds=0.5), max_active_runs=100):
        @task
        def work():
            time.sleep(60)
        work()
"""

LATE = """
    from onceflow import DAG, Asset

    with DAG("late_{number}", schedule=Asset("posts"), catchup=True, max_active_runs=100):
        pass
"""
