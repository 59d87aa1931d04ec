"""How fast events are taken in, without anybody who works on them: by the store directly, and over HTTP."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.dagfiles import ASSET, consumer
from benchmarks.emitter import Emitter
from benchmarks.figures import Figure, spread
from benchmarks.poster import Poster
from benchmarks.system import Setup, System, emitting

OTHERS = 8
OFF = ("--triggerers", "0", "--workers", "0")


async def measure(setup: Setup) -> list[Figure]:
    home, seconds = setup.folder / "ingest", max(0.5, 3 * setup.scale)
    files = {"consumer.py": consumer(home)}
    files |= {f"other_{n}.py": consumer(home, f"other_{n}", f"other_{n}") for n in range(OTHERS)}
    async with emitting(home, files, *OFF, schedulers=0) as (system, emitter):
        await system.wait_for_dags("consumer", *(f"other_{n}" for n in range(OTHERS)))
        figures = [
            Figure("ingest.single events", await _rate(emitter, [ASSET], 1, seconds), "events/s", "1 client"),
            Figure("ingest.single events", await _rate(emitter, [ASSET] * 8, 1, seconds), "events/s", "8 clients"),
            Figure(
                "ingest.single events",
                await _rate(emitter, [f"other_{n}" for n in range(8)], 1, seconds),
                "events/s",
                "8 clients, 8 assets",
            ),
            Figure("ingest.batches", await _rate(emitter, [ASSET], 100, seconds), "events/s", "100 per transaction"),
        ]
        times = await asyncio.to_thread(Poster(system.home, system.address).post_many, setup.count(200, 20))
        figures += spread("ingest.post", times, "one after the other")
        figures.append(Figure("ingest.posts", await _post_rate(system, seconds), "events/s", "8 clients"))
    return figures


async def _rate(emitter: Emitter, assets: list[str], batch: int, seconds: float) -> float:
    """Events per second of as many clients in one process as there are assets."""

    async def client(asset: str) -> int:
        stored = 0
        while time.monotonic() < until:
            stored += len((await emitter.emit(asset, batch))[0])
        return stored

    began = time.monotonic()
    until = began + seconds
    stored = await asyncio.gather(*(client(a) for a in assets))
    return sum(stored) / (time.monotonic() - began)


async def _post_rate(system: System, seconds: float) -> float:
    began = time.monotonic()
    posters = [Poster(system.home, system.address) for _ in range(8)]
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(posters)) as threads:
        times = await asyncio.gather(*(loop.run_in_executor(threads, p.post_for, seconds) for p in posters))
    return sum(len(t) for t in times) / (time.monotonic() - began)
