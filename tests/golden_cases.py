"""Commands whose whole outcome is kept in tests/golden: stdout, stderr and exit status.

    python tests/golden_cases.py        write the files anew (make golden)

A case runs its commands, one after the other, in a fresh folder that holds the fixtures it names.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# pytest has them in its path; as a script this has not.
sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

from run_command import Outcome as Outcome
from run_command import run as run

TESTS = Path(__file__).resolve().parent
GOLDEN = TESTS / "golden"
FIXTURES = TESTS / "fixtures"
BASIC = "nsys/basic-3.25.0.sqlite"


@dataclass(frozen=True)
class Case:
    """Commands without the word nsysconv, and the fixtures that lie there, by the names they have."""

    commands: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=lambda: {"report1.sqlite": BASIC})
    width: int | None = None


def _odd(*names: str) -> dict[str, str]:
    return {f"{name}.sqlite": f"odd/{name}.sqlite" for name in names}


_NO_GPU = {"cpu.sqlite": "nsys/no_gpu-3.25.0.sqlite"}
_TWO = {"report1.sqlite": BASIC, "report2.sqlite": "nsys/basic-3.4.0.sqlite"}
_DIFF = {
    "base.sqlite": BASIC,
    "other.sqlite": "nsys/two_processes_one_gpu-3.24.14.sqlite",
    "trace.json": "kineto/basic-2.13.json",
}
_SNAPSHOTS = {
    "snapshot.pickle": "pytorch_snapshot/training.pickle",
    "blocks.pickle": "pytorch_snapshot/without_history.pickle",
}
_FOLDER = {
    "results/rank0.sqlite": "nsys/two_processes_two_gpus-3.24.7.sqlite",
    "results/rank1.sqlite": BASIC,
    "results/half.sqlite": "odd/truncated.sqlite",
    "results/bookmarks.sqlite": "odd/foreign.sqlite",
    "results/notes.txt": "odd/lfs-pointer.sqlite",
}

CASES: dict[str, Case] = {
    "memory-snapshot": Case(
        (
            "snapshot.pickle",
            "report snapshot.pickle memory memory_holders memory:by=oom memory:by=block",
            "info snapshot.pickle",
            "blocks.pickle",
            "report blocks.pickle memory_holders",
            "diff blocks.pickle snapshot.pickle",
        ),
        _SNAPSHOTS,
    ),
    "import": Case(("import report1.sqlite", "import report1.sqlite", "runs report1.db")),
    "import-folder": Case(("import results -o job.db", "runs job.db"), _FOLDER),
    "import-damaged": Case(
        ("import bad-cells.sqlite", "import odd-durations.sqlite --strict"),
        _odd("bad-cells", "odd-durations"),
    ),
    "import-nothing": Case(
        ("import foreign.sqlite", "import empty.sqlite lfs-pointer.sqlite -o job.db"),
        _odd("foreign", "empty", "lfs-pointer"),
    ),
    "answer": Case(
        (
            "report1.sqlite",
            "report report1.sqlite",
            "report1.sqlite --time 20us/0.1ms --ignore queue_wait",
            "report1.sqlite -f markdown",
            "report1.sqlite -f json --brief",
            "report1.sqlite --brief",
            "nosuch",
        )
    ),
    "answer-terminal": Case(("report1.sqlite",), width=80),
    "answer-of-others": Case(
        (
            "two.sqlite",
            "summary.txt",
            "metrics.csv",
            "cpu.sqlite",
            "import two.sqlite report1.sqlite -o two.db",
            "two.db",
            "empty.sqlite",
        ),
        {
            "two.sqlite": "nsys/two_processes_two_gpus-3.24.7.sqlite",
            "report1.sqlite": BASIC,
            "summary.txt": "nvprof_log/basic-summary.txt",
            "metrics.csv": "nvprof_log/odd-metrics.csv",
            **_NO_GPU,
            **_odd("empty"),
        },
    ),
    "report": Case(("report report1.sqlite core",)),
    "report-terminal": Case(("report report1.sqlite core",), width=100),
    "report-narrow-terminal": Case(("report report1.sqlite overview idle_gaps",), width=60),
    "report-pictures-terminal": Case(
        ("report two.sqlite utilization_over_time idle_summary transfer_sizes --limit 3",),
        {"two.sqlite": "nsys/two_processes_two_gpus-3.24.7.sqlite"},
        width=120,
    ),
    "report-samples": Case(
        ("report smi.csv metrics", "report noheader.csv metrics"),
        {"smi.csv": "nvidia_smi/odd-words.csv", "noheader.csv": "nvidia_smi/odd-no-header.csv"},
    ),
    "report-devices": Case(
        (
            "report two.sqlite overview processes transfers",
            "report two.sqlite transfers --split device",
            "report two.sqlite overview --split device",
            "diff two.sqlite two.sqlite kernels --split rank",
        ),
        {"two.sqlite": "nsys/two_processes_two_gpus-3.24.7.sqlite"},
    ),
    "report-graphs": Case(
        ("report graphs.sqlite overview kernels",), {"graphs.sqlite": "nsys/graphs-3.28.1.sqlite"}
    ),
    "report-migrations": Case(
        ("report um.sqlite transfers idle_summary",),
        {"um.sqlite": "nsys/unified_memory-3.25.0.sqlite"},
    ),
    "report-slice": Case(("report report1.sqlite overview kernels --time 20us/0.1ms",)),
    "report-slices": Case(
        (
            "report ranges.sqlite kernels --range ProfilerStep#2",
            "report ranges.sqlite kernels transfers --step 2 --projected --stream 7",
            "report ranges.sqlite kernels --time 10%:50.5% --skip-first 1 --name 'step|gemm' -f markdown",
            "report ranges.sqlite kernels --range nothing",
            "report ranges.sqlite kernels --step 9 --device 0",
            "report ranges.sqlite kernels --device 5",
            "diff ranges.sqlite ranges.sqlite kernels --step 2",
        ),
        {"ranges.sqlite": "nsys/ranges-3.28.1.sqlite"},
    ),
    "report-list": Case(
        (
            "report report1.sqlite overview launch_stats openacc_sum --list -f csv",
            "report report1.sqlite kernels --list",
            "report report1.sqlite launch_stats:long_call=5",
        )
    ),
    "report-idle": Case(("report report1.sqlite idle_summary --idle stream --idle no_kernel",)),
    "report-steps": Case(
        (
            "report report1.sqlite gpu_utilization steps",
            "report report1.sqlite gpu_utilization steps --by step --step-range 'iteration *' -f json",
            "report report1.sqlite steps --step-range batch",
            "report report1.sqlite transfers --by step",
        )
    ),
    "report-names": Case(
        (
            "report report1.sqlite kernels --names short --limit 2",
            "report report1.sqlite kernels --names mangled --limit 2",
        )
    ),
    "report-json": Case(("report report1.sqlite transfer_sizes idle_host -f json",)),
    "report-csv": Case(("report bad-cells.sqlite kernels -f csv",), _odd("bad-cells")),
    "report-markdown": Case(("report report1.sqlite processes -f markdown",)),
    "not-recorded": Case(
        (
            "report cpu.sqlite kernels processes",
            "report cpu.sqlite core",
            "report cpu.sqlite kernels -f json",
        ),
        _NO_GPU,
    ),
    "notes": Case(
        ("report clocks-disagree.sqlite api_vs_kernel idle_gaps --limit 3",),
        _odd("clocks-disagree"),
    ),
    "several-profiles": Case(
        (
            "import report1.sqlite report2.sqlite -o job.db",
            "report job.db",
            "report job.db@report3",
            "report job.db@report2 processes",
        ),
        _TWO,
    ),
    "info": Case(("info report1.sqlite", "info cpu.sqlite"), {"report1.sqlite": BASIC, **_NO_GPU}),
    "info-check": Case(
        ("import report1.sqlite -o job.db", "info job.db --check", "info report1.sqlite --check"),
        {"report1.sqlite": BASIC},
    ),
    "nsight-compute": Case(
        (
            "raw.csv",
            "report details.csv kernel_limits",
            "report raw.csv metrics",
            "info raw.csv",
            "info log.txt",
        ),
        {
            "details.csv": "ncu/details.csv",
            "raw.csv": "ncu/raw.csv",
            "log.txt": "ncu/odd-log.txt",
        },
    ),
    "joined-metrics": Case(
        (
            "report report1.sqlite basic.csv --join kernels kernel_limits",
            "why report1.sqlite basic.csv kernel:4 --join",
            "why report1.sqlite kernel:7 basic.csv --join",
            "import --join report1.sqlite basic.csv -o job.db",
            "report job.db kernels --limit 2 -f csv",
            "report job.db details.csv --join kernels --limit 1",
            "report basic.csv details.csv --join kernels",
            "report report1.sqlite trace.json basic.csv --join kernels",
            "report report1.sqlite --join kernels",
            "report report1.sqlite missing.csv --join kernels",
        ),
        {
            "report1.sqlite": BASIC,
            "basic.csv": "ncu/basic.csv",
            "details.csv": "ncu/details.csv",
            "trace.json": "kineto/basic-2.13.json",
        },
    ),
    "source-lines": Case(
        (
            "run.lprof",
            "scalene.json",
            "report run.lprof cpu_lines",
            "report scalene.json cpu_lines -f csv",
            "report log.txt@log-2 cpu_lines",
            "info scalene.json",
            "report scalene.json cpu_lines --time 0/1s",
            "report trace.json scalene.json --join cpu_lines",
            "report report1.sqlite run.lprof --join cpu_lines --limit 1",
        ),
        {
            "report1.sqlite": BASIC,
            "trace.json": "kineto/training-2.13.json",
            "run.lprof": "line_profiler/training.lprof",
            "scalene.json": "scalene/training.json",
            "log.txt": "line_profiler/odd.txt",
        },
    ),
    "summary": Case(
        ("import gpu.csv", "report summary.txt kernels api_vs_kernel overview", "info gpu.csv"),
        {
            "gpu.csv": "nvprof_log/basic-gpu-trace-cuda8.csv",
            "summary.txt": "nvprof_log/basic-summary.txt",
        },
    ),
    "import-join": Case(
        ("import --join gpu.csv api.csv -o job.db", "import --join gpu.csv -o job.db"),
        {"gpu.csv": "nvprof_log/basic-gpu-trace.csv", "api.csv": "nvprof_log/basic-api-trace.csv"},
    ),
    "diff": Case(
        (
            "diff base.sqlite other.sqlite",
            "diff base.sqlite other.sqlite kernels --match name --limit 2 -f json",
            "diff base.sqlite trace.json overview kernels --fail-on overview.kernel_sum_ns:3%",
            "diff base.sqlite base.sqlite kernels -f markdown",
        ),
        _DIFF,
    ),
    "diff-terminal": Case(
        ("diff base.sqlite other.sqlite kernels --fail-on kernels.kernel_sum_ns:1us",), _DIFF, width=120
    ),
    "diff-mistakes": Case(
        (
            "diff base.sqlite nowhere.sqlite",
            "diff base.sqlite other.sqlite idle_gaps",
            "diff base.sqlite other.sqlite --fail-on kernels.kernel_sum:3%",
            "diff base.sqlite other.sqlite --fail-on overview.kernel_sum_ns:3MB",
            "diff 'none*.sqlite' other.sqlite",
        ),
        _DIFF,
    ),
    "sql": Case(
        (
            "import report1.sqlite",
            "sql report1.db 'select kind, count(*) as rows, sum(dur_ns) from v_gpu_op group by kind'",
            "sql report1.db 'select direction, bytes from v_memcpy order by 2 limit 2' -f csv",
            "sql report1.db 'select nonsense from kernel'",
            "sql report1.db 'delete from kernel'",
        )
    ),
    "mistakes": Case(
        (
            "report nowhere.sqlite",
            "report report1.sqlite kernel",
            "report report1.sqlite --time 5/1",
            "report report1.sqlite --time soon",
            "report report1.sqlite -f csv",
            "report report1.sqlite -o report.doc",
            "sql report1.sqlite 'select 1'",
            "runs report1.sqlite",
            "import report1.sqlite report1.sqlite",
        )
    ),
}


def place(files: Mapping[str, str], folder: Path) -> None:
    """Copies fixtures into a folder under other names."""
    for name, fixture in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(FIXTURES / fixture, target)


def transcript(case: Case, folder: Path) -> str:
    """What the case's commands say, run in `folder`."""
    place(case.files, folder)
    text = []
    for command in case.commands:
        outcome = run(*shlex.split(command), cwd=folder, width=case.width)
        text.append(f"$ nsysconv {command}\n{outcome.out}")
        if outcome.err:
            text.append(f"--- stderr\n{outcome.err}")
        text.append(f"--- exit status {outcome.status}\n\n")
    return "".join(text)


def rewrite() -> None:
    """Writes all golden files and removes those of no case."""
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.iterdir():
        if path.stem not in CASES:
            path.unlink()
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            text = transcript(case, Path(folder))
        (GOLDEN / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
