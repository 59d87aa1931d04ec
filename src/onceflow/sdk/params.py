"""Parameters of a DAG: a default, a schema for the form and the check, and the reference to use in the DAG's code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceflow.model.errors import DagError
from onceflow.sdk.where import here


class _NoDefault:
    def __repr__(self) -> str:
        return "(no default)"


NO_DEFAULT = _NoDefault()


class Param:
    """A parameter with a default and a JSON schema: `Param(5, type="integer", minimum=1, description="…")`."""

    def __init__(self, default: Any = NO_DEFAULT, description: str | None = None, **schema: Any) -> None:
        self.value = default
        self.description = description
        nested = schema.pop("schema", None) or {}
        self.schema = {**nested, **schema}
        self.where = here()

    @property
    def has_value(self) -> bool:
        return self.value is not NO_DEFAULT

    def as_schema(self) -> dict[str, Any]:
        """The schema with the description in it."""
        return self.schema | ({"description": self.description} if self.description else {})


class ParamReference:
    """A parameter's value at run time, to be passed to tasks: what `dag.param("x")` gives."""

    def __init__(self, name: str, default: Any = NO_DEFAULT) -> None:
        self.name = name
        self.default = default

    def resolve(self, params: Mapping[str, Any]) -> Any:
        if self.name in params:
            return params[self.name]
        if self.default is not NO_DEFAULT:
            return self.default
        raise KeyError(f"parameter {self.name!r} has neither a value in this run nor a default")


def normalise(params: Mapping[str, Any] | None, owner: str, where: str) -> dict[str, Param]:
    """Every parameter as a Param; a plain value becomes the default of one."""
    if params is not None and not isinstance(params, Mapping):
        raise DagError(f"params of {owner} is {params!r}", where=where, remedy='give a dict: params={"name": default}')
    return {name: value if isinstance(value, Param) else Param(value) for name, value in (params or {}).items()}
