"""Consumers of every policy, most of them without tasks: what is tried here is the way from events to runs."""

from __future__ import annotations

from onceflow import DAG, All, Asset, Latest, Window, task

orders, prices, stock, rare = Asset("orders"), Asset("prices"), Asset("stock"), Asset("rare")
done = Asset("done")

with DAG("each", schedule=rare, max_active_runs=1000):
    pass
with DAG("filtered", schedule=orders.when("number", "<", 3), max_active_runs=1000):
    pass
with DAG("all", schedule=orders | prices, consume=All(), max_active_runs=1000):
    pass
with DAG("together", schedule=orders & prices & stock, max_active_runs=1000):
    pass
with DAG("nested", schedule=(orders & prices) | (stock & rare), max_active_runs=1000):
    pass
with DAG("quiet", schedule=stock, consume=Window(quiet=0.3, max_wait=2), max_active_runs=1000):
    pass
with DAG("batches", schedule=prices | stock, consume=Window(max_wait=2, max_size=50), max_active_runs=1000):
    pass
with DAG("latest", schedule=prices | rare, consume=Latest()):
    pass

with DAG("produce", schedule=stock, consume=Window(max_wait=3), max_active_runs=50):

    @task(outlets=[done])
    def work() -> None: ...

    work()

with DAG("follow", schedule=done, max_active_runs=1000):
    pass
