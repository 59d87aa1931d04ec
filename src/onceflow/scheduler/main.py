"""The scheduler's process: a list of its services."""

from __future__ import annotations

from collections.abc import Sequence

from onceflow.runtime.role import Role, main
from onceflow.runtime.service import Background, Service
from onceflow.scheduler.advance_runs import AdvanceRuns
from onceflow.scheduler.create_asset_runs import CreateAssetRuns
from onceflow.scheduler.create_timed_runs import CreateContinuousRuns, CreateTimedRuns
from onceflow.scheduler.judge_canaries import JudgeCanaries
from onceflow.scheduler.prune import Prune
from onceflow.scheduler.release_slowly import ReleaseSlowly
from onceflow.scheduler.replay_history import ReplayHistory
from onceflow.scheduler.rescue import ExpireRuns, Glance, PruneProcesses, Rescue
from onceflow.scheduler.start_runs import StartRuns
from onceflow.store.versions import Versions


async def build(role: Role) -> Sequence[Service | Background]:
    versions = Versions()
    return [
        Glance(role),
        CreateTimedRuns(role, versions),
        CreateContinuousRuns(role, versions),
        ReplayHistory(role),
        ReleaseSlowly(role),
        CreateAssetRuns(role, versions),
        JudgeCanaries(role),
        StartRuns(role, versions),
        AdvanceRuns(role, versions),
        Rescue(role),
        ExpireRuns(role),
        PruneProcesses(role),
        Prune(role),
    ]


if __name__ == "__main__":
    main("scheduler", build)
