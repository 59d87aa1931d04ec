"""Extract, transform, load: results of tasks as arguments of tasks, and an asset that changes at the end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from onceflow import DAG, Asset, Param, task

sales = Asset("sales", uri="memory://warehouse/sales")


@task(retries=2, retry_delay=timedelta(seconds=5))
def extract(rows: int) -> list[dict[str, int]]:
    """Read the orders of the day; here they are made up."""
    return [{"order": number, "cents": 100 * number} for number in range(1, rows + 1)]


@task
def transform(orders: list[dict[str, int]]) -> dict[str, int]:
    """Sum up."""
    return {"orders": len(orders), "cents": sum(order["cents"] for order in orders)}


@task(outlets=[sales])
def load(orders: int, cents: int, outlet_events=None) -> None:
    """Write, and say with the asset's event what was written."""
    outlet_events[sales].extra = {"orders": orders, "cents": cents}
    print(f"{orders} orders, {cents / 100:.2f} in all")


with DAG(
    "etl",
    schedule="0 6 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"rows": Param(10, type="integer", minimum=1, description="how many orders to make up")},
    tags=["example"],
) as dag:
    summary = transform(extract(dag.param("rows")))
    load(summary["orders"], summary["cents"])
