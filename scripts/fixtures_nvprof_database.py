"""Fixtures of nvprof's databases: a file per process and version."""

from __future__ import annotations

from functools import partial

from fixture import Fixture, holds, of_processes
from nvprof_counters import write_counters
from nvprof_tables import AGES
from scenarios import WORKLOADS
from write_nvprof_database import write_nvprof_database

_SUFFIX = {"9": "nvprof", "12": "nvvp"}
# Databases of nvprof hold graphs by their nodes only.
_LEFT_OUT = ("graphs", 7001)

ABOUT = """\
`nvprof_database/` holds the workloads of `nsys/` as `nvprof -o FILE` writes them, a file per process
and version (`scripts/nvprof_tables.py`): version 9 with times of the machine's own clock, version 12
with times of day. Tables, columns and codes follow databases found in public repositories. What nvprof
does not record is left out: whole graphs, graph nodes, lazy loading, the system's names of threads.
`counters-12.nvvp` (`scripts/nvprof_counters.py`) is a run that measured metrics and events.
Every file has made-up secrets where real ones hold command lines and environments.
"""
EXAMPLE = "nvprof_database/basic-9.nvprof"
DATABASES = {
    name: (workload, age, process)
    for name, (workload, age, process) in of_processes(WORKLOADS.values(), _SUFFIX).items()
    if (workload.name, process.pid) != _LEFT_OUT
}
FILES = [
    Fixture(f"nvprof_database/{name}", holds(workload, process, AGES[age].product),
            partial(write_nvprof_database, workload, process, age=age))
    for name, (workload, age, process) in DATABASES.items()
]  # fmt: skip
FILES.append(
    Fixture("nvprof_database/counters-12.nvvp",
            "kernels one after the other with seven metrics and two events; as of nvprof of CUDA 10.2",
            write_counters)
)  # fmt: skip
