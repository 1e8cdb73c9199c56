"""Write the example profiles that the README, the tutorials and `make demo` look at.

    python scripts/write_examples.py FOLDER               all of them
    python scripts/write_examples.py FOLDER train.sqlite  this one

They are the made-up training of `example_training.py` as different profilers write it, and the small
recordings that the reference pages look at. Nothing of it is kept in the repository: writing
all takes seconds.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from example_training import V100, Training, train
from nsys_tables import AGES
from two_calls import write_two_calls
from workload import Process, Workload
from write_kineto import write_kineto
from write_nsys import write_nsys
from write_nsys_rep import write_report
from write_nvprof_database import write_nvprof_database
from write_nvprof_log import api_trace_csv, gpu_trace_csv, summary_text, write_log

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
# Releases that the examples are written as.
NSYS, PYTORCH, NVPROF = "3.25.0", "2.13", "12"

BEFORE = Training("train", start_up_us=96_000)
AFTER = Training("faster", start_up_us=96_000, loader_us=900, pinned=True, fused_optimizer=True, seed=2)
RANKS = Training("ranks", steps=6, ranks=4, loader_us=2_000, pinned=True, fused_optimizer=True,
                 late_rank=2)  # fmt: skip
TRACED = Training("train", steps=3, by_pytorch=True)
# One recording a night; since the 17th the optimizer launches a kernel for each parameter.
NIGHTS, SLOWER_SINCE = 24, 17
NIGHTLY = Training("nightly", steps=4, loader_us=2_000, pinned=True, fused_optimizer=True)
_DAY_NS = 86_400 * 10**9
OLD = Training("old", steps=4, gpu=V100)

Writer = Callable[[Path], None]


def _nsys(training: Training) -> Writer:
    def write(path: Path) -> None:
        ((workload, _),) = train(training)
        write_nsys(workload, path, NSYS)

    return write


def _report(training: Training) -> Writer:
    def write(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            export = Path(folder) / f"{path.stem}.sqlite"
            _nsys(training)(export)
            write_report(export, path, build=AGES[NSYS].product)

    return write


def _ranks(path: Path) -> None:
    path.mkdir(exist_ok=True)
    for number, (workload, _) in enumerate(train(RANKS)):
        write_nsys(workload, path / f"rank{number}.sqlite", NSYS)


def _nightly(path: Path) -> None:
    path.mkdir(exist_ok=True)
    for night in range(1, NIGHTS + 1):
        of_night = replace(NIGHTLY, seed=night, fused_optimizer=night < SLOWER_SINCE)
        ((workload, _),) = train(of_night)
        zero = workload.zero_utc_ns + night * _DAY_NS
        write_nsys(replace(workload, zero_utc_ns=zero), path / f"night{night:02}.sqlite", NSYS)


def _trace(path: Path) -> None:
    ((workload, framework),) = train(TRACED)
    write_kineto(workload, workload.processes[0], path, PYTORCH, framework)


def _database(path: Path) -> None:
    ((workload, _),) = train(OLD)
    write_nvprof_database(workload, workload.processes[0], path, NVPROF)


def _log(text_of: Callable[[Workload, Process], str]) -> Writer:
    def write(path: Path) -> None:
        ((workload, _),) = train(OLD)
        write_log(path, text_of(workload, workload.processes[0]))

    return write


def _fixture(name: str) -> Writer:
    def write(path: Path) -> None:
        shutil.copyfile(FIXTURES / name, path)

    return write


EXAMPLES: dict[str, Writer] = {
    "train.nsys-rep": _report(BEFORE),
    "faster.nsys-rep": _report(AFTER),
    "train.sqlite": _nsys(BEFORE),
    "faster.sqlite": _nsys(AFTER),
    "ranks": _ranks,
    "nightly": _nightly,
    "train.pt.trace.json.gz": _trace,
    "old.nvvp": _database,
    "old-gpu.csv": _log(gpu_trace_csv),
    "old-api.csv": _log(api_trace_csv),
    "old-summary.txt": _log(summary_text),
    # Small enough to count by hand.
    "report1.sqlite": _fixture("nsys/basic-3.25.0.sqlite"),
    "run.pt.trace.json": _fixture("kineto/training-2.13.json"),
    "two-calls.nsys-rep": write_two_calls,
}


def write_examples(folder: Path, *names: str) -> None:
    """Write the examples of these names, or all of them, to a folder that exists."""
    for name in names or EXAMPLES:
        EXAMPLES[name](folder / name)


def main() -> None:
    """Read the command line and write."""
    parser = argparse.ArgumentParser(description="write example profiles, made up")
    parser.add_argument("folder", type=Path)
    # A list as default would be looked for among the choices, and not be there.
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"of {', '.join(EXAMPLES)}")
    asked = parser.parse_args()
    unknown = [name for name in asked.name if name not in EXAMPLES]
    if unknown:
        parser.error(f"no example {unknown[0]!r}; there are {', '.join(EXAMPLES)}")
    asked.folder.mkdir(parents=True, exist_ok=True)
    write_examples(asked.folder, *(asked.name or EXAMPLES))


if __name__ == "__main__":
    main()
