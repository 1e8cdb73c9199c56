"""A file under tests/fixtures, as the modules `fixtures_<importer>.py` list them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workload import Process, Workload


@dataclass(frozen=True)
class Fixture:
    """One file: `make` writes it to a path, None where it was recorded.

    `refused`: its importer says no to it. `between`: there are older and newer ones of the same.
    """

    name: str
    holds: str
    make: Callable[[Path], None] | None
    origin: str = "made up, `scripts/make_fixtures.py`"
    refused: bool = False
    between: bool = False


def of_processes(
    workloads: Iterable[Workload], suffixes: Mapping[str, str]
) -> dict[str, tuple[Workload, str, Process]]:
    """Return what a file of each process and age is of, by its name. `suffixes` are those of the ages."""
    return {
        f"{workload.name}-{age}{_which(workload, '-{}', process)}.{suffix}": (workload, age, process)
        for workload in workloads
        for age, suffix in suffixes.items()
        for process in workload.processes
    }


def holds(workload: Workload, process: Process, product: str) -> str:
    """Return what the file of a process holds, in words."""
    return f"{_which(workload, 'process {} of: ', process)}{workload.title}; as of {product}"


def _which(workload: Workload, text: str, process: Process) -> str:
    return text.format(process.pid) if len(workload.processes) > 1 else ""
