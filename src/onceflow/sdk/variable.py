"""Variables: settings of the user's own, read from the environment (`AIRFLOW_VAR_NAME` or `ONCEFLOW_VAR_NAME`)."""

from __future__ import annotations

import json
from typing import Any

from onceflow.config import user_variable

MISSING = object()


class Variable:
    """`Variable.get("name")` reads ONCEFLOW_VAR_NAME or AIRFLOW_VAR_NAME."""

    @staticmethod
    def get(key: str, default: Any = MISSING, *, default_var: Any = MISSING, deserialize_json: bool = False) -> Any:
        """The variable's text, or the value it is as JSON. Raises KeyError if it is not set and has no default."""
        text = user_variable(key)
        if text is None:
            fallback = default if default is not MISSING else default_var
            if fallback is MISSING:
                raise KeyError(f"variable {key!r} is not set; set ONCEFLOW_VAR_{key.upper()} in the environment")
            return fallback
        return json.loads(text) if deserialize_json else text


class VariableAccess:
    """`var.value.name` and `var.json.name` in templates."""

    def __init__(self, as_json: bool = False) -> None:
        self._as_json = as_json

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Variable.get(name, deserialize_json=self._as_json)

    def get(self, name: str, default: Any = None) -> Any:
        return Variable.get(name, default, deserialize_json=self._as_json)
