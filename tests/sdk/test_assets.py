from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from authoring import file_of, run_task

from onceflow import (
    DAG,
    Asset,
    AssetAll,
    AssetAny,
    AssetWatcher,
    BaseEventTrigger,
    EmptyOperator,
    TriggerEvent,
    asset,
    task,
)
from onceflow.model.dagspec import AssetSpec
from onceflow.model.errors import DagError
from onceflow.model.key import Key
from onceflow.model.serialize import decode


class Rows(BaseEventTrigger):
    """A trigger with a cursor."""

    def __init__(self, table: str, every: timedelta = timedelta(seconds=1), columns: tuple[str, ...] = ()) -> None:
        self.arguments = {"table": table, "every": every, "columns": columns}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Rows", self.arguments

    async def run(self) -> AsyncIterator[Any]:
        yield TriggerEvent({"id": 1}, cursor=1)


class Nameless(Rows):
    """A trigger whose events nothing identifies."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Nameless", self.arguments

    async def run(self) -> AsyncIterator[Any]:
        yield TriggerEvent({"id": 1})


class Plain(BaseEventTrigger):
    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Plain", self.arguments

    async def run(self) -> AsyncIterator[Any]:
        yield TriggerEvent({"id": 1})


class Elsewhere(Rows):
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "triggers.Elsewhere", self.arguments


class Forgets(Rows):
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Forgets", {"tabel": "x"}


def watched(trigger: Any, **asset: Any) -> Asset:
    return Asset("orders", watchers=[AssetWatcher(name="w", trigger=trigger)], **asset)


def stored(*assets: Asset) -> dict[str, AssetSpec]:
    return {spec.name: spec for spec in file_of(assets=assets).assets}


def test_an_asset_is_its_name() -> None:
    spec = stored(Asset("orders", uri="s3://b/orders", group="table", extra={"team": "x"}, key="id"))["orders"]
    assert (spec.uri, spec.group, spec.extra, spec.key) == ("s3://b/orders", "table", {"team": "x"}, Key(("id",)))
    assert spec.where.startswith(__file__)
    assert Asset("orders") == Asset("orders", uri="s3://b/orders")
    assert Asset(uri="s3://b/x").name == "s3://b/x" == Asset("s3://b/x").uri


def test_conditions_nest_and_flatten() -> None:
    a, b, c = Asset("a"), Asset("b"), Asset("c")
    assert (a & b & c).condition() == AssetAll(a, b, c).condition()
    assert (a | b | c).condition() == AssetAny(a, b, c).condition()
    assert ((a | b) & c).condition() == ["and", [["or", [["asset", "a"], ["asset", "b"]]], ["asset", "c"]]]
    assert AssetAll(a).condition() == ["asset", "a"]
    for wrong in (lambda: AssetAll(a, "b"), AssetAny):
        with pytest.raises(DagError):
            wrong()


def test_a_watcher_is_a_class_and_its_arguments() -> None:
    trigger = Rows("t", timedelta(minutes=1), ("x", "y"))
    [spec] = stored(watched(trigger))["orders"].watchers
    assert (spec.name, spec.classpath, spec.file) == ("w", f"{__name__}.Rows", "")
    assert decode(spec.kwargs) == trigger.arguments


@pytest.mark.parametrize("trigger", [Rows, "Rows", None, object(), EmptyOperator])
def test_what_is_no_event_trigger_is_refused(trigger: object) -> None:
    with pytest.raises(DagError, match="no event trigger") as refused:
        watched(trigger)
    assert refused.value.where.startswith(__file__)
    assert "BaseEventTrigger" in refused.value.remedy


def test_a_trigger_as_watcher_is_refused() -> None:
    with pytest.raises(DagError, match="watcher") as refused:
        Asset("orders", watchers=[Rows("t")])
    assert "AssetWatcher" in refused.value.remedy


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (Elsewhere("t"), "test_assets.Elsewhere"),
        (Forgets("t"), "arguments that it does not take"),
        (Plain(client=object()), "cannot be stored"),
        (Plain(rate=float("nan")), "cannot be stored"),
    ],
)
def test_a_trigger_that_could_not_be_rebuilt_is_told_at_parse(trigger: Any, words: str) -> None:
    with pytest.raises(DagError, match=words) as refused:
        file_of(assets=[watched(trigger)])
    assert refused.value.where.startswith(__file__)


def test_a_trigger_inside_a_function_is_refused() -> None:
    class Local(Rows):
        pass

    with pytest.raises(DagError, match="inside a function"):
        file_of(assets=[watched(Local("t"))])


def test_a_watcher_without_identity_is_told() -> None:
    assert not file_of(assets=[watched(Rows("t"))]).warnings
    [warning] = file_of(assets=[watched(Plain())]).warnings
    assert "neither a key nor a cursor" in warning and __file__ in warning


def test_a_trigger_may_say_that_it_has_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plain, "has_identity", True, raising=False)
    assert not file_of(assets=[watched(Plain())]).warnings


def test_declarations_of_one_asset_are_joined() -> None:
    made = DAG("d", schedule=Asset("orders", key="id"))
    with made:
        EmptyOperator(task_id="t", outlets=[Asset("orders", uri="s3://o"), Asset("sums")], inlets=[Asset("prices")])
    specs = {spec.name: spec for spec in file_of(made, assets=[watched(Rows("t"))]).assets}
    assert list(specs) == ["orders", "sums", "prices"]
    assert (specs["orders"].key, specs["orders"].uri, len(specs["orders"].watchers)) == (Key(("id",)), "s3://o", 1)
    assert [spec.outlet for spec in specs.values()] == [True, True, False]


@pytest.mark.parametrize(
    ("assets", "words"),
    [
        ([Asset("a", uri="s3://x"), Asset("b", uri="s3://x")], "one URI"),
        ([Asset("a", uri="s3://x"), Asset("s3://x")], "URI of asset 'a' as its name"),
        ([Asset("s3://x"), Asset("a", uri="s3://x")], "URI of asset 'a' as its name"),
        ([Asset("a", uri="s3://x"), Asset("a", uri="s3://y")], "has the uri"),
        ([Asset("a", key="id"), Asset("a", key="sha")], "has the key"),
        ([watched(Rows("t")), watched(Rows("other"))], "two different watchers named 'w'"),
        ([Asset("a", extra={"x": object()})], "cannot be stored"),
    ],
)
def test_contradictions_are_told_with_both_places(assets: list[Asset], words: str) -> None:
    with pytest.raises(DagError, match=words) as refused:
        file_of(assets=assets)
    assert refused.value.where.startswith(__file__)
    assert refused.value.remedy


def test_a_key_is_a_path_several_or_a_function() -> None:
    def by_id(payload: Any) -> Any:
        return payload["id"]

    specs = stored(Asset("a", key="order.id"), Asset("b", key=["region", "id"]), Asset("c", key=by_id), Asset("d"))
    assert specs["a"].key == Key(("order.id",))
    assert specs["b"].key == Key(("region", "id"))
    assert specs["d"].key is None
    function = specs["c"].key
    assert function is not None
    assert (function.paths, function.function.rpartition(".")[2], function.file) == ((), "by_id", "test.py")
    [own] = stored(Asset("a", watchers=[AssetWatcher("w", Plain(), key=["sha"])]))["a"].watchers
    assert own.key == Key(("sha",))


@pytest.mark.parametrize("key", [7, [], [""], "a..b", ["a", "a"], [1], {"id"}, b"id"])
def test_what_is_no_key_is_refused(key: Any) -> None:
    for declare in (lambda: Asset("a", key=key), lambda: AssetWatcher("w", Plain(), key=key)):
        with pytest.raises(DagError, match="key") as refused:
            declare()
        assert refused.value.where.startswith(__file__)
        assert "dotted path" in refused.value.remedy or "name each once" in refused.value.remedy


def test_a_key_function_does_not_wait() -> None:
    async def later(payload: Any) -> str:
        return "k"

    with pytest.raises(DagError, match="coroutine function"):
        Asset("a", key=later)


def test_a_declared_key_is_an_identity() -> None:
    """No warning for a trigger without keys, if asset or watcher declares one."""
    for declared in (watched(Plain(), key="id"), Asset("a", watchers=[AssetWatcher("w", Plain(), key="id")])):
        assert not file_of(assets=[declared]).warnings


def test_a_key_function_is_called_for_outlets() -> None:
    """The worker's guest calls it; what the payload lacks fails the task with the reason."""
    made = DAG("d", schedule=None)
    with made:

        @task(outlets=[Asset("sums", key=lambda payload: payload["day"])])
        def add(days: list[Any], outlet_events: Any) -> None:
            for day in days:
                outlet_events["sums"].add({"day": day} if day else {})
            outlet_events["sums"].add({"day": "x"}, key="mine")

        add([1, "b"])
    result = run_task(made, "add")
    assert [e["key"] for e in result.events] == ["1", "b", "mine"]
    failing = DAG("f", schedule=None)
    with failing:
        add([""])
    told = run_task(failing, "add")
    assert told.outcome == "failed" and not told.retry_allowed
    assert "KeyError: 'day'" in told.error["message"] and "outlet 'sums'" in told.error["message"]


