"""Waits for two assets: a run takes every event of both that is pending when both have one."""

from __future__ import annotations

from onceflow import DAG, Asset, task

prices = Asset("prices")
report = Asset("sales_report")


@task(outlets=[prices])
def publish_prices(outlet_events=None) -> None:
    """Stands for a system that publishes prices; start it by hand, or emit an event of `prices`."""
    outlet_events[prices].add({"list": "summer"}, key="summer")


@task
def compare(triggering_asset_events=None) -> None:
    """See what has come."""
    for asset, events in triggering_asset_events.items():
        print(asset.name, [event.extra for event in events])


with DAG("prices", schedule=None, tags=["example"]):
    publish_prices()

with DAG("both_inputs", schedule=report & prices, tags=["example"]):
    compare()
