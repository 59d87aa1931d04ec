"""A real git repository, watched by several triggerers of which one after the other is killed or frozen."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_remotes import Repo
from onceflow.queries.rows import Row
from support import eventually
from system import System

COMMITS = 50
STEP = 10

PIPELINE = """
    from onceflow import DAG, Asset, AssetWatcher, task
    from onceflow.sources.git import GitHeadTrigger

    site = Asset("site", watchers=[AssetWatcher("head", trigger=GitHeadTrigger({path!r}, start="root", interval=0.2))])

    with DAG("deploy", schedule=site):
        @task
        def deploy(triggering_asset_events):
            [[event]] = triggering_asset_events.values()
            return event.extra["sha"]
        deploy()
"""


@pytest.mark.parametrize("triggerers", [2, 4])
async def test_each_commit_starts_one_run_whoever_dies(tmp_path: Path, database_url: str, triggerers: int) -> None:
    """Duplicate runs with AssetWatcher on N triggerers (airflow discussion, #65792; argo-events #1516; oban-py #32).

    The owner is killed twice and frozen once, for longer than its lease, while 50 commits come.
    """
    repo = Repo.make(tmp_path / "site.git")
    async with System(tmp_path, database_url, schedulers=2, triggerers=triggerers) as system:
        await system.sound("site.py", PIPELINE.format(path=str(repo.path)))
        await commit_and_see(system, repo, STEP)
        owners = [await system.owner("site")]

        for _ in range(2):
            system.kill(owners[-1]["pid"])
            await commit_and_see(system, repo, STEP)
            owners.append(await other_owner(system, owners))

        system.freeze(owners[-1]["pid"])
        await commit_and_see(system, repo, STEP)
        owners.append(await other_owner(system, owners))
        frozen = owners[-2]
        system.thaw(frozen["pid"])
        await commit_and_see(system, repo, STEP)
        await eventually(lambda: dead(system, frozen), why="the frozen one, awake again, has ended")

        events = await system.events("site")
        runs = await system.finished("deploy", COMMITS)
        assert [e["key"] for e in events] == repo.shas
        assert sorted(r["events"] for r in runs) == [[e["id"]] for e in events]
        assert len({o["id"] for o in owners}) == 4
        terms = {e["source"]["term"] for e in events}
        assert len(terms) >= 4 and [e["source"]["term"] for e in events] == sorted(e["source"]["term"] for e in events)
        [watcher] = await system.json("watchers")
        assert (watcher["asset"], watcher["watcher"], watcher["cursor"]) == ("site", "head", repo.shas[-1])
        values = await system.sql("select value::text from xcom")
        assert sorted(v[0].strip('"') for v in values) == sorted(repo.shas)
        assert (await system.json("verify"))["by_disposition"] == {"started": COMMITS}


async def commit_and_see(system: System, repo: Repo, count: int) -> None:
    """Make commits, and wait until each is an event."""
    for _ in range(count):
        repo.commit(f"change {len(repo.shas) + 1}")

    async def seen() -> bool:
        return len(await system.events("site")) >= len(repo.shas)

    await eventually(seen, every=0.1, why=f"{len(repo.shas)} commits are events")


async def other_owner(system: System, before: list[Row]) -> Row:
    """The owner that follows those."""

    async def changed() -> Row | None:
        owner = await system.owner("site")
        return owner if owner["id"] not in {o["id"] for o in before} else None

    found = await eventually(changed, every=0.1, why="another triggerer owns the watcher")
    assert found is not None
    return found


async def dead(system: System, process: Row) -> bool:
    return process["id"] not in {p["id"] for p in await system.processes("triggerer")}
