"""The documentation is true: links lead somewhere, code compiles, settings and commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from onceflow.config import NAMES

ROOT = Path(__file__).parents[1]
PAGES = sorted(p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#]+)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_examples_compile(page: Path):
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        compile(code, str(page), "exec", flags=0x2000)  # a top-level await is fine


def test_the_guide_names_every_setting():
    guide = (ROOT / "docs/guide.md").read_text()
    missing = [name for name in NAMES if f"`{name}`" not in guide]
    assert not missing


def test_commands_in_the_readme_exist():
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"(?:^|`)onceflow ([a-z][a-z-]*)", text, re.M))
    helped = subprocess.run([sys.executable, "-m", "onceflow.cli.main", "--help"], capture_output=True, text=True)
    known = set(re.findall(r"^  ([a-z-]+)", helped.stdout, re.M))
    assert named and named <= known


def test_the_readme_names_make_targets_that_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        code = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.S))
        assert set(re.findall(r"^make ([a-z]+)", code, re.M)) <= targets
