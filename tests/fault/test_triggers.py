"""Triggers that misbehave, beside one that does not. All live in the guest of one triggerer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onceflow.model.times import from_rfc3339
from onceflow.queries.rows import Row
from support import eventually
from system import System
from watched import MODULE, TRIGGER, append, pipeline

BAD = """
    import asyncio
    import os
    import sys
    import threading
    import time

    from onceflow import BaseEventTrigger, TriggerEvent


    class Bad(BaseEventTrigger):
        def __init__(self, how):
            super().__init__()
            self.how = how

        def serialize(self):
            return "bad.Bad", {"how": self.how}

        async def run(self):
            if self.cursor is None:
                yield TriggerEvent(self.how, key=self.how, cursor=1)
            await asyncio.sleep(0.2)
            getattr(self, self.how)()
            await asyncio.sleep(600)

        def blocks(self):
            time.sleep(60)

        def raises(self):
            raise ConnectionError("no route to the source")

        def exits(self):
            os._exit(7)

        def quits(self):
            sys.exit("enough")

        def cancels(self):
            raise asyncio.CancelledError

        def mutters(self):
            class Odd(Exception):
                def __str__(self):
                    raise ValueError("a\\0")
            raise Odd

        def falls(self):
            class Base(BaseException):
                pass
            raise Base("off the tree")

        async def cleanup(self):
            if self.how == "falls":
                self.falls()

        def closes(self):
            os.closerange(3, 100)

        def stops(self):
            asyncio.get_running_loop().stop()

        def detonates(self):
            threading.Timer(0.3, os._exit, [9]).start()
"""

MENDED = """
    import asyncio

    from onceflow import BaseEventTrigger, TriggerEvent


    class Bad(BaseEventTrigger):
        def __init__(self, how):
            super().__init__()
            self.how = how

        def serialize(self):
            return "bad.Bad", {"how": self.how}

        async def run(self):
            yield TriggerEvent(self.how, key=f"{self.how} no more")
            while True:
                self.observed()
                await asyncio.sleep(0.05)
"""

DECLARED = """
    from onceflow import DAG, Asset, AssetWatcher, EmptyOperator
    from bad import Bad

    for how in {hows}:
        asset = Asset(how, watchers=[AssetWatcher(how, trigger=Bad(how))])
        with DAG("after_" + how, schedule=asset):
            EmptyOperator(task_id="nothing")
"""

ERRORS = {
    "blocks": ("BlockedLoop", "blocked the event loop"),
    "raises": ("ConnectionError", "no route to the source"),
    "exits": ("GuestEnded", "exit code 7"),
    "quits": ("SystemExit", "enough"),
}
ODD = {
    "cancels": ("CancelledError", "CancelledError"),
    "mutters": ("Odd", "its message cannot be shown"),
    "falls": ("Base", "off the tree"),
    "closes": ("GuestEnded", "ended its process"),
    "stops": ("GuestEnded", "exit code 1"),
    "detonates": ("GuestEnded", "exit code 9"),
}


async def test_bad_triggers_are_backed_off_and_harm_no_other(tmp_path: Path, database_url: str) -> None:
    """airflow #72376, #66412, #55317, kestra #17988: a failing watcher is seen to fail, and waits longer each time.

    The good watcher beside them tells each change once, though its changes have no key; once mended, the others do too.
    airflow #33089: their triggerer has much to do, renews its lease all the same, and is never declared dead.
    """
    lines = tmp_path / "lines"
    async with System(tmp_path, database_url, triggerers=1) as system:
        system.write(MODULE, TRIGGER)
        system.write("bad.py", BAD)
        await system.sound("good.py", pipeline("good", lines, keyed=False))
        append(lines, "0")
        await system.finished("good", 1)
        await system.sound("declared.py", DECLARED.format(hows=list(ERRORS)))

        told = 1
        while not await all_failed(system, ERRORS, times=3):
            append(lines, str(told))
            told += 1
            await system.finished("good", told)

        for how, (kind, message) in ERRORS.items():
            await check_backed_off(system, how, kind, message)
        listed = {w["watcher"]: w for w in await system.json("watchers")}
        assert (listed["good"]["strikes"], listed["good"]["last_error"], listed["good"]["term"]) == (0, None, 1)
        assert "in blocks" in listed["blocks"]["last_error"]["traceback"]

        system.write("bad.py", MENDED)
        await eventually(lambda: mended(system), every=0.2, why="the mended triggers work")
        for how in ERRORS:
            events = await system.events(how)
            assert [e["key"] for e in events] == [how, f"{how} no more"]
            assert len(await system.finished(f"after_{how}", 2)) == 2
        good = await system.events("good")
        assert [e["extra"]["line"] for e in good] == [str(n) for n in range(told)]
        assert [e["witnesses"] for e in good] == [1] * told
        assert [p["state"] for p in await system.processes("triggerer", state=None)] == ["running"]
        await system.verify()


async def test_triggers_that_bring_their_process_down_in_odd_ways(tmp_path: Path, database_url: str) -> None:
    """Also when nobody's code was running as it ended, the one who does it is found, and the others go on."""
    async with System(tmp_path, database_url, triggerers=1) as system:
        system.write(MODULE, TRIGGER)
        system.write("bad.py", BAD)
        for name in ("good", "better"):
            await system.sound(f"{name}.py", pipeline(name, tmp_path / name, keyed=False))
        await system.sound("declared.py", DECLARED.format(hows=list(ODD)))
        await eventually(lambda: all_failed(system, ODD, times=2), every=0.2, why="all are found")
        for name in ("good", "better"):
            append(tmp_path / name, "0")
            await system.finished(name, 1)
        watchers = {w["watcher"]: w for w in await system.watchers()}
        for how, (kind, message) in ODD.items():
            error = watchers[how]["last_error"]
            assert (error["type"], message in error["message"]) == (kind, True), error
        assert [watchers[name]["strikes"] for name in ("good", "better")] == [0, 0]
        await system.verify()


async def all_failed(system: System, hows: Iterable[str], *, times: int) -> bool:
    """Whether each bad watcher was given up that often."""
    watchers = {w["watcher"]: w for w in await system.watchers()}
    return all(how in watchers and watchers[how]["strikes"] >= times for how in hows)


async def check_backed_off(system: System, how: str, kind: str, message: str) -> None:
    """Wait until the watcher is backed off, and look at what is shown of it."""

    async def backed_off() -> Row | None:
        [watcher] = await system.watchers(how)
        return watcher if watcher["state"] == "backing off" else None

    seen: Any = await eventually(backed_off, every=0.05, why=f"{how} is backed off")
    pause = from_rfc3339(seen["next_try_at"]) - from_rfc3339(seen["last_error_at"])
    assert round(pause.total_seconds()) == 2 ** (seen["strikes"] - 1) >= 4
    assert seen["owner"] is None
    assert seen["last_error"]["type"] == kind
    assert message in seen["last_error"]["message"]


async def mended(system: System) -> bool:
    watchers = [w for w in await system.watchers() if w["watcher"] in ERRORS]
    told = {e["key"] for how in ERRORS for e in await system.events(how)}
    return {w["state"] for w in watchers} == {"watching"} and all(f"{how} no more" in told for how in ERRORS)
