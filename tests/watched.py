"""A source for tests: a text file whose lines are changes, and the trigger that notices them, as DAG files use it."""

from __future__ import annotations

from pathlib import Path

MODULE = "lines.py"

TRIGGER = '''
    import asyncio
    from pathlib import Path

    from onceflow import BaseEventTrigger, TriggerEvent


    class Lines(BaseEventTrigger):
        """Each line of a file is a change; the cursor is the number of lines that were told."""

        def __init__(self, path, keyed=True):
            super().__init__()
            self.path = path
            self.keyed = keyed

        def serialize(self):
            return "lines.Lines", {"path": self.path, "keyed": self.keyed}

        async def run(self):
            told = self.cursor or 0
            while True:
                path = Path(self.path)
                lines = path.read_text().splitlines() if path.exists() else []
                for line in lines[told:]:
                    told += 1
                    yield TriggerEvent({"line": line}, key=line if self.keyed else None, cursor=told)
                self.observed()
                await asyncio.sleep(0.05)
'''


def pipeline(asset: str, path: Path, *, keyed: bool = True, dag_id: str = "", name: str = "") -> str:
    """A DAG file: a watcher of that file on the asset, and a consumer of the asset (named as it is, or `dag_id`)."""
    return f'''
    from onceflow import DAG, Asset, AssetWatcher, task
    from lines import Lines

    {asset} = Asset("{asset}", watchers=[AssetWatcher("{name or asset}", trigger=Lines({str(path)!r}, keyed={keyed}))])

    with DAG("{dag_id or asset}", schedule={asset}):
        @task
        def work(triggering_asset_events):
            [[event]] = triggering_asset_events.values()
            print(event.extra["line"])
        work()
    '''


def append(path: Path, *lines: str) -> None:
    """Make changes."""
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
