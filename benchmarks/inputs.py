"""The large files that jobs work on, made when they are missing: real files, or fixtures, repeated.

A file's name has a digest of what repeats: what another version of it made is not measured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import repeat_export
import repeat_log
import repeat_ranks
import repeat_report
import repeat_rocpd
import repeat_trace
import repeat_xplane
from measure import DATA, HERE, remove

FIXTURES = HERE.parent / "tests" / "fixtures"


@cache
def version() -> str:
    """Return a digest of what repeats."""
    paths = sorted(HERE.glob("repeat_*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:6]


def real(folder: Path, name: str) -> Path | None:
    """Return the real file of this name in a folder or below it; None if it is not there."""
    return next((path for path in sorted(folder.rglob("*")) if path.name == name), None)


def source(folder: Path, name: str, fixture: str, skipped: list[str]) -> Path:
    """Return the real file of this name, else a fixture; says so in `skipped`."""
    found = real(folder, name)
    if found is None and name:
        skipped.append(f"{name} is not there: a fixture took its place, {fixture}")
    return found or FIXTURES / fixture


def export(source: Path, kernels: int) -> Path:
    """Return an export of Nsight Systems, repeated."""
    return _made(repeat_export.generate, source, f"{kernels}", ".sqlite", kernels)


def report(source: Path, kernels: int) -> Path:
    """Return a report of Nsight Systems, repeated."""
    return _made(repeat_report.generate, source, f"{kernels}", ".nsys-rep", kernels)


def trace(source: Path, megabytes: int, suffix: str = "", *, metadata: bool = False) -> Path:
    """Return a trace of PyTorch, repeated to so many MB before it is compressed; `.gz` compresses it."""
    size = f"{megabytes}{'-metadata' if metadata else ''}"
    generate = partial(repeat_trace.generate, metadata=metadata)
    return _made(generate, source, size, f".json{suffix}", megabytes * 1_000_000)


def nvprof(source: Path, rows: int) -> Path:
    """Return a GPU trace that nvprof printed, CSV or text, repeated."""
    return _made(repeat_log.generate, source, f"{rows}", source.suffix, rows)


def rocpd(source: Path, kernels: int) -> Path:
    """Return a database of rocprofv3, repeated."""
    return _made(repeat_rocpd.generate, source, f"{kernels}", ".db", kernels)


def xplane(source: Path, megabytes: int) -> Path:
    """Return a profile of XLA, repeated."""
    return _made(repeat_xplane.generate, source, f"{megabytes}", ".xplane.pb", megabytes * 1_000_000)


def ranks(source: Path, count: int, kernels: int) -> Path:
    """Return a folder of exports: a job, with an export per rank."""
    return _made(repeat_ranks.generate, source, f"{count}x{kernels}", "", count, kernels)


def _made(generate: Callable[..., object], source: Path, size: str, suffix: str, *how: object) -> Path:
    stem = source.name.removesuffix(".gz").rpartition(".")[0]
    path = DATA / f"{stem}-{size}-{version()}{suffix}"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        growing = path.with_name(f"unfinished-{path.name}")
        remove(growing)
        generate(growing, source, *how)
        growing.rename(path)
    return path
