"""Fixtures of rocprofv3's tables: a folder per age, with a file per kind of event."""

from __future__ import annotations

from functools import partial

from fixture import Fixture
from scenarios import WORKLOADS
from write_rocprofv3_csv import AGES, tables, write_table

_BASIC = WORKLOADS["basic"]
(_PROCESS,) = _BASIC.processes

ABOUT = """\
`rocprofv3_csv/` holds the workload `basic` as rocprofv3 prints it with `--output-format csv`
(`scripts/write_rocprofv3_csv.py`): a folder per age of columns, in it a table per kind of event.
"""
EXAMPLE = f"rocprofv3_csv/basic-7/{_PROCESS.pid}_kernel_trace.csv"
FILES = [
    Fixture(
        f"rocprofv3_csv/basic-{age}/{_PROCESS.pid}_{end}.csv",
        f"{end.replace('_', ' ')} of: {_BASIC.title}; columns of {age}",
        partial(
            lambda path, age, end: write_table(path, _BASIC, _PROCESS, age, end), age=age, end=end
        ),
        refused=end == "agent_info",
    )
    for age in AGES
    for end, _ in tables(_BASIC, _PROCESS, age)
]
