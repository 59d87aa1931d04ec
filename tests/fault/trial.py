"""A system whose processes die, freeze or are cut off at named points, and everything that makes them get there."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import httpx
from trial_dags import GIVEN, LATE, MOODS, MOODY

from onceflow.model.clock import boot_seconds
from support import eventually
from system import LEASE_SECONDS, System
from watched import MODULE, TRIGGER, append, pipeline

FROZEN_LEASES = 2.0
BURST = 3


class Trial:
    """A system whose processes listen to crash points, and what it was told so far."""

    def __init__(self, system: System, folder: Path, client: httpx.AsyncClient) -> None:
        self.system = system
        self.folder = folder
        self.client = client
        self.lines, self.rush = folder / "lines", folder / "rush"
        self.told = 0
        self.expected = Counter[str]()

    @staticmethod
    async def prepare(system: System, folder: Path) -> None:
        """Register what is there from the beginning."""
        system.write(MODULE, TRIGGER)
        system.write(MOODY, MOODS)
        await system.sound("given.py", GIVEN.format(lines=str(folder / "lines"), rush=str(folder / "rush")))

    async def endure(self, points: list[str], deed: str) -> None:
        """Arm the points, make changes, wait until each point was struck and each change has its run."""
        self.told += 1
        for point in points:
            (self.folder / point).write_text(deed)
        async with asyncio.TaskGroup() as group:
            for point in points:
                group.create_task(self.befall(point, deed))
            group.create_task(self.change())
            for special in {s for moment, s in self.specials().items() if any(p.startswith(moment) for p in points)}:
                group.create_task(special(points))
        for dag_id, number in self.expected.items():
            await self.system.finished(dag_id, number)
            states = await self.system.count_runs(dag_id)
            assert states == {"failed" if dag_id == "overdue" else "success": number}, (dag_id, states)

    def specials(self) -> dict[str, Callable[[Collection[str]], Awaitable[None]]]:
        """What has to happen beside the changes, so that a point that begins like this is reached."""
        return {
            "scheduler.rescue.after": self.lose_a_task,
            "scheduler.bury": self.silence_workers,
            "scheduler.prune": self.retire_schedulers,
            "scheduler.release": self.storm,
            "scheduler.expire": self.overrun,
            "triggerer.trip": self.overrate,
            "triggerer.fail": self.fail,
            "triggerer.pause": self.come_to_an_end,
            "triggerer.join": self.edit_moods,
            "dag-processor.fail": self.break_a_file,
            "dag-processor.remove": self.remove_a_file,
            "api-server.forget": self.ask_for_nothing,
            "role.": self.retire_schedulers,
        }

    async def change(self) -> None:
        """A change by every entrance: files and code, watchers' sources, a run by hand, an event, what people do."""
        number = self.told
        self.system.write("fed.py", pipeline("fed", self.lines) + f"\n    # edited: {number}\n")
        self.system.write(MODULE, TRIGGER.replace("Each line", f"Edited: {number}. Each line"))
        append(self.lines, str(number))
        await self.ask("POST", "/api/v2/dags/by_hand/dagRuns", {}, f"run {number}")
        await self.ask("POST", "/api/v2/assets/events", {"name": "posts", "key": str(number)}, f"event {number}")
        self.system.write(f"late_{number}.py", LATE.format(number=number))
        self.expected |= Counter(dict.fromkeys(("fed", "everywhere", "posted", "follows", "by_hand"), number))
        self.expected[f"late_{number}"] = number
        del self.expected[f"late_{number - 1}"]
        await self.intervene()
        self.expected["again"] = 3 * number  # started by an event, run again, replayed

    async def intervene(self) -> None:
        """All that people do, each time in another order, so that the first of it is another."""
        again = (await self.runs_made())[-1]
        people = [self.resume, self.rerun, self.replay, self.discard, self.release]
        first = self.told % len(people)
        for act in people[first:] + people[:first]:
            await act(again)

    async def runs_made(self) -> list[tuple[str, int]]:
        """The runs, of the DAG that people run again, that events started; each with its event."""

        async def made() -> list[tuple[str, int]]:
            rows = await self.system.sql(
                "select r.run_id, r.start_event from run r join dag d on d.id = r.dag_id "
                "where d.dag_id = 'again' and r.run_type = 'asset_triggered' order by r.id"
            )
            assert len(rows) == self.told, rows
            return [(row[0], row[1]) for row in rows]

        return await eventually(made, every=0.1, why="a run that can be run again")

    async def resume(self, _: tuple[str, int]) -> None:
        for paused in (True, False):
            await self.ask("PATCH", "/api/v2/dags/by_hand", {"is_paused": paused})

    async def rerun(self, again: tuple[str, int]) -> None:
        await self.ask("POST", f"/api/v2/dags/again/dagRuns/{again[0]}/rerun", {}, f"rerun {self.told}")

    async def replay(self, again: tuple[str, int]) -> None:
        await self.ask("POST", "/api/v2/dags/again/replay", {"events": [again[1]]}, f"replay {self.told}")

    async def discard(self, again: tuple[str, int]) -> None:
        await self.ask("POST", "/api/v2/dags/sleeps/deliveries/discard", {"events": [again[1]]})

    async def release(self, again: tuple[str, int]) -> None:
        await self.ask("POST", "/api/v2/dags/sleeps/deliveries/release", {"events": [again[1]]})

    # What happens only where it is needed ----------------------------------------------------------------------------

    async def ask_for_nothing(self, _: Collection[str]) -> None:
        """A request under a key that is refused."""
        await self.ask("POST", "/api/v2/dags/nowhere/dagRuns", {}, "refused", status=404)

    async def storm(self, points: Collection[str]) -> None:
        """More events than their consumer may have runs; given back slowly."""
        while self.armed(points, "scheduler.release"):
            for n in range(self.expected["bursts"], self.expected["bursts"] + BURST):
                await self.ask("POST", "/api/v2/assets/events", {"name": "bursts", "key": str(n)}, f"burst {n}")
            self.expected["bursts"] += BURST
            await eventually(self.released, every=0.5, why="what a storm held has its runs")

    async def released(self) -> bool:
        dag = await self.system.dag("bursts")
        if dag["storm_at"] is not None:
            await self.ask("POST", "/api/v2/dags/bursts/release", {"how": "slowly", "rate": 600})
        return sum((await self.system.count_runs("bursts")).values()) == self.expected["bursts"]

    async def overrun(self, points: Collection[str]) -> None:
        """A run that takes longer than it may; another one if whoever ended it died of something else."""
        while self.armed(points, "scheduler.expire"):
            self.expected["overdue"] += 1
            number = self.expected["overdue"]
            await self.ask("POST", "/api/v2/dags/overdue/dagRuns", {}, f"overdue {number}")
            await self.system.finished("overdue", number)

    async def overrate(self, points: Collection[str]) -> None:
        """A watcher that tells more than it may, until that was noticed; let go on until all is told."""

        async def told() -> bool:
            if self.armed(points, "triggerer.trip"):
                append(self.rush, *(str(n) for n in range(self.expected["rushed"], self.expected["rushed"] + 2)))
                self.expected["rushed"] += 2
            await self.ask("POST", "/api/v2/watchers/release", {"asset": "rush"})
            all_told = sum((await self.system.count_runs("rushed")).values()) == self.expected["rushed"]
            return all_told and not self.armed(points, "triggerer.trip")

        await eventually(told, every=0.5, why="a watcher that was stopped tells the rest")

    async def fail(self, points: Collection[str]) -> None:
        """A watcher's trigger raises."""
        await self.be_moody("fail", points)

    async def come_to_an_end(self, points: Collection[str]) -> None:
        """A watcher's trigger returns."""
        await self.be_moody("pause", points)

    async def be_moody(self, mood: str, points: Collection[str]) -> None:
        """Once and again, as what was not stored is not done again."""

        def over() -> bool:
            armed = self.armed(points, f"triggerer.{mood}")
            if armed:
                (self.folder / mood).touch()
            return not armed

        await eventually(over, every=0.2, why=f"{mood} is noticed")

    async def edit_moods(self, _: Collection[str]) -> None:
        """Triggers that every triggerer runs begin anew."""
        self.system.write(MOODY, MOODS.replace("Each line", f"Edited: {self.told}. Each line"))

    async def break_a_file(self, _: Collection[str]) -> None:
        self.system.write(f"broken_{self.told}.py", "from onceflow import DAG\nno Python")

    async def remove_a_file(self, _: Collection[str]) -> None:
        known = await self.system.register(f"removed_{self.told}.py", "from onceflow import DAG\n")
        (self.system.dags / known.path).unlink()

    async def retire_schedulers(self, points: Collection[str]) -> None:
        """Ask a scheduler to stop: it signs off, and another one takes its place and prunes what is old."""
        while self.armed(points, "scheduler.prune") or self.armed(points, "role."):
            await self.ask("POST", "/api/v2/assets/events", {"name": "old"})
            before = await eventually(lambda: self.system.processes("scheduler"), why="a scheduler")
            old = {p["id"] for p in before}
            try:
                os.kill(before[0]["pid"], signal.SIGTERM)
            except ProcessLookupError:
                continue  # it died of something else

            async def replaced(old: set[str] = old) -> bool:
                return any(p["ready"] and p["id"] not in old for p in await self.system.processes("scheduler"))

            await eventually(replaced, every=0.1, why="a new scheduler")

    async def silence_workers(self, points: Collection[str]) -> None:
        """Freeze one worker after the other until its lease is out and a scheduler has declared it dead."""
        while self.armed(points, "scheduler.bury"):
            await self.silence_a_worker()

    async def silence_a_worker(self) -> None:
        worker = (await eventually(lambda: self.system.processes("worker"), why="a worker"))[0]

        async def is_dead() -> bool:
            seen = await self.system.processes(state="dead")
            return any(p["id"] == worker["id"] for p in seen)

        self.system.freeze(worker["pid"])
        try:
            await eventually(is_dead, every=0.1, why="it is declared dead")
        finally:
            self.system.thaw(worker["pid"])

    async def lose_a_task(self, _: Collection[str]) -> None:
        """Kill the worker of an attempt under way."""

        async def lost() -> bool:
            rows = await self.system.sql(
                "select p.pid, t.id from task t join process p on p.id = t.owner where t.state = 'running' limit 1"
            )
            for pid, task in rows:
                try:
                    os.kill(pid, signal.SIGSTOP)  # so that it does not finish the task meanwhile
                    runs = await self.system.sql("select 1 from task where id = $1 and state = 'running'", task)
                    os.kill(pid, signal.SIGKILL if runs else signal.SIGCONT)
                except ProcessLookupError:
                    return True  # another deed was quicker
                return bool(runs)
            return False

        await eventually(lost, why="the worker of a running task is killed")

    # Striking, and being answered ------------------------------------------------------------------------------------

    async def befall(self, point: str, deed: str) -> None:
        """Wait until the point was struck; who was frozen goes on after its lease."""
        pid = await eventually(lambda: self.struck(point), every=0.05, why=f"{point} is struck")
        if deed == "freeze" and pid is not None:
            thaw_at = boot_seconds() + FROZEN_LEASES * LEASE_SECONDS
            await eventually(lambda: boot_seconds() > thaw_at, every=0.05, why="the lease is out")
            os.kill(pid, signal.SIGCONT)

    def struck(self, point: str) -> int | None:
        """The process that got there, or None."""
        found = [int(p.suffix[1:]) for p in self.folder.glob(f"{point}.struck.*")]
        if found:
            (self.folder / f"{point}.struck.{found[0]}").unlink()
        return found[0] if found else None

    def armed(self, points: Collection[str], moment: str) -> list[str]:
        """Those of the points, of one moment, that nobody got to yet."""
        return [p for p in points if p.startswith(moment) and (self.folder / p).exists()]

    async def ask(self, method: str, path: str, body: dict[str, object], key: str = "", status: int = 200) -> None:
        """A request, sent again until it is answered; with a key it is done once."""

        async def answered() -> bool:
            try:
                answer = await self.client.request(
                    method, path, json=body, headers={"Idempotency-Key": key} if key else {}
                )
            except httpx.HTTPError as error:
                raise AssertionError(repr(error)) from error
            assert answer.status_code == status, answer.text
            return True

        await eventually(answered, every=0.1, why=f"{path} answers")
