"""Fixtures of nsys: which schema ages each workload is written in, and odd files."""

from __future__ import annotations

from functools import partial

import scenario_operators
from emit_nvtx import with_ranges
from fixture import Fixture
from nsys_tables import AGES
from odd_fixtures import ODD
from scenario_cpu_side import WORKLOAD as CPU_SIDE
from scenario_nccl import WORKLOAD as NCCL
from scenarios import WORKLOADS
from write_nsys import write_nsys

# Those where its subject looks different.
NSYS_AGES: dict[str, tuple[str, ...]] = {
    "basic": tuple(AGES),
    "two_processes_one_gpu": ("2.7.0", "3.13.2", "3.24.14", "3.28.1"),
    "two_processes_two_gpus": ("2020", "3.7.2", "3.17.2", "3.24.7"),
    "graphs": ("3.4.0", "3.13.2", "3.24.0", "3.28.1"),
    "unified_memory": ("2021", "3.1.2", "3.17.2", "3.25.0"),
    "ranges": ("2021", "3.0.0", "3.16.1", "3.28.1"),
    "no_gpu": ("2.9.1", "3.16.1", "3.25.0"),
    "cpu_side": ("2.9.1", "3.4.0", "3.17.2", "3.28.1"),
    "operators": ("3.0.0", "3.28.1"),
    "nccl": ("3.25.0", "3.28.1"),
}
_WORKLOADS = {
    **WORKLOADS,
    CPU_SIDE.name: CPU_SIDE,
    "operators": with_ranges(scenario_operators.WORKLOAD, scenario_operators.FRAMEWORK),
    NCCL.name: NCCL,
}
# Not profiles, or damaged beyond use.
_REFUSED = ("empty.sqlite", "foreign.sqlite", "lfs-pointer.sqlite", "report.nsys-rep",
            "truncated.sqlite")  # fmt: skip

ABOUT = """\
`nsys/` holds the workloads of `scripts/scenario_*.py` as SQLite exports of Nsight Systems, one file
per schema age (`scripts/nsys_tables.py`). Tables, columns and spellings follow exports found in
public repositories; schema 3.28.1, whole graphs and graph nodes follow NVIDIA's documentation. The
figures that each workload must give are in the same modules, worked out by hand. Only here is
`cpu_side`: what threads did beside the CUDA API, memory, page faults and GPU metrics. Its tables
follow NVIDIA's documentation and empty tables of exports; names of OpenMP's events are invented.
`operators` has PyTorch's operators as the ranges that `emit_nvtx` makes of them (`scripts/emit_nvtx.py`).
`nccl` has payloads of NCCL's ranges: their schemas follow real exports, their bytes what a public project
says of them (docs/formats/nsys.md); no real payload was seen.
`basic-2.9.1` has all tables, with and without rows; the other ages have tables with rows only. From
3.24.7 on the rows are in no order. Every file has made-up secrets, texts with `SECRET-` in them, in
the places where real exports hold environments, names and output.

`odd/` holds damaged, trimmed and foreign files.
"""
EXAMPLE = "nsys/cpu_side-3.28.1.sqlite"
FILES = [
    *(
        Fixture(f"nsys/{name}-{age}.sqlite",
                f"{_WORKLOADS[name].title}; as of nsys {AGES[age].product}",
                partial(write_nsys, _WORKLOADS[name], age=age),
                between=age in ages[1:-1])
        for name, ages in NSYS_AGES.items() for age in ages
    ),
    *(Fixture(f"odd/{name}", holds, make, refused=name in _REFUSED)
      for name, (make, holds) in ODD.items()),
]  # fmt: skip
