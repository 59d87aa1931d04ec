"""All settings of Onceflow in one frozen object; the only place that reads the environment.

A value comes from the first of: command-line flag, `ONCEFLOW_<NAME>` in the environment, `onceflow.toml` in the home
folder, the default below. Unknown keys, and unknown `ONCEFLOW_` names, are refused with the valid ones named.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from onceflow.model.errors import ConfigError

PREFIX = "ONCEFLOW_"
ALLOWED_ELSEWHERE = frozenset({"ONCEFLOW_COMPAT", "ONCEFLOW_BENCH", "ONCEFLOW_REQUIRE_UI", "ONCEFLOW_CRASH_POINTS"})
VARIABLE_PREFIXES = (f"{PREFIX}VAR_", "AIRFLOW_VAR_")  # the users' own, read by `Variable.get`


@dataclass(frozen=True)
class Settings:
    """Every setting with its default; durations are seconds."""

    home: Path = field(default_factory=lambda: Path("~/.onceflow").expanduser())
    dags: Path | None = None  # the DAG folder; None: HOME/dags
    database_url: str = ""  # empty: the embedded PostgreSQL under HOME
    database_pooler: str = "none"  # none | session | transaction
    pg_bindir: Path | None = None  # where initdb and postgres are, if not the installed wheel's
    host: str = "127.0.0.1"
    port: int = 8080  # 0 = any free one
    token: str = ""  # empty: HOME/token
    schedulers: int = 2
    triggerers: int = 2
    workers: int = 1
    worker_slots: int = 8
    max_events_per_minute: int = 10_000  # of one watcher, before it is a storm; 0 = any number
    max_runs_per_minute: int = 10_000  # of one DAG, that its events start, before it is a storm; 0 = any number
    lease_seconds: float = 5.0
    hang_seconds: float = 60.0  # a role whose loop stands still for so long is killed by its parent and started again
    poll_seconds: float = 1.0
    parse_timeout: float = 30.0
    scan_seconds: float = 10.0  # full scan of the DAG folder, beside the file watcher
    retention_days: float = 0.0  # 0: events and runs are kept for ever
    replay_seconds: float = 86_400.0  # how long the API remembers what it answered under an Idempotency-Key
    new_dags_paused: bool | None = None  # None: unpaused in standalone, paused elsewhere
    executor: str = "local"  # where workers get their tasks from
    isolation: str = "auto"  # auto | fork | fresh
    log_level: str = "info"
    log_format: str = "auto"  # auto | json | text

    @property
    def dags_folder(self) -> Path:
        return self.dags or self.home / "dags"

    @property
    def renew_seconds(self) -> float:
        """How often a lease is renewed: five times in its length, so that four lost renewals are survived."""
        return self.lease_seconds / 5

    @property
    def retention_seconds(self) -> float | None:
        """How long events are kept if their asset says nothing else, and runs that no event started; None: for ever."""
        return self.retention_days * 86_400 or None


CHOICES: Mapping[str, frozenset[str]] = {
    "database_pooler": frozenset({"none", "session", "transaction"}),
    "isolation": frozenset({"auto", "fork", "fresh"}),
    "log_level": frozenset({"debug", "info", "warning", "error"}),
    "log_format": frozenset({"auto", "json", "text"}),
}
MOST, HOUR = 1000, 3600
RANGES: Mapping[str, tuple[float, float]] = {
    "port": (0, 65535),
    "schedulers": (0, MOST),
    "triggerers": (0, MOST),
    "workers": (0, MOST),
    "worker_slots": (1, 10 * MOST),
    "max_events_per_minute": (0, MOST * MOST),
    "max_runs_per_minute": (0, MOST * MOST),
    "lease_seconds": (0.5, HOUR),
    "hang_seconds": (10, 24 * HOUR),
    "poll_seconds": (0.05, HOUR),
    "parse_timeout": (1, HOUR),
    "scan_seconds": (0.5, 24 * HOUR),
    "retention_days": (0, 36_500),
    "replay_seconds": (0, 366 * 24 * HOUR),
}
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "Path": "a path",
    "Path | None": "a path",
    "bool | None": "true or false",
}
NAMES = tuple(f.name for f in fields(Settings))
TYPES = {f.name: str(f.type) for f in fields(Settings)}


def load(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. `flags` holds only the values given on the command line (None = not given).

    Raises ConfigError naming the setting, where it was set, and what is allowed.
    """
    given = {k: v for k, v in (flags or {}).items() if v is not None}
    env = _from_environment(os.environ if environ is None else environ)
    home = _home(given.get("home") or env.get("home") or "~/.onceflow")
    path = home / "onceflow.toml"
    values: dict[str, Any] = {"home": home}
    for source, where, base in (
        (_from_file(path), str(path), home),
        (env, "environment", None),
        (given, "command line", None),
    ):
        for name, value in source.items():
            if name != "home":
                values[name] = _convert(name, value, where, base)
    return replace(Settings(home=home), **values)


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a child process: ours without the settings that hold secrets."""
    hidden = {f"{PREFIX}DATABASE_URL", f"{PREFIX}TOKEN"}
    env = {k: v for k, v in os.environ.items() if k not in hidden}
    return env | dict(extra or {})


def compat_forced() -> bool:
    """Whether DAG files get our mapping of Airflow's names although a real Airflow is installed (ONCEFLOW_COMPAT)."""
    value = os.environ.get("ONCEFLOW_COMPAT", "")
    if value not in ("", "force"):
        raise ConfigError(f"ONCEFLOW_COMPAT is {value!r}", where="environment", remedy="allowed: force")
    return value == "force"