def test_an_outlet_without_its_asset_s_key_function_is_refused() -> None:
    made = DAG("d", schedule=None)
    with made:
        EmptyOperator(task_id="t", outlets=[Asset("orders")])
    with pytest.raises(DagError, match="lacks the key function") as refused:
        file_of(made, assets=[Asset("orders", key=str)])
    assert "that very object" in refused.value.remedy


@pytest.mark.parametrize("name", ["", "  ", 5, "x" * 2000])
def test_a_name_is_a_text(name: object) -> None:
    with pytest.raises(DagError, match="an asset's name"):
        Asset(name)


def test_a_function_may_make_an_asset() -> None:
    """airflow #56401: also one whose name is not the function's."""

    @asset(schedule="@daily", uri="s3://b/raw", name="raw_rows", tags=["x"])
    def raw(self: Any, context: Any) -> Any:
        """The raw rows."""
        return [self.name, context["run_id"]]

    @asset(schedule=raw)
    def clean(self: Any, raw_rows: Any, limit: int = 5) -> Any:
        return [self.name, raw_rows.name, limit]

    spec = file_of(raw.dag, clean.dag, assets=[raw, clean])
    assert [d.dag_id for d in spec.dags] == ["raw_rows", "clean"]
    assert [a.name for a in spec.assets] == ["raw_rows", "clean"]
    first, second = (d.tasks[0] for d in spec.dags)
    assert (first.task_id, first.outlets, first.inlets, spec.dags[0].doc) == ("raw", ("raw_rows",), (), "The raw rows.")
    assert (second.task_id, second.outlets, second.inlets) == ("clean", ("clean",), ("raw_rows",))
    assert run_task(raw.dag, "raw").value == ["raw_rows", "manual__1"]
    result = run_task(clean.dag, "clean")
    assert (result.value, [e["asset"] for e in result.events]) == (["clean", "raw_rows", 5], ["clean"])


