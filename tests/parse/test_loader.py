"""The loader that all guests share, in processes of its own: it changes what can be imported."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SUPPORT = """
import sys, traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from onceflow.guest.loader import load_class, load_file
from onceflow.model.errors import DagError

folder = Path(sys.argv[1])

def write(name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)

DAG = "from onceflow import DAG\\nwith DAG({!r}): pass\\n"
"""


def run(folder: Path, code: str) -> str:
    command = [sys.executable, "-c", SUPPORT + textwrap.dedent(code), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_edited_file_gives_its_new_class_and_an_unedited_one_the_same(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        write("t.py", "class T: number = 1\\n")
        first = load_class("t.T", "t.py", folder)
        assert load_class("t.T", "t.py", folder) is first
        write("t.py", "class T: number = 2\\n")
        assert load_class("t.T", "t.py", folder).number == 2
        """,
    )


def test_a_class_that_is_gone_is_told(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        write("t.py", "T = 5\\n")
        for classpath, file in (("t.T", "t.py"), ("t.U", "t.py"), ("json.T", "")):
            try:
                load_class(classpath, file, folder)
            except DagError as error:
                assert "has no class" in error.message
            else:
                raise AssertionError(classpath)
        """,
    )


def test_kept_source_runs_instead_of_the_file_and_is_quoted(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        write("f.py", "raise SystemExit\\n")
        kept = b"from onceflow import DAG\\nwith DAG('kept'): pass\\ndef boom(): 1 / 0  # old\\n"
        loaded = load_file("f.py", folder, kept)
        assert [d.dag_id for d in loaded.dags] == ["kept"] and loaded.dag("kept") is loaded.dags[0]
        try:
            loaded.module.boom()
        except ZeroDivisionError:
            assert "1 / 0  # old" in traceback.format_exc()
        """,
    )


def test_files_loaded_by_several_threads_keep_their_own_dags(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        for n in range(20):
            write(f"f{n}.py", DAG.format(f"d{n}") + "import time\\n")
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: [d.dag_id for d in load_file(f"f{n}.py", folder).dags], range(20)))
        assert found == [[f"d{n}"] for n in range(20)]
        """,
    )


def test_a_file_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        write("bad.py", "from onceflow import DAG\\nwith DAG('bad'):\\n    1 / 0\\n")
        write("good.py", DAG.format("good"))
        try:
            load_file("bad.py", folder)
        except ZeroDivisionError:
            pass
        assert "bad" not in sys.modules
        assert [d.dag_id for d in load_file("good.py", folder).dags] == ["good"]
        """,
    )


def test_the_folder_is_the_last_place_to_import_from(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        write("json.py", "raise RuntimeError")
        write("helpers.py", "value = 5\\n")
        write("team/__init__.py", "")
        write("team/more.py", "value = 6\\n")
        write("team/etl.py", "import json, helpers\\nfrom . import more\\nfrom onceflow import DAG\\nDAG('x')\\n")
        module = load_file("team/etl.py", folder).module
        assert (module.helpers.value, module.more.value, module.__name__) == (5, 6, "team.etl")
        import team.etl
        assert team.etl is module and sys.path[-1] == str(folder)
        """,
    )


def test_no_byte_code_is_kept_of_what_a_file_imports(tmp_path: Path) -> None:
    """A helper edited within a second, to the same size, is another one; byte code would hide that."""
    (tmp_path / "imported_once.py").write_text("VALUE = 1\n")
    (tmp_path / "imports.py").write_text("import imported_once\n")
    code = f"from onceflow.guest.loader import load_file; load_file('imports.py', {str(tmp_path)!r})"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert not (tmp_path / "__pycache__").exists()
