"""The package as people get it: a wheel in an environment of its own, and what is in there with it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import NSYS, ROOT

pytestmark = pytest.mark.system

MOST_BYTES = 450 * 10**6
FILE = NSYS / "basic-3.25.0.sqlite"


def done(*command: str | Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    outcome = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr[-2000:]
    return outcome.stdout


def tracked(*names: str) -> list[str]:
    """The files of the tree below these names that git does not ignore."""
    files = done("git", "ls-files", "-zco", "--exclude-standard", *names, cwd=ROOT)
    return [name for name in files.split("\0") if name]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment that holds a wheel of this tree and what it needs, nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    # What is built must not lie in the tree, nor what lies in the tree be in what is built.
    for name in tracked("nsysconv", "pyproject.toml", "README.md", "LICENSE"):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    done(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    pip = folder / "env" / "bin" / "pip"
    done(pip, "wheel", "-q", "--no-deps", "-w", folder, source, cwd=folder)
    (wheel,) = folder.glob("nsysconv-*.whl")
    done(pip, "install", "-q", wheel, cwd=folder)
    return folder / "env"


def packages(environment: Path) -> set[str]:
    listed = done(environment / "bin" / "pip", "list", "--format=freeze", cwd=environment)
    return {line.partition("==")[0].lower().replace("_", "-") for line in listed.splitlines()}


def test_the_command_imports_and_reports(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "nsysconv"
    assert done(command, "import", FILE, "-o", "job.db", cwd=tmp_path).startswith("job.db@")
    assert "saxpy" in done(command, "report", "job.db", "kernels", cwd=tmp_path)
    done(command, "report", "job.db", "-o", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<style>" in page
    assert "<script>" in page


def test_a_script_uses_the_library(installed: Path, tmp_path: Path) -> None:
    script = (
        "import nsysconv\n"
        f"nsysconv.import_files([{str(FILE)!r}], store='job.db')\n"
        "with nsysconv.open('job.db') as profile:\n"
        "    frame = profile.report('kernels').to_pandas()\n"
        "print(frame['kernel_count'].sum(), type(frame).__name__)\n"
    )
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    count, kind = done(installed / "bin" / "python", "script.py", cwd=tmp_path).split()
    assert int(count) > 0
    assert kind == "DataFrame"


def test_the_wheel_holds_every_file_of_the_package(installed: Path) -> None:
    (packages,) = installed.glob("lib/python*/site-packages")
    assert [name for name in tracked("nsysconv") if not (packages / name).exists()] == []


def test_the_wheel_installs_no_extras(installed: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    optional = {text.partition(">")[0] for each in extras for text in each}
    assert optional
    # Tests read Markdown with what rich needs for itself.
    assert not packages(installed) & optional - {"markdown-it-py"}


def test_the_wheel_is_small(installed: Path) -> None:
    sizes = {path: path.stat().st_size for path in installed.rglob("*") if not path.is_symlink()}
    assert sum(sizes.values()) <= MOST_BYTES