def test_a_function_may_make_several_assets() -> None:
    @asset.multi(outlets=[Asset("a"), Asset("b")], schedule=None)
    def both(context: Any) -> None:
        context["outlet_events"]["a"].extra = {"n": 1}

    assert [e["extra"] for e in run_task(both, "both").events] == [{"n": 1}, {}]
    with pytest.raises(DagError, match="no outlets"):
        asset.multi(outlets=[], schedule=None)


def test_a_schema_is_checked_at_parse() -> None:
    schema = {"type": "object", "required": ["id"]}
    with DAG("d", schedule=Asset("orders", schema=schema)) as made:
        EmptyOperator(task_id="t")
    [spec] = file_of(made).assets
    assert spec.schema == schema and spec.rules.schema == schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "has the schema []"),
        ({"type": "objekt"}, "a schema that is none at type: 'objekt' is not valid"),
        ({"properties": {"x": {"minimum": "1"}}}, "none at properties/x/minimum"),
        ({"$ref": "http://example.org/s.json"}, "refers to 'http://example.org/s.json', which is not in it"),
    ],
)
def test_a_schema_that_is_none_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(DagError) as told:
        Asset("orders", schema=schema)
    assert words in told.value.message


class Ordered(Plain):
    ordered = True

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Ordered", self.arguments


class Redelivers(Plain):
    redelivery_horizon = timedelta(days=7)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Redelivers", self.arguments


def test_how_long_changes_are_kept_and_known() -> None:
    specs = stored(
        Asset("a", retention=timedelta(days=1), protection=timedelta(days=2)),
        Asset("b"),
        Asset("c", watchers=[AssetWatcher("w", Ordered())], protection="high-water"),
    )
    found = [(s.retention, s.protection, s.high_water) for s in specs.values()]
    assert found == [(86_400, 172_800, False), (None, None, False), (None, None, True)]
    for name in ("retention", "protection"):
        for wrong in (5, "a day", timedelta(0), -timedelta(days=1), timedelta.max):
            with pytest.raises(DagError, match=f"has the {name}") as refused:
                Asset("a", **{name: wrong})  # type: ignore[arg-type]
            assert "timedelta" in refused.value.remedy


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (lambda: watched(Plain(), protection="high-water"), "says nothing of an order"),
        (lambda: watched(Ordered(), protection="high-water", key="id"), "declares a key, too"),
        (lambda: Asset("orders", protection="high-water"), "has 0 watchers"),
        (
            lambda: Asset("orders", protection="high-water", watchers=[AssetWatcher(n, Ordered()) for n in "vw"]),
            "has 2 watchers",
        ),
    ],
)
def test_a_high_water_mark_needs_one_ordered_watcher(declared: Any, words: str) -> None:
    with pytest.raises(DagError, match=words) as refused:
        file_of(assets=[declared()])
    assert "rising order" in refused.value.remedy


def test_a_high_water_mark_allows_no_task_beside_its_watcher() -> None:
    made = DAG("d", schedule=None)
    with made:
        EmptyOperator(task_id="t", outlets=[Asset("orders")])
    with pytest.raises(DagError, match="has a task that makes its events"):
        file_of(made, assets=[watched(Ordered(), protection="high-water")])


@pytest.mark.parametrize(
    ("rules", "warned"),
    [
        ({"protection": timedelta(days=3)}, True),
        ({"protection": timedelta(days=3), "retention": timedelta(days=5)}, True),
        ({"protection": timedelta(days=3), "retention": timedelta(days=8)}, False),
        ({"protection": timedelta(days=7)}, False),
        ({}, False),
    ],
)
def test_a_source_that_may_tell_a_change_again_too_late(rules: dict[str, Any], warned: bool) -> None:
    told = [w for w in file_of(assets=[watched(Redelivers(), key="id", **rules)]).warnings if "may tell" in w]
    assert bool(told) == warned
    if warned:
        assert "7 days, 0:00:00 later" in told[0] and "'forever'" not in told[0]
