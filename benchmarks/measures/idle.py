"""What a system costs that has nothing to do: memory fresh and after load, CPU time."""

from __future__ import annotations

import asyncio
import time

from benchmarks.dagfiles import ASSET, consumer, polling
from benchmarks.figures import Figure
from benchmarks.processes import memory, spent, total
from benchmarks.system import Setup, System, emitting

SETTLE_SECONDS = 20.0
LOAD = 1000


async def measure(setup: Setup) -> list[Figure]:
    home = setup.folder / "idle"
    async with emitting(home, {"consumer.py": consumer(home)}) as (system, emitter):
        await system.wait_for_dags("consumer")
        await asyncio.sleep(SETTLE_SECONDS)
        fresh, cpu = memory(system.pid), await cpu_share(setup, system, "idle")
        load = setup.count(LOAD)
        await emitter.emit(ASSET, load)
        await system.wait_for_runs("consumer", load, every=0.1)
        await asyncio.sleep(SETTLE_SECONDS)
        loaded, cpu_after = memory(system.pid), await cpu_share(setup, system, "idle after load")
    return [
        *_memory(setup, "fresh", fresh),
        *_memory(setup, "after load", loaded),
        Figure("idle.cpu", cpu, "%", "2 schedulers, 2 triggerers"),
        Figure("idle.cpu", cpu_after, "%", f"the same, after {load} runs"),
        *await _watching(setup),
    ]


async def _watching(setup: Setup) -> list[Figure]:
    """The same with a watcher for each triggerer, so that both have a guest."""
    home = setup.folder / "watching"
    (home / "watched").mkdir(parents=True)
    for number in range(2):
        (home / "watched" / str(number)).touch()
    async with emitting(home, {"watchers.py": polling(home, 2, 5.0)}) as (system, _):
        await system.wait_for_dags("consumer")
        await asyncio.sleep(SETTLE_SECONDS)
        held, cpu = memory(system.pid), await cpu_share(setup, system, "idle with two watchers")
    return [
        *_memory(setup, "with two watchers", held),
        Figure("idle.cpu with two watchers", cpu, "%", "2 schedulers, 2 triggerers"),
    ]


async def cpu_share(setup: Setup, system: System, what: str) -> float:
    """CPU time of the whole system, PostgreSQL included, while nothing happens: percent of one core."""
    before, began = await system.cpu(), time.monotonic()
    await asyncio.sleep(setup.count(30, 10))
    seconds = time.monotonic() - began
    used = spent(before, await system.cpu())
    shares = ", ".join(f"{name} {c.total / seconds * 100:.2f}" for name, c in used.items() if c.total)
    setup.note(f"{what}, CPU in percent of a core: {shares}")
    return total(used) / seconds * 100


def _memory(setup: Setup, when: str, found: dict[str, float]) -> list[Figure]:
    parts = ", ".join(f"{kind} {size:.0f}" for kind, size in sorted(found.items(), key=lambda i: -i[1]))
    setup.note(f"memory {when}, MiB: {parts}")
    postgres = found.pop("postgres", 0.0)
    variant = "2 schedulers, 2 triggerers"
    return [
        Figure(f"idle.memory {when}", sum(found.values()), "MiB", variant),
        Figure(f"idle.memory of PostgreSQL {when}", postgres, "MiB", variant),
    ]
