"""From the command to `ready`, and to the first run's row and end; in a new home and in one that was used before."""

from __future__ import annotations

from benchmarks.dagfiles import head
from benchmarks.figures import Figure
from benchmarks.system import Setup, running

ONCE = """
with DAG("{dag_id}", schedule="@once"):
    work()
"""
RUN = """
select extract(epoch from r.created_at)::float8 as created, extract(epoch from r.finished_at)::float8 as finished
from run r join dag d on d.id = r.dag_id where d.dag_id = $1
"""


async def measure(setup: Setup) -> list[Figure]:
    home, figures = setup.folder / "startup", []
    for which in ("first", "second"):
        files = {f"{which}.py": head(home) + ONCE.format(dag_id=which)}
        async with running(home, files) as system:
            await system.wait_for_runs(which, 1)
            row = await system.sql.fetchrow(RUN, which)
            times = {
                "ready": system.ready,
                "first run created": row["created"],
                "first run done": row["finished"],
            }
            figures += [
                Figure(f"startup.{what}, {which} start", (at - system.spawned) * 1000, "ms")
                for what, at in times.items()
            ]
    return figures
