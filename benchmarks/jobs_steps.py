"""The jobs on steps and on distributions, each beside what scripts of pandas do with the same store.

The baselines do the same work: steps from one kernel of a name to the next, and what kernels took in
each; and the quantiles and the histogram of every kernel's durations.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from results import Bar, Group, Job

KERNELS = 5_000_000
EXPORT, FIXTURE = "GindaChen+nsys-ai__mfu_2gpu_before.sqlite", "nsys/basic-3.25.0.sqlite"
# A kernel of the export that comes once in each iteration; of the fixture any kernel.
ENDS = "nvjet_tst_192x208|saxpy"
STEPS, QUANTILES = "pandas read_sql + groupby by step", "pandas read_sql + groupby histogram"
MOST_TIMES = 0.5


def run(real: Path, kernels: int, runs: int, setting: str) -> Group:
    """Return the group."""
    group = Group("Steps and distributions", setting)
    source = inputs.export(inputs.source(real, EXPORT, FIXTURE, group.skipped), kernels)
    store, answer = DATA / "steps.db", DATA / "steps.json"
    remove(store)
    subprocess.run([*NSYSCONV, "import", str(source), "-o", str(store)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    for report, options, work, name in (
        ("steps", ["--step-kernel", ENDS], "pandas_steps", STEPS),
        ("cuda_gpu_kern_hist", [], "pandas_quantiles", QUANTILES),
    ):
        command = [*NSYSCONV, "report", str(store), report, *options, "-o", str(answer)]
        sides = in_turn([
            Side(f"nsysconv report {report}", command, (answer,)),
            Side(name, baseline(work, store)),
        ], runs)  # fmt: skip
        bars = [Bar("times", MOST_TIMES, name, "distributions")]
        group.say(Job(f"{report} of a store", kernels / 1e6, "M kernels", sides, bars))
    for path in (store, answer):
        remove(path)
    return group
