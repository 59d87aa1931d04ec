"""The authoring API is typed: a bad call is an error of the type checker, a good one is none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "typing_cases.py"
ROOT = CASES.parents[2]


@pytest.mark.skipif(shutil.which("pyrefly", path=str(Path(sys.executable).parent)) is None, reason="needs pyrefly")
def test_bad_calls_are_type_errors_and_good_ones_are_not(tmp_path: Path) -> None:
    settings = tmp_path / "pyrefly.toml"
    settings.write_text(f'project-includes = ["{CASES}"]\nsearch-path = ["{ROOT / "src"}"]\n')
    command = [
        str(Path(sys.executable).with_name("pyrefly")),
        "check",
        "--config",
        str(settings),
        "--output-format=json",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    found = json.loads(done.stdout)["errors"]
    refused = {error["line"] for error in found if error["severity"] == "error"}
    text = CASES.read_text().splitlines()
    expected = {number for number, line in enumerate(text, 1) if line.endswith("# refused")}
    told = {line: text[line - 1].strip() for line in refused ^ expected}
    assert not told, told
