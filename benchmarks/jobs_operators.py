"""The jobs on what PyTorch's users ask: operators of a stored trace, imports with Python functions.

`operators` is measured beside two things that do less: both add up the durations of operators by name,
one after reading the trace as JSON, one from the columns of the store. Neither knows which operator
lies in which, nor what it launched.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import inputs
from jobs_kineto import MEMORY, Layout, source
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from results import Bar, Group, Job

MB = 500
FUNCTIONS_MB = 250
MOST_S = 3
MOST_TIMES = 1.25
JSON = "msgspec + pandas groupby of the trace"
COLUMNS = "pandas read_sql + groupby of the store"
WITH, WITHOUT = "nsysconv import --include python_functions", "nsysconv import"
OPERATORS = Layout("arguments on one line", "facebookresearch+HolisticTraceAnalysis__nccl_data.json.gz",
                   "training-2.5.json.gz")  # fmt: skip
FUNCTIONS = (
    Layout("half of them Python functions",
           "sidnb13+torch-profiling-tutorial__dcb0aa1a78e7_4399.1752181589621105859.pt.trace.json",
           "training-2.13.json"),
    Layout("printed again, indented", "AMD-AGI+TraceLens__eager_trace.json.gz",
           "odd-reprinted.json.gz"),
)  # fmt: skip


def of_store(trace: Path, megabytes: int, runs: int) -> Job:
    """Return the report on operators of the store of a trace, beside the baselines."""
    store, answers = DATA / "operators.db", DATA / "operators.json"
    remove(store)
    subprocess.run([*NSYSCONV, "import", str(trace), "-o", str(store)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    command = [*NSYSCONV, "report", str(store), "operators", "-o", str(answers)]
    sides = in_turn([
        Side("nsysconv report operators", command, (answers,)),
        Side(COLUMNS, baseline("pandas_operators", store)),
        Side(JSON, baseline("msgspec_operators", trace)),
    ], runs)  # fmt: skip
    for path in (store, answers):
        remove(path)
    return Job("operators from the store", megabytes, "MB", sides, [Bar("s", MOST_S, why="operators")])


def with_functions(layout: Layout, trace: Path, megabytes: int, runs: int) -> Job:
    """Return the import of a trace with its Python functions, beside that without."""
    store = DATA / "functions.db"
    command = [*NSYSCONV, "import", str(trace), "-o", str(store)]
    sides = in_turn([
        Side(WITH, [*command, "--include", "python_functions"], (store,)),
        Side(WITHOUT, command, (store,)),
    ], runs)  # fmt: skip
    remove(store)
    return Job(f"import with Python functions, {layout.name}", megabytes, "MB", sides,
               [Bar("times", MOST_TIMES, WITHOUT, "python-functions"), MEMORY])  # fmt: skip


def run(real: Path, megabytes: int, functions_megabytes: int, runs: int, setting: str) -> Group:
    """Return all of them."""
    group = Group("Operators of PyTorch", setting)
    if trace := source(OPERATORS, real, group.skipped):
        group.say(of_store(inputs.trace(trace, megabytes), megabytes, runs))
    for layout in FUNCTIONS:
        if trace := source(layout, real, group.skipped):
            large = inputs.trace(trace, functions_megabytes)
            group.say(with_functions(layout, large, functions_megabytes, runs))
    return group
