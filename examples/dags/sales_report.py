"""Runs once for each event of an asset that another DAG changes."""

from __future__ import annotations

from onceflow import Asset, dag, task

sales = Asset("sales", uri="memory://warehouse/sales")
report = Asset("sales_report")


@dag(schedule=sales, tags=["example"])
def sales_report():
    """A report per load of `etl`."""

    @task(outlets=[report])
    def write(triggering_asset_events=None) -> str:
        [event] = triggering_asset_events[sales]
        line = f"event {event.id}: {event.extra}"
        print(line)
        return line

    write()


sales_report()
