"""One change on its whole way, as ARCHITECTURE.md tells it: each row that it leaves behind is looked at."""

from __future__ import annotations

from pathlib import Path

from git_remotes import Repo
from support import eventually
from system import System

PIPELINE = """
    from onceflow import DAG, Asset, AssetWatcher, task
    from onceflow.sources.git import GitHeadTrigger

    site = Asset("site", watchers=[AssetWatcher("head", trigger=GitHeadTrigger({path!r}, interval=0.2))])
    pages = Asset("pages")

    with DAG("build", schedule=site):
        @task
        def fetch(triggering_asset_events):
            [[event]] = triggering_asset_events.values()
            print(f"building {{event.extra['sha']}}")
            return event.extra["message"]

        @task(outlets=[pages])
        def render(message, outlet_events):
            outlet_events[pages].extra["title"] = message.strip()

        render(fetch())

    with DAG("publish", schedule=pages):
        @task
        def publish(triggering_asset_events):
            [[event]] = triggering_asset_events.values()
            return event.extra["title"]
        publish()
"""


async def test_a_commit_on_its_way_to_the_last_run(tmp_path: Path, database_url: str) -> None:
    """airflow #49571, #53053, #49345: a change is traced from commit over event, delivery, run and task to the next."""
    repo = Repo.make(tmp_path / "site.git")
    first = repo.commit("before anybody watched")
    async with System(tmp_path, database_url, schedulers=2, triggerers=2) as system:
        await declared(system, repo, first)
        sha = repo.commit("a new page")
        await system.finished("build", 1)
        await system.finished("publish", 1)

        event = await event_of_the_commit(system, sha)
        run = await run_of_the_event(system, event)
        await tasks_of_the_run(system, run, sha)
        made = await event_of_the_task(system, run)
        await run_of_the_outlet(system, made)
        await told_by_the_commands(system, event, run, made)


async def declared(system: System, repo: Repo, head: str) -> None:
    """Steps 1 and 2: the file is a version of two DAGs and a watcher, which one of the triggerers claims."""
    await system.sound("site.py", PIPELINE.format(path=str(repo.path)))
    build = await system.json("dags", "show", "build")
    assert (build["version"], build["file"], build["schedule_text"]) == (1, "site.py", "site (each)")
    assert [(t["task_id"], t["upstream"]) for t in build["tasks"]] == [("fetch", []), ("render", ["fetch"])]
    assert [s["asset"] for s in build["subscriptions"]] == ["site"]

    async def watching() -> bool:
        [watcher] = await system.json("watchers")
        return watcher["cursor"] == head

    await eventually(watching, every=0.2, why="the watcher has seen where it begins")
    [watcher] = await system.json("watchers")
    assert (watcher["asset"], watcher["watcher"], watcher["mode"], watcher["term"]) == ("site", "head", "single", 1)
    triggerers = {p["id"] for p in await system.json("processes", "--kind", "triggerer")}
    assert watcher["owner"] in triggerers and len(triggerers) == 2
    assert await system.events() == []


async def event_of_the_commit(system: System, sha: str) -> dict:
    """Step 3: the commit is an event, the cursor moved with it, the consumer has its delivery."""
    [event] = await system.json("events", "list", "--asset", "site")
    [watcher] = await system.json("watchers")
    assert (event["key"], event["witnesses"], event["seq"]) == (sha, 1, 1)
    assert (event["extra"]["sha"], event["extra"]["message"].strip()) == (sha, "a new page")
    assert event["source"] == {"kind": "watcher", "watcher": "head", "process": watcher["owner"], "term": 1}
    assert watcher["cursor"] == sha
    return event


async def run_of_the_event(system: System, event: dict) -> dict:
    """Step 4: the delivery started a run, which a scheduler made and whose decision is kept."""
    [run] = await system.json("runs", "list", "build")
    assert (run["run_type"], run["state"], run["events"]) == ("asset_triggered", "success", [event["id"]])
    assert run["created_by"]["process"] in {p["id"] for p in await system.json("processes", "--kind", "scheduler")}
    [delivery] = event["deliveries"]
    assert (delivery["dag_id"], delivery["disposition"], delivery["run_id"]) == ("build", "started", run["run_id"])
    [decision] = await system.sql(
        "select explanation->>'policy', run.start_event from run join decision on decision.id = run.decision_id "
        "where run.run_id = $1",
        run["run_id"],
    )
    assert tuple(decision) == ("each", event["id"])
    return run


async def tasks_of_the_run(system: System, run: dict, sha: str) -> None:
    """Steps 5 and 6: the tasks ran one after the other, each in one attempt of a worker, with a log of its own."""
    fetch, render = await system.json("tasks", "list", "build", run["run_id"])
    for task in (fetch, render):
        assert (task["state"], task["attempt"], task["outcome"], task["exit_code"]) == ("success", 1, "success", 0)
    assert run["started_at"] <= fetch["started_at"] <= fetch["finished_at"] <= render["queued_at"] <= run["finished_at"]
    workers = {p["id"] for p in await system.json("processes", "--kind", "worker")}
    assert {a["worker"] for a in await system.attempts("build", run["run_id"])} <= workers
    assert f"building {sha}" in (await system.cli("tasks", "logs", "build", run["run_id"], "fetch")).stdout


async def event_of_the_task(system: System, run: dict) -> dict:
    """Step 6: the outlet's event was committed with the success that caused it."""
    [made] = await system.json("events", "list", "--asset", "pages")
    assert made["extra"] == {"title": "a new page"}
    assert {k: made["source"][k] for k in ("kind", "dag_id", "run_id", "task_id", "attempt")} == {
        "kind": "task",
        "dag_id": "build",
        "run_id": run["run_id"],
        "task_id": "render",
        "attempt": 1,
    }
    [same] = await system.sql(
        "select a.xmin = e.xmin from attempt a join task t on t.id = a.task_id, event e "
        "where t.task_id = 'render' and e.id = $1",
        made["id"],
    )
    assert same[0], "one transaction wrote both"
    return made


async def run_of_the_outlet(system: System, made: dict) -> None:
    """Step 4 again, for the consumer of what the task made."""
    [publish] = await system.json("runs", "list", "publish")
    assert (publish["state"], publish["events"]) == ("success", [made["id"]])


async def told_by_the_commands(system: System, event: dict, run: dict, made: dict) -> None:
    """Step 7: what people ask is answered from what was stored."""
    why = await system.json("why", "run", "build", run["run_id"])
    assert [e["id"] for e in why["events"]] == [event["id"]]
    assert why["because"]
    traced = await system.json("why", "event", str(made["id"]))
    assert [d["dag_id"] for d in traced["deliveries"]] == ["publish"]
    text = (await system.cli("why", "run", "build", run["run_id"])).stdout
    assert event["key"] in text
    verified = await system.json("verify")
    assert (verified["ok"], verified["events"], verified["by_disposition"]) == (True, 2, {"started": 2})
