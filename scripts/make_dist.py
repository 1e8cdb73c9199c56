"""Build the sdist, and the wheel from it, into dist/; check what is in them; install and use the wheel.

python scripts/make_dist.py

They are built from the files that git knows, in a folder of their own: what else lies in the tree is
not in them. The wheel is installed into an empty environment, and answers a profile there. What is
wrong is printed, and the exit status is 1.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PROFILE = ROOT / "tests" / "fixtures" / "nsys" / "basic-3.25.0.sqlite"
MAN_PAGE = "share/man/man1/nsysconv.1"
MOST_WHEEL_BYTES, MOST_SDIST_BYTES = 2 * 10**6, 6 * 10**6
# What a package is not made of.
_NOT_PACKED = ("tests/", "benchmarks/", "fuzz/", "faults/", ".")
_IN_SDIST = ("CHANGELOG.md", "LICENSE", "README.md", "ci/gate.sh", "docs/README.md", "man/nsysconv.1")


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command and return its stdout; raise RuntimeError with its stderr where it fails."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    words = [*map(str, command)]
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def tracked(*names: str) -> list[str]:
    """Return the files of the tree, or below these names, that git does not ignore and that are there."""
    files = run("git", "ls-files", "-zco", "--exclude-standard", *names, cwd=ROOT)
    return [name for name in files.split("\0") if name and (ROOT / name).exists()]


def build(folder: Path) -> tuple[Path, Path]:
    """Build in an empty folder, and return the wheel and the sdist."""
    source = folder / "source"
    for name in tracked():
        if not name.startswith(_NOT_PACKED):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    date = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    os.environ["SOURCE_DATE_EPOCH"] = str(date)
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", source, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    _give_dates(sdist, date)
    return wheel, sdist


def _give_dates(sdist: Path, date: int) -> None:
    # As the wheel has them by itself: the same files make the same bytes.
    def dated(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = date, 0, 0, "", ""
        member.pax_headers = {}
        return member

    with tarfile.open(sdist) as old:
        members = [(dated(each), old.extractfile(each)) for each in sorted(old, key=lambda m: m.name)]
        packed = io.BytesIO()
        with (
            gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=date) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
        ):
            for member, content in members:
                new.addfile(member, content)
    sdist.write_bytes(packed.getvalue())


def install(wheel: Path, environment: Path) -> Path:
    """Install the wheel into a new environment and return the command."""
    run(sys.executable, "-m", "venv", environment, cwd=environment.parent)
    run(environment / "bin" / "pip", "install", "-q", wheel, cwd=environment.parent)
    return environment / "bin" / "nsysconv"


def version() -> str:
    """Return the version, which `nsysconv/__init__.py` alone has."""
    text = (ROOT / "nsysconv" / "__init__.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'(?m)^__version__ = "([\d.]+)"$', text)
    return str(found)


def wrong_in_wheel(wheel: Path) -> Iterator[str]:
    """Yield what is missing in a wheel, and what should not be in it."""
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    info = f"nsysconv-{version()}.dist-info"
    data = f"nsysconv-{version()}.data/data/{MAN_PAGE}"
    needed = {*tracked("nsysconv"), f"{info}/licenses/LICENSE", f"{info}/entry_points.txt", data}
    yield from (f"the wheel lacks {name}" for name in sorted(needed - names))
    others = {name for name in names - needed if not name.startswith(f"{info}/")}
    yield from (f"the wheel has {name}" for name in sorted(others))
    yield from _too_large(wheel, MOST_WHEEL_BYTES)


def wrong_in_sdist(sdist: Path) -> Iterator[str]:
    """Yield what is missing in an sdist, and what should not be in it."""
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    needed = {*tracked("nsysconv"), *_IN_SDIST}
    yield from (f"the sdist lacks {name}" for name in sorted(needed - names))
    yield from (f"the sdist has {name}" for name in sorted(names) if name.startswith(_NOT_PACKED))
    yield from _too_large(sdist, MOST_SDIST_BYTES)


def _too_large(path: Path, most: int) -> Iterator[str]:
    size = path.stat().st_size
    if size > most:
        yield f"{path.name} has {size:,} bytes, more than {most:,}"


def wrong_when_installed(command: Path, folder: Path) -> Iterator[str]:
    """Yield what an installed command does not do."""
    said = run(command, "--version", cwd=folder).partition("\n")[0]
    if said != f"nsysconv {version()}":
        yield f"nsysconv --version says {said}"
    if "saxpy" not in run(command, "report", PROFILE, "kernels", cwd=folder):
        yield "nsysconv report says nothing of the kernels of a profile"
    if not (command.parent.parent / MAN_PAGE).exists():
        yield f"no {MAN_PAGE} is installed"


def main() -> int:
    """Build, check and install; return the exit status."""
    with TemporaryDirectory(prefix="nsysconv-dist-") as name:
        folder = Path(name)
        wheel, sdist = build(folder)
        wrong = [*wrong_in_wheel(wheel), *wrong_in_sdist(sdist)]
        wrong += wrong_when_installed(install(wheel, folder / "env"), folder)
        DIST.mkdir(exist_ok=True)
        for path in (wheel, sdist):
            shutil.copy2(path, DIST)
            print(f"dist/{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
