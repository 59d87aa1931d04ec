"""Runs once for each new commit of a git repository: of the one this file lies in, so that there is something to try.

    git commit --allow-empty -m "hello"

Without one around it, `~/onceflow-example.git` is watched; the watcher says so until that exists.
"""

from __future__ import annotations

from pathlib import Path

from onceflow import DAG, Asset, AssetWatcher, task
from onceflow.sources.git import GitHeadTrigger

around = [folder for folder in Path(__file__).resolve().parents if (folder / ".git").exists()]
place = around[0] if around else Path("~/onceflow-example.git").expanduser()

commits = Asset("commits", watchers=[AssetWatcher("head", trigger=GitHeadTrigger(str(place), branch=None))])


@task
def build(triggering_asset_events=None) -> str:
    """Stands for a build of that very commit."""
    [event] = triggering_asset_events[commits]
    commit = event.extra
    print(f"{commit['sha'][:10]} by {commit['author']}: {commit['message'].strip()}")
    return commit["sha"]


with DAG("on_commit", schedule=commits, tags=["example"]):
    build()