def crash_points() -> str:
    """The Python file that a test gave to listen to crash points (ONCEFLOW_CRASH_POINTS); "" outside tests."""
    return os.environ.get("ONCEFLOW_CRASH_POINTS", "")


def user_variable(name: str) -> str | None:
    """The text of a user's variable, or None if it is not set."""
    return next((os.environ[p + name.upper()] for p in VARIABLE_PREFIXES if p + name.upper() in os.environ), None)


def _home(given: Any) -> Path:
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:  # nobody has that name, or we have none
        raise ConfigError(
            f"the home folder {str(given)!r} cannot be found: {error}", remedy="set ONCEFLOW_HOME or --home to a path"
        ) from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in ALLOWED_ELSEWHERE or variable.startswith(VARIABLE_PREFIXES):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in NAMES or variable != f"{PREFIX}{name.upper()}":
            raise _unknown(variable, "environment", [f"{PREFIX}{n.upper()}" for n in NAMES])
        found[name] = value
    return found


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from error
    import tomllib  # only for who has such a file: guests read their variables through this module, too

    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from error
    for name in values:
        if name not in NAMES or name == "home":
            raise _unknown(name, str(path), [n for n in NAMES if n != "home"])
    return values


def _unknown(name: str, where: str, valid: list[str]) -> ConfigError:
    import difflib  # only to tell what is wrong

    close = difflib.get_close_matches(name, valid, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return ConfigError(f"unknown setting {name!r}", where=where, remedy=f"{hint}valid settings: {', '.join(valid)}")


def _convert(name: str, value: Any, where: str, base: Path | None) -> Any:
    """The value as its setting's type, in its range; a relative path starts at `base`, or here."""
    kind = TYPES[name]
    try:
        converted = _parse(kind, value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _refused(name, value, where, KINDS[kind]) from error
    if name in CHOICES and converted not in CHOICES[name]:
        raise _refused(name, value, where, ", ".join(sorted(CHOICES[name])))
    low, high = RANGES.get(name, (-math.inf, math.inf))
    if name in RANGES and not low <= converted <= high:
        raise _refused(name, value, where, f"{low} to {high}")
    if name == "token" and not all("!" <= character <= "~" for character in converted):
        raise _refused(name, "…", where, "visible ASCII characters, as a header can carry")
    if isinstance(converted, Path):
        return (base / converted if base else converted).absolute()
    return converted


def _refused(name: str, value: Any, where: str, allowed: str) -> ConfigError:
    return ConfigError(f"setting {name} is {value!r}", where=where, remedy=f"allowed: {allowed}")


def _parse(kind: str, value: Any) -> Any:
    """A text, as flags and environment have it, or a value of TOML's, as the type a setting has."""
    if kind.endswith("| None") and value == "":
        return None
    if kind.startswith("bool"):
        return _truth(value)
    if kind.startswith("Path"):
        if "\0" in value:
            raise ValueError(value)
        return Path(value).expanduser()
    if isinstance(value, bool):
        raise TypeError(value)
    if kind == "int":
        return int(value) if isinstance(value, str) else operator.index(value)
    if kind == "float":
        return _finite(float(value))
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _truth(value: Any) -> bool:
    text = str(value).lower()
    if text not in {"true", "false", "1", "0", "yes", "no", "on", "off"}:
        raise ValueError(value)
    return text in {"true", "1", "yes", "on"}


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(number)
    return number


def to_values(settings: Settings) -> dict[str, Any]:
    """The settings as JSON values, to hand to a child process; `from_values` reads them back."""
    return {n: str(v) if isinstance(v := getattr(settings, n), Path) else v for n in NAMES}


def from_values(values: Mapping[str, Any]) -> Settings:
    """The settings that `to_values` wrote."""
    read: dict[str, Any] = {n: None if v is None else _parse(TYPES[n], v) for n, v in values.items()}
    return Settings(**read)
