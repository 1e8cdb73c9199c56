"""Answers of HolisticTraceAnalysis about Kineto traces, for tests/test_other_tools.py.

It needs an environment of its own, since it is not a dependency of nsysconv; of pandas it needs 2:

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis==0.5.0 "pandas<3"
    hta/bin/python scripts/answers_of_hta.py TRACE... > tests/hta_answers.json

Of each trace it prints, times in microseconds as HTA has them:

* `gpu_rows`: the rows that HTA takes for GPU work, and how many of them are kernels, copies or sets
* `idle`, `compute`, `non_compute`, `total`: get_temporal_breakdown
* `overlap_pct`: get_comm_comp_overlap; null where there is no communication
* `kinds`: get_gpu_kernel_breakdown, memory kernels included
* `launches`: get_cuda_kernel_launch_stats by function: count, sums of cpu_duration, gpu_duration and
  launch_delay, how many are short, have long calls, are late (with HTA's cutoffs)
* `queues`: get_queue_length_summary by stream: count, mean, std, min, 25 %, 50 %, 75 %, max

Two settings keep HTA from leaving things out: times keep their nanoseconds, and the last profiler step
stays.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

LONG_CALL_US, LONG_QUEUE_US = 50, 100
GPU_WORK = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")


def number(value: Any) -> Any:
    """Return a number in its shortest form; None if it is not a number."""
    if value != value:
        return None
    rounded = round(float(value), 3)
    return int(rounded) if rounded.is_integer() else rounded


def launches(analysis: Any, frame: Any, texts: list[str]) -> dict[str, list[Any]]:
    """Return launch statistics by function; HTA's own rows name the correlation id only."""
    stats = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
    calls = frame[(frame["stream"] == -1) & (frame["correlation"] > 0)]
    names = dict(zip(calls["correlation"], calls["name"], strict=True))
    found = {}
    for name, mine in stats.groupby(stats["correlation"].map(names)):
        cpu, gpu, late = (mine[c] for c in ("cpu_duration", "gpu_duration", "launch_delay"))
        found[texts[int(name)]] = [
            len(mine),
            *(number(column.sum()) for column in (cpu, gpu, late)),
            int(((cpu <= LONG_CALL_US) & (gpu < cpu)).sum()),
            int((cpu > LONG_CALL_US).sum()),
            int((late > LONG_QUEUE_US).sum()),
        ]
    return found


def answers(path: Path) -> dict[str, Any]:
    """Return all that is asked of one trace; what HTA fails at is the name of its error."""
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files={0: str(path)}, include_last_profiler_step=True)
    frame, texts = analysis.t.get_trace(0), analysis.t.symbol_table.get_sym_table()
    on_gpu = frame[frame["stream"] != -1]
    work = sum(texts[cat] in GPU_WORK for cat in on_gpu["cat"])
    said: dict[str, Any] = {"gpu_rows": (len(on_gpu), work)}
    try:
        (row,) = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
        for ours, theirs in (
            ("idle", "idle_time"),
            ("compute", "compute_time"),
            ("non_compute", "non_compute_time"),
            ("total", "kernel_time"),
        ):
            said[ours] = number(row[f"{theirs}(us)"])
    except IndexError as error:
        said["idle"] = type(error).__name__
    (row,) = analysis.get_comm_comp_overlap(visualize=False).to_dict("records")
    said["overlap_pct"] = number(row["comp_comm_overlap_pctg"])
    kinds, _ = analysis.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True)
    said["kinds"] = {row["kernel_type"]: number(row["sum"]) for row in kinds.to_dict("records")}
    said["launches"] = launches(analysis, frame, texts)
    queues = analysis.get_queue_length_summary()
    rows = [] if queues is None else queues["queue_length"].iterrows()
    said["queues"] = {int(stream): [number(x) for x in row] for (_, stream), row in rows}
    return said


def main() -> None:
    """Print the answers of the traces named on the command line, a line each."""
    from importlib.metadata import version

    traces = []
    for path in map(Path, sys.argv[1:]):
        try:
            said: dict[str, Any] = answers(path)
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        lines = ",\n".join(f"   {json.dumps(key)}: {json.dumps(said[key])}" for key in said)
        traces.append(f"  {json.dumps(path.name)}: {{\n{lines}\n  }}")
    hta = json.dumps(version("HolisticTraceAnalysis"))
    print(f'{{\n "hta": {hta},\n "answers": {{\n' + ",\n".join(traces) + "\n }\n}")


if __name__ == "__main__":
    main()
