"""`@asset`: a function that makes an asset; the function, its task and its DAG in one declaration.

    @asset(schedule="@daily", uri="s3://b/raw")
    def raw(self): ...

    @asset(schedule=raw)
    def clean(self, raw): ...       # arguments named like assets are the task's inlets

The DAG has one task, whose outlet the asset is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from onceflow.model.errors import DagError
from onceflow.sdk.asset import Asset, AssetWatcher
from onceflow.sdk.dag import DAG
from onceflow.sdk.operator import ID
from onceflow.sdk.operators import PythonOperator
from onceflow.sdk.where import here

if TYPE_CHECKING:
    from onceflow.sdk.context import Context
    from onceflow.sdk.keys import KeyArg
    from onceflow.sdk.schedule import ScheduleArg
    from onceflow.sdk.typed import DagOptions


class AssetFunction(PythonOperator):
    """Calls the function with `self` (the asset), `context`, and an Asset for each other name."""

    kind = "asset"
    template_fields: ClassVar[tuple[str, ...]] = ()

    def execute(self, context: Context) -> Any:
        given = {"self": self.outlets[0], "context": context} | {asset.name: asset for asset in self.inlets}
        names = inspect.signature(self.python_callable).parameters
        self.op_kwargs = {name: given[name] for name in names if name in given}
        return super().execute(context)


class AssetDefinition(Asset):
    """The asset that a function makes; may be used wherever an asset may."""

    function: Callable[..., Any]
    dag: DAG


class AssetDecorator:
    """`@asset(schedule=...)` and `@asset.multi(outlets=[...], schedule=...)`."""

    def __call__(
        self,
        *,
        schedule: ScheduleArg,
        name: str | None = None,
        uri: str = "",
        group: str = "asset",
        extra: dict[str, Any] | None = None,
        watchers: Iterable[AssetWatcher] = (),
        key: KeyArg | None = None,
        dag_id: str | None = None,
        **options: Unpack[DagOptions],
    ) -> Callable[[Callable[..., Any]], AssetDefinition]:
        """Make an asset of the function, named like it unless `name` is given."""

        def decorate(function: Callable[..., Any]) -> AssetDefinition:
            label = name or function.__name__
            made = AssetDefinition(label, uri, group=group, extra=extra, watchers=watchers, key=key)
            made.function = function
            made.dag = _dag(function, dag_id or label, [made], schedule, dict(options))
            return made

        return decorate

    def multi(
        self,
        *,
        outlets: list[Asset],
        schedule: ScheduleArg,
        dag_id: str | None = None,
        **options: Unpack[DagOptions],
    ) -> Callable[[Callable[..., Any]], DAG]:
        """Make a DAG of a function that makes several assets at once."""
        if not outlets:
            raise DagError("@asset.multi has no outlets", where=here(), remedy="name at least one asset")
        return lambda function: _dag(function, dag_id or function.__name__, outlets, schedule, dict(options))


asset = AssetDecorator()


def _dag(
    function: Callable[..., Any], dag_id: str, outlets: list[Asset], schedule: Any, options: dict[str, Any]
) -> DAG:
    """The DAG around the function: one task, named like the function."""
    doc = inspect.getdoc(function)
    settings: dict[str, Any] = ({"doc_md": doc} if doc else {}) | options
    with DAG(dag_id if ID.fullmatch(dag_id) else function.__name__, schedule=schedule, **settings) as made:
        AssetFunction(
            task_id=function.__name__, python_callable=function, outlets=outlets, inlets=_inlets(function, outlets)
        )
    return made


def _inlets(function: Callable[..., Any], outlets: list[Asset]) -> list[Asset]:
    """An asset for each argument of the function that has no other meaning."""
    names = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", "context")
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return [next((outlet for outlet in outlets if outlet.name == name), None) or Asset(name) for name in names]
