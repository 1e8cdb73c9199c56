"""Fixtures of rocpd databases: the workloads as rocprofv3 would have recorded them."""

from __future__ import annotations

from functools import partial

from fixture import Fixture
from scenarios import WORKLOADS
from write_rocpd import AGES, write_rocpd

ABOUT = """\
`rocpd/` holds workloads of `nsys/` as rocprofv3 writes them (`scripts/write_rocpd.py`): with columns of
schema 3, 3.0.2 and 4.1, of one process or several merged. Names of functions are HIP's, memory is set by
kernels. Made-up secrets are where real files hold command lines, environments and paths.
"""
EXAMPLE = "rocpd/basic-3.db"
DATABASES = {
    **{f"basic-{age}.db": ("basic", age) for age in AGES},
    "ranges-3.db": ("ranges", "3"),
    "two_processes_two_gpus-3.db": ("two_processes_two_gpus", "3"),
    "graphs-3.0.2.db": ("graphs", "3.0.2"),
    "no_gpu-4.1.0.db": ("no_gpu", "4.1.0"),
}
"""Name of a file -> its workload and age."""
FILES = [
    Fixture(
        f"rocpd/{name}",
        f"{WORKLOADS[workload].title}; rocpd schema {age}",
        partial(write_rocpd, WORKLOADS[workload], age=age),
    )
    for name, (workload, age) in DATABASES.items()
]
