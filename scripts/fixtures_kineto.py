"""Fixtures of Kineto: workloads in the layouts of three releases, odd files, and recorded traces."""

from __future__ import annotations

from functools import partial

import kineto_training
import record_pytorch
import scenario_operators
from fixture import Fixture, holds, of_processes
from kineto_ages import AGES
from kineto_framework import NOTHING
from odd_kineto import ODD_KINETO
from scenarios import WORKLOADS
from write_kineto import write_kineto

# Traces hold one process each; those of the middle age are compressed.
_SUFFIX = {"1.9": "json", "2.5": "json.gz", "2.13": "json"}
_OF_PYTORCH = (kineto_training, scenario_operators)
KINETO_WORKLOADS = {**WORKLOADS, **{each.WORKLOAD.name: each.WORKLOAD for each in _OF_PYTORCH}}
KINETO_FRAMEWORKS = {each.WORKLOAD.name: each.FRAMEWORK for each in _OF_PYTORCH}
_REFUSED = ("odd-autograd.json", "odd-browser.json")

ABOUT = """\
`kineto/` holds traces of PyTorch's profiler (Kineto). `WORKLOAD-AGE.json` and
`WORKLOAD-AGE-PID.json` are the same workloads as in `nsys/` and one of PyTorch's own, `training`, in
the layouts of three releases (`scripts/kineto_layout.py`); a trace holds one process, so a workload
of two is two files. Keys, spellings and line breaks follow traces found in public repositories and,
for 2.13, traces recorded with it on a CPU; rows of GPU work of 2.13 follow Kineto's published
source. What PyTorch does not record is left out: some API calls, migrations, marks, whole graphs.
Every trace of these has made-up secrets where real ones hold paths and keys that users add.
`odd-….json` are damaged, merged and foreign files.

`recorded-….json.gz` are the only files here that a program made: `scripts/record_pytorch.py` ran its
own small training under PyTorch 2.13.0 (CPU build). Host name, ids of process, threads and trace,
the path of the file, paths of Python code and addresses in names were replaced, as that script says;
times, names and order are as recorded.
"""
EXAMPLE = "kineto/recorded-training.json.gz"
TRACES = of_processes(KINETO_WORKLOADS.values(), _SUFFIX)
FILES = [
    *(Fixture(f"kineto/{name}", holds(workload, process, AGES[age].product),
              partial(write_kineto, workload, process, age=age,
                      framework=KINETO_FRAMEWORKS.get(workload.name, NOTHING)),
              between=age == "2.5")
      for name, (workload, age, process) in TRACES.items()),
    *(Fixture(f"kineto/{name}", text, make, refused=name in _REFUSED)
      for name, (make, text) in ODD_KINETO.items()),
    *(Fixture(f"kineto/{name}", text, None, record_pytorch.ORIGIN)
      for name, text in record_pytorch.RECORDED.items()),
]  # fmt: skip
