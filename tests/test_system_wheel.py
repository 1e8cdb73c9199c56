"""The package as people get it: a wheel in an environment of its own, and what is in there with it."""

from __future__ import annotations

import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path

import make_dist
import pytest
from conftest import NSYS, ROOT

pytestmark = pytest.mark.system

MOST_BYTES = 450 * 10**6
FILE = NSYS / "basic-3.25.0.sqlite"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and an sdist of this tree."""
    return make_dist.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment that holds the wheel and what it needs, nothing else."""
    environment = tmp_path_factory.mktemp("wheel") / "env"
    make_dist.install(built[0], environment)
    return environment


def packages(environment: Path) -> set[str]:
    listed = make_dist.run(environment / "bin" / "pip", "list", "--format=freeze", cwd=environment)
    return {line.partition("==")[0].lower().replace("_", "-") for line in listed.splitlines()}


def test_the_command_imports_and_reports(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "nsysconv"
    assert make_dist.run(command, "import", FILE, "-o", "job.db", cwd=tmp_path).startswith("job.db@")
    assert "saxpy" in make_dist.run(command, "report", "job.db", "kernels", cwd=tmp_path)
    make_dist.run(command, "report", "job.db", "-o", "page.html", cwd=tmp_path)
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
    count, kind = make_dist.run(installed / "bin" / "python", "script.py", cwd=tmp_path).split()
    assert int(count) > 0
    assert kind == "DataFrame"


def test_the_wheel_and_the_sdist_hold_what_they_should(
    built: tuple[Path, Path], installed: Path, tmp_path: Path
) -> None:
    wheel, sdist = built
    assert [*make_dist.wrong_in_wheel(wheel), *make_dist.wrong_in_sdist(sdist)] == []
    assert [*make_dist.wrong_when_installed(installed / "bin" / "nsysconv", tmp_path)] == []


def test_what_is_wrong_in_a_wheel_and_an_sdist_is_named(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel, sdist = (Path(shutil.copy2(path, tmp_path)) for path in built)
    packed = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(built[0]) as file, zipfile.ZipFile(wheel, "w", packed) as damaged:
        for name in file.namelist():
            if name != "nsysconv/notes.toml":
                damaged.writestr(name, file.read(name))
        damaged.writestr("tests/fixtures/large.sqlite", b"")
    assert [*make_dist.wrong_in_wheel(wheel)] == [
        "the wheel lacks nsysconv/notes.toml", "the wheel has tests/fixtures/large.sqlite"
    ]  # fmt: skip
    with tarfile.open(sdist, "w:gz") as damaged_sdist:
        damaged_sdist.add(__file__, f"nsysconv-{make_dist.version()}/tests/test_system_wheel.py")
    wrong = [*make_dist.wrong_in_sdist(sdist)]
    assert "the sdist lacks man/nsysconv.1" in wrong
    assert wrong[-1] == "the sdist has tests/test_system_wheel.py"


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
