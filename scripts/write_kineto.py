"""Write a process of a workload as the trace that some release of PyTorch exports."""

from __future__ import annotations

import gzip
from pathlib import Path

from kineto_ages import AGES
from kineto_framework import NOTHING, Framework
from kineto_layout import document
from kineto_rows import rows
from workload import Process, Workload


def write_kineto(
    workload: Workload, process: Process, path: Path, age: str, framework: Framework = NOTHING
) -> None:
    """Write one process to `path`, which is replaced, as of that age (see `AGES`).

    A file whose name ends in `.gz` is compressed. The same input gives the same text; a trace holds
    one process, so a workload of two becomes two files.
    """
    write_text(kineto_text(workload, process, age, framework), path)


def kineto_text(
    workload: Workload, process: Process, age: str, framework: Framework = NOTHING
) -> str:
    """Return the text of that file."""
    release = AGES[age]
    return document(workload, process, release, rows(workload, process, release, framework))


def write_text(text: str | bytes, path: Path) -> None:
    """Write a text, compressed without a time or a name where the path ends in `.gz`."""
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
