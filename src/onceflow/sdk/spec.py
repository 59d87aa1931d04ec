"""DAGs as their authors built them, turned into the model's plain specs, with the checks that need the whole of it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from onceflow.model.dagspec import AssetSpec, DagSpec, FileSpec, TaskSpec, WatcherSpec
from onceflow.model.errors import DagError, InputError
from onceflow.model.key import Key
from onceflow.model.limits import check_extra
from onceflow.model.rules import HIGH_WATER
from onceflow.model.serialize import dumps, encode
from onceflow.model.upstream import Graph
from onceflow.sdk import options as table
from onceflow.sdk.asset import Asset, AssetExpression, AssetWatcher
from onceflow.sdk.code import code_hash
from onceflow.sdk.dag import DAG
from onceflow.sdk.identity import (
    check_mode_all,
    check_ordered,
    check_sole_entrance,
    has_identity,
    mark_outlets,
    told_too_late,
)
from onceflow.sdk.operator import BaseOperator
from onceflow.sdk.texts import check_texts


class Compiler:
    """Compiles what one DAG file declares. Raises DagError with the place in the user's code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = f"{folder}/"
        self.path = ""
        self.warnings: list[str] = []
        self._codes: dict[type, str] = {}

    def place(self, where: str) -> str:
        """A "file:line" with the file relative to the DAG folder."""
        return where.replace(self.prefix, "", 1)

    def file(
        self, path: str, source_hash: str, dags: Iterable[DAG], assets: Iterable[Asset], dropped: Iterable[DAG] = ()
    ) -> FileSpec:
        """Everything that the file declares. `dropped` are DAGs that it made and did not keep."""
        dags = list(dags)
        self.path = path
        self._check_ids(dags)
        specs = tuple(self.dag(dag, path) for dag in dags)
        named = [asset for dag in dags for asset in assets_of(dag)]
        outlets = [outlet for dag in dags for task in dag.tasks for outlet in task.outlets]
        merged = mark_outlets(self.assets([*named, *assets]), outlets)
        check_sole_entrance(merged)
        check_texts(specs, merged)
        self._check_kept(dags, dropped)
        return FileSpec(path, source_hash, specs, merged, tuple(dict.fromkeys(self.warnings)))

    def _check_kept(self, dags: list[DAG], dropped: Iterable[DAG]) -> None:
        remedy = "give it a name (`dag = DAG(...)`), or use `with DAG(...):`"
        for dag in dropped:
            message = f"DAG {dag.dag_id!r} is made and not kept, so the file does not define it"
            if not dags:
                raise DagError(message, where=dag.where, remedy=remedy)
            self.warnings.append(f"{self.place(dag.where)}: {message}; {remedy}")

    def _check_ids(self, dags: list[DAG]) -> None:
        seen: dict[str, DAG] = {}
        for dag in dags:
            other = seen.setdefault(dag.dag_id, dag)
            if other is not dag:
                message = f"two DAGs are named {dag.dag_id!r} (first at {self.place(other.where)})"
                raise DagError(message, where=dag.where, remedy="give one of them another dag_id")

    def dag(self, dag: DAG, path: str) -> DagSpec:
        """One DAG."""
        self.warnings += [self.place(warning) for warning in dag.warnings]
        self._check_default_args(dag)
        values = {option.stored or name: dag.values[name] for name, option in table.DAG_OPTIONS.items()}
        spec = DagSpec(
            dag_id=dag.dag_id,
            schedule=dag.timetable,
            tasks=tuple(self.task(task) for task in dag.tasks),
            file=path,
            where=self.place(dag.where),
            params=self._params(dag),
            param_schemas=self._schemas(dag),
            **values,
        )
        Graph(spec)
        return spec

    def _check_default_args(self, dag: DAG) -> None:
        if not dag.default_args:
            return
        known: set[str] = {*table.TASK_OPTIONS, *table.TASK_OWN, *table.TASK_IGNORED, "params"}
        for base in {base for task in dag.tasks for base in type(task).__mro__}:
            known.update(_parameters(base))
        for name in dag.default_args.keys() - known:
            error = table.unknown(name, known, owner=f"default_args of {dag.described}", where=dag.where)
            self.warnings.append(self.place(str(error)))

    def _params(self, dag: DAG) -> dict[str, Any]:
        return {
            name: self._encoded(param.value, f"param {name!r} of {dag.described}", param.where)
            for name, param in dag.params.items()
            if param.has_value
        }

    def _schemas(self, dag: DAG) -> dict[str, dict[str, Any]]:
        found = {name: param.as_schema() for name, param in dag.params.items()}
        return {
            name: self._encoded(schema, f"schema of param {name!r} of {dag.described}", dag.params[name].where)
            for name, schema in found.items()
            if schema
        }

    def task(self, task: BaseOperator) -> TaskSpec:
        """One task."""
        self.warnings += [self.place(warning) for warning in task.warnings]
        values = {
            name: table.convert(name, option, getattr(task, name), owner=task.described, where=task.where)
            for name, option in table.TASK_OPTIONS.items()
        }
        return TaskSpec(
            task_id=task.task_id,
            upstream=tuple(before.task_id for before in task.upstream_tasks),
            outlets=tuple(dict.fromkeys(asset.name for asset in task.outlets)),
            inlets=tuple(dict.fromkeys(inlet.name for inlet in task.inlets if isinstance(inlet, Asset))),
            operator=task.operator_name,
            doc=next((d for d in (task.doc_md, task.doc, task.doc_rst, task.doc_yaml, task.doc_json) if d), ""),
            where=self.place(task.where),
            **values,
        )

    def assets(self, found: Iterable[Asset]) -> tuple[AssetSpec, ...]:
        """Every asset once, with what its several declarations say together."""
        specs: dict[str, AssetSpec] = {}
        for asset in _each_once(found):
            spec = self.asset(asset)
            specs[spec.name] = self._joined(specs[spec.name], spec) if spec.name in specs else spec
        self._check_uris(specs)
        return tuple(specs.values())

    def asset(self, asset: Asset) -> AssetSpec:
        """One declaration of an asset."""
        watchers: dict[str, WatcherSpec] = {}
        for watcher in asset.watchers:
            spec = self.watcher(watcher, asset)
            self._check_watchers(watchers.setdefault(spec.name, spec), spec, asset.name)
            self.warnings += [f"{spec.where}: {text}" for text in told_too_late(asset, watcher)]
            check_ordered(asset, watcher)
        return AssetSpec(
            name=asset.name,
            uri="" if asset.uri == asset.name else asset.uri,
            group=asset.group,
            extra=self._encoded(asset.extra, f"extra of asset {asset.name!r}", asset.where),
            watchers=tuple(watchers.values()),
            where=self.place(asset.where),
            key=self._key(asset),
            retention=asset.retention.total_seconds() if asset.retention else None,
            protection=asset.protection.total_seconds() if isinstance(asset.protection, timedelta) else None,
            high_water=asset.protection == HIGH_WATER,
            schema=self._schema(asset),
        )

    def _schema(self, asset: Asset) -> dict[str, Any] | None:
        """The schema as it is stored; one that says nothing is none."""
        if not asset.schema:
            return None
        where = f"schema of asset {asset.name!r}"
        check_extra(dumps(asset.schema, where), where)
        return dict(asset.schema)

    def _key(self, owner: Asset | AssetWatcher) -> Key | None:
        """The declared key; of a function, also the file in which guests find it."""
        key = owner.declared_key
        return replace(key, file=self.path) if key is not None and key.function else key

    def watcher(self, watcher: AssetWatcher, asset: Asset) -> WatcherSpec:
        """One watcher: its trigger as an importable class and the arguments that rebuild it."""
        trigger = watcher.trigger
        kind = type(trigger)
        classpath, kwargs = self._serialized(watcher)
        self._check_classpath(classpath, kind, watcher)
        try:
            inspect.signature(kind).bind(**kwargs)
        except TypeError as error:
            message = f"serialize() of {kind.__qualname__} gives arguments that it does not take: {error}"
            raise DagError(message, where=watcher.where, remedy="give exactly the arguments of __init__") from None
        if watcher.mode == "all":
            check_mode_all(watcher, asset)
        elif not (has_identity(kind) or watcher.key or asset.key):
            self.warnings.append(
                f"{self.place(watcher.where)}: watcher {watcher.name!r} of asset {asset.name!r} gives its events "
                "neither a key nor a cursor: after a crash the same change may be reported again as a new event "
                "(give TriggerEvent(..., key=) or cursor=, or declare key= for the watcher or the asset)"
            )
        where = f"arguments of watcher {watcher.name!r} of asset {asset.name!r}"
        return WatcherSpec(
            name=watcher.name,
            classpath=f"{kind.__module__}.{kind.__qualname__}",
            kwargs=self._encoded(kwargs, where, watcher.where),
            mode=watcher.mode,
            file=self._file_of(kind),
            code=self._code_of(kind),
            where=self.place(watcher.where),
            key=self._key(watcher),
            match=watcher.match,
            keep_cursor=watcher.keep_cursor,
            silent_after=watcher.silent_after or trigger.silent_after,
            canary=watcher.canary,
            max_events_per_minute=watcher.max_events_per_minute,
        )

    def _serialized(self, watcher: AssetWatcher) -> tuple[str, dict[str, Any]]:
        name = type(watcher.trigger).__qualname__
        remedy = 'return ("package.module.Class", {"argument": value})'
        try:
            classpath, kwargs = watcher.trigger.serialize()
        except Exception as error:
            message = f"serialize() of {name} failed: {type(error).__name__}: {error}"
            raise DagError(message, where=watcher.where, remedy=remedy) from error
        if not isinstance(classpath, str) or not isinstance(kwargs, dict):
            raise DagError(f"serialize() of {name} gives {classpath!r}, {kwargs!r}", where=watcher.where, remedy=remedy)
        return classpath, kwargs

    def _check_classpath(self, classpath: str, kind: type, watcher: AssetWatcher) -> None:
        right = f"{kind.__module__}.{kind.__qualname__}"
        if "<locals>" in right:
            message = f"the trigger class {kind.__qualname__} is defined inside a function"
            raise DagError(message, where=watcher.where, remedy="define it at the top of a module")
        if classpath == right:
            return
        module, _, name = classpath.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ImportError:
            found = None
        if found is not kind:
            message = f"serialize() of {kind.__qualname__} names {classpath!r}, which is not this class"
            raise DagError(message, where=watcher.where, remedy=f"return {right!r}")

    def _code_of(self, kind: type) -> str:
        """The hash of a class's code, made once however many watchers it has."""
        if kind not in self._codes:
            self._codes[kind] = code_hash(kind, self.folder)
        return self._codes[kind]

    def _file_of(self, kind: type) -> str:
        """The DAG file that defines a class, relative to the folder; "" if it is installed somewhere else."""
        file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
        return file.removeprefix(self.prefix) if file.startswith(self.prefix) else ""

    def _joined(self, one: AssetSpec, two: AssetSpec) -> AssetSpec:
        for what in ("uri", "key", "retention", "protection", "schema"):
            left, right = getattr(one, what), getattr(two, what)
            if left and right and left != right:
                message = f"asset {one.name!r} has the {what} {str(right)!r} here and {str(left)!r} at {one.where}"
                raise DagError(
                    message, where=two.where, remedy="declare it once and use that object, or make them equal"
                )
        watchers = {watcher.name: watcher for watcher in one.watchers}
        for watcher in two.watchers:
            self._check_watchers(watchers.setdefault(watcher.name, watcher), watcher, one.name)
        return replace(
            one,
            uri=one.uri or two.uri,
            key=one.key or two.key,
            retention=one.retention or two.retention,
            protection=one.protection or two.protection,
            high_water=one.high_water or two.high_water,
            schema=one.schema or two.schema,
            extra=one.extra or two.extra,
            group=one.group if one.group != "asset" else two.group,
            watchers=tuple(watchers.values()),
        )

    def _check_watchers(self, one: WatcherSpec, two: WatcherSpec, asset: str) -> None:
        said = [(w.classpath, w.kwargs, w.mode, w.match, w.key) for w in (one, two)]
        if said[0] != said[1]:
            message = f"asset {asset!r} has two different watchers named {two.name!r} (first at {one.where})"
            raise DagError(message, where=two.where, remedy="give one of them another name")

    def _check_uris(self, specs: dict[str, AssetSpec]) -> None:
        by_uri: dict[str, AssetSpec] = {}
        for spec in specs.values():
            other = by_uri.setdefault(spec.uri or spec.name, spec)
            if other is spec:
                continue
            if spec.uri and other.uri:
                message = f"assets {other.name!r} and {spec.name!r} have one URI, {spec.uri!r} (first at {other.where})"
                raise DagError(
                    message, where=spec.where, remedy="an asset's URI is its own: change one, or use one asset"
                )
            named, holder = (spec, other) if other.uri else (other, spec)
            message = f"asset {named.name!r} has the URI of asset {holder.name!r} as its name (see {holder.where})"
            remedy = f"use Asset({holder.name!r}) in both places, or change one"
            raise DagError(message, where=named.where, remedy=remedy)

    def _encoded(self, value: Any, what: str, where: str) -> Any:
        try:
            return encode(value, what)
        except InputError as error:
            message = f"{error.where} cannot be stored: {error.message}"
            raise DagError(message, where=where, remedy=error.remedy) from None


def assets_of(dag: DAG) -> list[Asset]:
    """Every asset that a DAG names: its schedule's, its tasks' outlets and inlets."""
    schedule = dag.schedule
    parts = schedule if isinstance(schedule, (list, tuple, set, frozenset)) else [schedule]
    found = [asset for part in parts if isinstance(part, AssetExpression) for asset in part.assets()]
    for task in dag.tasks:
        found += task.outlets
        found += [inlet for inlet in task.inlets if isinstance(inlet, Asset)]
    return found


def _each_once(assets: Iterable[Asset]) -> list[Asset]:
    return list({id(asset): asset for asset in assets}.values())


def _parameters(kind: type) -> Iterable[str]:
    init = vars(kind).get("__init__")
    return inspect.signature(init).parameters if inspect.isfunction(init) else ()
