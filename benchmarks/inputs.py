"""The generated files that jobs work on, made when they are missing.

A file's name has a digest of the generators in it: what another version of them made is not measured.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path

from measure import DATA, HERE, remove

GENERATORS = ("generate_*.py", "training_job.py", "kineto_*.py")


@cache
def version() -> str:
    """A digest of the generators."""
    paths = sorted(path for pattern in GENERATORS for path in HERE.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:6]


def nsys(kernels: int, seed: int = 1) -> Path:
    """An export of Nsight Systems."""
    return _made("generate_nsys.py", f"nsys-{kernels}-seed{seed}", ".sqlite", "--kernels", kernels,
                 "--seed", seed)  # fmt: skip


def kineto(megabytes: int, suffix: str = "") -> Path:
    """A trace of PyTorch, of so many MB before it is compressed; `.gz` compresses it."""
    return _made(
        "generate_kineto.py", f"kineto-{megabytes}", f".json{suffix}", "--mb", megabytes
    )


def nvprof(rows: int) -> Path:
    """A GPU trace that nvprof printed, CSV."""
    return _made("generate_nvprof.py", f"nvprof-{rows}", ".csv", "--rows", rows)


def ranks(count: int, kernels: int) -> Path:
    """A folder of exports of the ranks of one job."""
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
