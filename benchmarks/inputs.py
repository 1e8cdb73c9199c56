"""The large files that jobs work on, made when they are missing: real files repeated, or made up.

A file's name has a digest of the generators in it: what another version of them made is not measured.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path

from measure import DATA, HERE, remove

FIXTURES = HERE.parent / "tests" / "fixtures"
GENERATORS = ("generate_*.py", "repeat_*.py", "training_job.py")


@cache
def version() -> str:
    """Return a digest of the generators."""
    paths = sorted(path for pattern in GENERATORS for path in HERE.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:6]


def real(folder: Path, name: str) -> Path | None:
    """Return the real file of this name in a folder or below it; None if it is not there."""
    return next((path for path in sorted(folder.rglob("*")) if path.name == name), None)


def nsys(kernels: int, seed: int = 1) -> Path:
    """Return an export of Nsight Systems, made up."""
    return _made("generate_nsys.py", f"nsys-{kernels}-seed{seed}", ".sqlite", "--kernels", kernels,
                 "--seed", seed)  # fmt: skip


def export(source: Path, kernels: int) -> Path:
    """Return an export of Nsight Systems, repeated."""
    stem = f"{source.name.removesuffix('.sqlite')}-{kernels}"
    return _made("repeat_export.py", stem, ".sqlite", source, "--kernels", kernels)


def report(source: Path, kernels: int) -> Path:
    """Return a report of Nsight Systems, repeated."""
    stem = f"{source.name.removesuffix('.nsys-rep')}-{kernels}"
    return _made("repeat_report.py", stem, ".nsys-rep", source, "--kernels", kernels)


def trace(source: Path, megabytes: int, suffix: str = "", *, metadata: bool = False) -> Path:
    """Return a trace of PyTorch, repeated to so many MB before it is compressed; `.gz` compresses it."""
    stem = source.name.removesuffix(".gz").removesuffix(".json")
    flags = ["--metadata"] if metadata else []
    return _made("repeat_trace.py", f"{stem}-{megabytes}{''.join(flags)}", f".json{suffix}", source,
                 "--mb", megabytes, *flags)  # fmt: skip


def nvprof(rows: int) -> Path:
    """Return a GPU trace that nvprof printed, CSV, made up."""
    return _made("generate_nvprof.py", f"nvprof-{rows}", ".csv", "--rows", rows)


def ranks(count: int, kernels: int) -> Path:
    """Return a folder of made-up exports: a job, with an export per rank."""
    return _made("generate_ranks.py", f"ranks-{count}x{kernels}", "", "--ranks", count, "--kernels",
                 kernels)  # fmt: skip


def _made(script: str, stem: str, suffix: str, *arguments: object) -> Path:
    path = DATA / f"{stem}-{version()}{suffix}"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        growing = path.with_name(f"unfinished-{path.name}")
        remove(growing)
        command = [sys.executable, str(HERE / script), str(growing), *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        growing.rename(path)
    return path
