"""Settings: where a value comes from, and what is refused in which words."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from onceflow.config import NAMES, Settings, child_environment, from_values, load, to_values
from onceflow.model.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def settings(home: Path, file: str = "", environ: dict[str, str] | None = None, **flags: object) -> Settings:
    (home / "onceflow.toml").write_text(file, encoding="utf-8")
    return load({"home": home, **flags}, environ or {})


def refusal(*args: object, **kwargs: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        settings(*args, **kwargs)
    return caught.value


def test_defaults_need_neither_file_nor_environment(home: Path) -> None:
    assert load({"home": home}, {}) == Settings(home=home)
    assert load({}, {}).home == Path("~/.onceflow").expanduser()


def test_a_flag_comes_before_the_environment_before_the_file_before_the_default(home: Path) -> None:
    file, environ = "port = 1\nhost = 'file'\nworkers = 7", {"ONCEFLOW_PORT": "2", "ONCEFLOW_HOST": "environment"}
    found = settings(home, file, environ, port=3, host=None)
    assert (found.port, found.host, found.workers, found.schedulers) == (3, "environment", 7, 2)


def test_the_home_folder_is_the_flags_then_the_environments_and_says_where_the_file_is(home: Path) -> None:
    (home / "onceflow.toml").write_text("port = 5")
    assert load({}, {"ONCEFLOW_HOME": str(home)}).port == 5
    assert load({"home": home / "other"}, {"ONCEFLOW_HOME": str(home)}).port == 8080


def test_settings_cannot_be_changed(home: Path) -> None:
    with pytest.raises(FrozenInstanceError):
        load({"home": home}, {}).port = 1  # type: ignore[misc]


@pytest.mark.parametrize("text", ["true", "TRUE", "1", "yes", "on"])
def test_what_means_yes(home: Path, text: str) -> None:
    assert settings(home, environ={"ONCEFLOW_NEW_DAGS_PAUSED": text}).new_dags_paused is True


@pytest.mark.parametrize("text", ["false", "0", "no", "Off"])
def test_what_means_no(home: Path, text: str) -> None:
    assert settings(home, environ={"ONCEFLOW_NEW_DAGS_PAUSED": text}).new_dags_paused is False


def test_an_empty_variable_is_an_empty_text_or_no_value(home: Path) -> None:
    file = "database_url = 'postgresql://file'\ndags = '/somewhere'\nnew_dags_paused = true"
    names = ("DATABASE_URL", "DAGS", "NEW_DAGS_PAUSED", "PG_BINDIR")
    found = settings(home, file, {f"ONCEFLOW_{name}": "" for name in names})
    assert (found.database_url, found.dags, found.new_dags_paused, found.pg_bindir) == ("", None, None, None)
    assert found.dags_folder == home / "dags"


def test_paths_are_absolute_and_those_in_the_file_start_at_the_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert settings(home, "dags = 'mine'").dags == home / "mine"
    assert settings(home, "dags = '~/mine'").dags == Path("~/mine").expanduser()
    assert settings(home, environ={"ONCEFLOW_DAGS": "mine"}).dags == elsewhere / "mine"
    assert settings(home, dags="mine").dags == elsewhere / "mine"
    assert load({"home": "here"}, {}).home == elsewhere / "here"


def test_an_unknown_key_in_the_file_is_refused_with_the_valid_ones(home: Path) -> None:
    error = refusal(home, "prot = 1")
    assert error.where == str(home / "onceflow.toml")
    assert "unknown setting 'prot'" in error.message
    assert "did you mean port?" in error.remedy
    assert all(name in error.remedy for name in NAMES if name != "home")


def test_an_unknown_variable_is_refused_with_the_valid_ones(home: Path) -> None:
    error = refusal(home, environ={"ONCEFLOW_SCHEDULER": "1"})
    assert error.where == "environment"
    assert "did you mean ONCEFLOW_SCHEDULERS?" in error.remedy
    assert all(f"ONCEFLOW_{name.upper()}" in error.remedy for name in NAMES)


@pytest.mark.parametrize("name", ["ONCEFLOW_Port", "ONCEFLOW_port", "ONCEFLOW_"])
def test_variables_are_written_in_capitals(home: Path, name: str) -> None:
    assert "unknown setting" in refusal(home, environ={name: "1"}).message


def test_other_peoples_variables_are_no_concern_of_ours(home: Path) -> None:
    others = {"HOME": "/x", "PORT": "x", "AIRFLOW_PORT": "x", "ONCEFLOW_VAR_COLOUR": "x", "ONCEFLOW_COMPAT": "force"}
    assert settings(home, environ=others) == Settings(home=home)


@pytest.mark.parametrize("text", ["[server]\nport = 1", "home = '/x'"])
def test_sections_and_the_home_itself_have_no_place_in_the_file(home: Path, text: str) -> None:
    assert "unknown setting" in refusal(home, text).message


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("port", "http", "a whole number"),
        ("port", "80.5", "a whole number"),
        ("port", "-1", "0 to 65535"),
        ("port", "65536", "0 to 65535"),
        ("port", "", "a whole number"),
        ("worker_slots", "0", "1 to 10000"),
        ("schedulers", "1001", "0 to 1000"),
        ("parse_timeout", "1e300", "1 to 3600"),
        ("token", "two words", "visible ASCII characters, as a header can carry"),
        ("token", "schlüssel", "visible ASCII characters, as a header can carry"),
        ("dags", "a\0b", "a path"),
        ("lease_seconds", "soon", "a number"),
        ("lease_seconds", "0.1", "0.5 to 3600"),
        ("lease_seconds", "nan", "a number"),
        ("poll_seconds", "inf", "a number"),
        ("retention_days", "1e9", "0 to 36500"),
        ("new_dags_paused", "maybe", "true or false"),
        ("log_level", "loud", "debug, error, info, warning"),
        ("database_pooler", "pgbouncer", "none, session, transaction"),
        ("isolation", "", "auto, fork, fresh"),
        ("dags", "~nobody-of-that-name/dags", "a path"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(home: Path, name: str, value: str, allowed: str) -> None:
    variable = {f"ONCEFLOW_{name.upper()}": value}
    for error, where in (
        (refusal(home, environ=variable), "environment"),
        (refusal(home, **{name: value}), "command line"),
    ):
        assert error.where == where
        assert error.message == f"setting {name} is {'…' if name == 'token' else value!r}"
        assert error.remedy == f"allowed: {allowed}"


@pytest.mark.parametrize(
    "line",
    [
        "port = true",
        "port = 80.5",
        "port = [80]",
        "lease_seconds = true",
        "lease_seconds = nan",
        "host = 5",
        "host = ['a', 'b']",
        "dags = 5",
        "new_dags_paused = 2",
        "new_dags_paused = []",
    ],
)
def test_a_value_of_the_wrong_type_in_the_file_is_refused(home: Path, line: str) -> None:
    error = refusal(home, line)
    assert error.where == str(home / "onceflow.toml")
    assert error.message.startswith(f"setting {line.split(maxsplit=1)[0]} is ")


def test_numbers_in_the_file_may_be_written_either_way(home: Path) -> None:
    found = settings(home, "lease_seconds = 2\nport = 5\nnew_dags_paused = true")
    assert (found.lease_seconds, found.port, found.new_dags_paused) == (2.0, 5, True)


def test_a_broken_file_is_refused_with_its_line(home: Path) -> None:
    error = refusal(home, "port = 1\nhost = = 1")
    assert "not valid TOML" in error.message
    assert "line 2" in error.message


def test_a_file_that_cannot_be_read_is_refused(home: Path) -> None:
    (home / "onceflow.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load({"home": home}, {})
    (home / "onceflow.toml").rmdir()
    (home / "onceflow.toml").write_bytes(b"host = '\xff'")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load({"home": home}, {})


def test_the_file_is_utf8_whatever_the_locale_says(home: Path) -> None:
    assert settings(home, "host = 'münchen'").host == "münchen"


def test_the_home_of_an_unknown_user_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="ONCEFLOW_HOME"):
        load({"home": "~nobody-of-that-name/x"}, {})


def test_settings_survive_the_way_to_a_child_process(home: Path) -> None:
    full = replace(
        Settings(home=home), dags=home / "d", pg_bindir=home / "b", new_dags_paused=False, port=0, token="secret"
    )
    assert from_values(to_values(full)) == full
    assert from_values(to_values(Settings(home=home))) == Settings(home=home)


def test_children_do_not_inherit_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEFLOW_DATABASE_URL", "postgresql://user:secret@host/db")
    monkeypatch.setenv("ONCEFLOW_TOKEN", "secret")
    monkeypatch.setenv("ONCEFLOW_PORT", "1")
    found = child_environment({"EXTRA": "1"})
    assert found["ONCEFLOW_PORT"] == found["EXTRA"] == "1"
    assert "secret" not in str({name: value for name, value in found.items() if name.startswith("ONCEFLOW_")})


def test_a_lease_is_renewed_five_times_in_its_length(home: Path) -> None:
    assert settings(home, lease_seconds=2.0).renew_seconds == pytest.approx(0.4)
