"""The jobs on Kineto traces: imports of each layout that they have, beside `json.load` and HTA's parser.

What is imported is a real trace, repeated. Bars are set over all layouts: their median, and the least.
One layout is read eight times as large, too, by nsysconv alone: its memory must not grow.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, baseline, in_turn
from peers import HTA, present, version
from results import Bar, Group, Job

MB = 250
FLAT_MB = 2000
# Baselines take long: three runs at most, HTA one, no warm-up.
SLOW_RUNS = 3
PLAIN = "nsysconv import of the plain file"
BASELINES = {"json.load": "json_load", "json.load, gc off": "json_load_nogc"}
PARSE = "HTA parse"
MEMORY = Bar("MB", 500)
WHY = "kineto-traces"
ACROSS = (
    Bar("as fast, median", 4.5, "json.load", WHY),
    Bar("as fast, least", 3.5, "json.load", WHY),
    Bar("as fast, median", 15, PARSE, WHY),
)


@dataclass(frozen=True)
class Layout:
    """A layout, the real trace that has it, and a fixture for where that is missing; "" where none is.

    `metadata`: the names of processes are among the events, in each copy. `packed`: compressed, too.
    `no_parse`: why HTA is not run on it.
    """

    name: str
    trace: str
    fixture: str = ""
    metadata: bool = False
    packed: bool = False
    no_parse: str = ""


LAYOUTS = (
    Layout("arguments on one line", "facebookresearch+HolisticTraceAnalysis__nccl_data.json.gz",
           "training-2.5.json.gz", packed=True),
    Layout("arguments on several lines",
           "IBM+kineto-spyre__worker0.1623143566756.pt.trace.json.gz", "training-1.9.json"),
    Layout("calls and GPU work on several lines", "facebookresearch+param__linear_kineto.json.gz"),
    Layout("memory events", "harryjmoss+particle_transformer__gpu_working_chrome_trace.json"),
    Layout("Python functions",
           "sidnb13+torch-profiling-tutorial__dcb0aa1a78e7_4399.1752181589621105859.pt.trace.json"),
    Layout("metadata among events", "luatil+torch-profile__trace_06.json", "training-2.5.json.gz",
           metadata=True),
    Layout("as of PyTorch 2.13", "", "training-2.13.json", no_parse="of a trace with many "
           "synchronizations its time grows with the square of the size: 12 s for 20 MB"),
    Layout("printed again, indented", "AMD-AGI+TraceLens__eager_trace.json.gz",
           "odd-reprinted.json.gz", packed=True),
    Layout("printed again, on one line",
           "facebookresearch+HolisticTraceAnalysis__sampled_rank-0.json.gz", "odd-compact.json"),
)  # fmt: skip


def source(layout: Layout, real: Path, skipped: list[str]) -> Path | None:
    """Return the trace that is repeated; says in `skipped` where it is not the real one."""
    if layout.fixture:
        return inputs.source(real, layout.trace, f"kineto/{layout.fixture}", skipped)
    found = inputs.real(real, layout.trace)
    if found is None:
        skipped.append(f"{layout.trace} is not there: it has no fixture")
    return found


def importing(title: str, trace: Path) -> Side:
    """Return an import into a new store."""
    store = DATA / "kineto.db"
    return Side(title, [*NSYSCONV, "import", str(trace), "-o", str(store)], (store,))


def parses(trace: Path) -> bool:
    """Return whether HTA can read a trace."""
    command = baseline("hta_parse", trace, python=str(HTA.python))
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def of_layout(layout: Layout, trace: Path, megabytes: int, runs: int, skipped: list[str]) -> list[Job]:
    """Return a plain trace, perhaps a compressed one, into a store, beside the baselines."""
    plain = inputs.trace(trace, megabytes, metadata=layout.metadata)
    sides = [Side(title, baseline(name, plain), most_runs=SLOW_RUNS) for title, name in BASELINES.items()]
    no_parse = layout.no_parse or ("" if not version(HTA) or parses(trace) else "it cannot read it")
    if no_parse and version(HTA):
        skipped.append(f"{PARSE}, {layout.name}: {no_parse}")
    elif version(HTA):
        command = baseline("hta_parse", plain, python=str(HTA.python))
        sides.append(Side(PARSE, command, most_runs=1))
    name = f"import of a trace, {layout.name}"
    jobs = [Job(name, megabytes, "MB", in_turn([importing(PLAIN, plain), *sides], runs), [MEMORY])]
    if layout.packed:
        packed = inputs.trace(trace, megabytes, ".gz", metadata=layout.metadata)
        both = [importing("nsysconv import of the gz file", packed), importing(PLAIN, plain)]
        jobs.append(Job(f"{name}, gz", megabytes, "MB", in_turn(both, runs),
                        [Bar("times", 1.8, PLAIN, WHY), MEMORY]))  # fmt: skip
    return jobs


def run(real: Path, megabytes: int, flat: int, runs: int, setting: str) -> Group:
    """Return all of them; `flat` is the size of the large one, 0 for none."""
    group = Group("Kineto traces", setting, across=ACROSS)
    group.setting += "".join(f", {version(peer)}" for peer in present((HTA,), group.skipped))
    found = {layout: path for layout in LAYOUTS if (path := source(layout, real, group.skipped))}
    for layout, path in found.items():
        for job in of_layout(layout, path, megabytes, runs, group.skipped):
            group.say(job)
    layout, path = next(iter(found.items()))
    if flat:
        large = importing(PLAIN, inputs.trace(path, flat, metadata=layout.metadata))
        sides = in_turn([large], min(runs, SLOW_RUNS))
        group.say(Job(f"import of a trace, {layout.name}", flat, "MB", sides, [MEMORY]))
    (DATA / "kineto.db").unlink(missing_ok=True)
    return group
