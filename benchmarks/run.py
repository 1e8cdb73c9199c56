"""Measures nsysconv beside raw baselines and peers, and writes docs/performance.md and its plots.

    python benchmarks/run.py --real FOLDER                         everything
    python benchmarks/run.py --real FOLDER --only nsys kineto --runs 3   these; others as they were
    python benchmarks/run.py --only                                the page alone

FOLDER has the real traces and exports that are repeated (listed in benchmarks/notes.md, "The inputs");
its default is benchmarks/data/real. Where one is missing, a fixture takes its place, or its jobs are left
out; the page says which.

What is found is kept in benchmarks/results, a JSON file per group: every run of every side, with its
wall and CPU time and memory. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from pathlib import Path

import imports
import jobs_diff
import jobs_export
import jobs_imports
import jobs_kineto
import jobs_nsys
import jobs_nsys_rep
import jobs_operators
import jobs_ranks
import jobs_steps
import page
from measure import DATA, HERE
from results import Group

RESULTS = HERE / "results"
DOCS = HERE.parent / "docs"
STARTS = RESULTS / "starts.json"
PACKAGES = ("nsysconv", "adbc-driver-sqlite", "numpy", "pandas", "pyarrow", "sqlalchemy")


def setting(runs: int) -> str:
    """Return when and where this is measured, and how often each side is run."""
    return (f"Measured {date.today()}, runs of each: {runs}; {os.cpu_count()} cores, {platform.system()} "
            f"{platform.machine()}, Python {platform.python_version()}; "
            + ", ".join(f"{name} {version(name)}" for name in PACKAGES))  # fmt: skip


GROUPS: dict[str, Callable[[argparse.Namespace, str], Group]] = {
    "nsys": lambda asked, where: jobs_nsys.run(asked.real, asked.kernels, asked.runs, where),
    "nsys_rep": lambda asked, where: jobs_nsys_rep.run(asked.real, asked.report_kernels, asked.runs,
                                                      where),
    "kineto": lambda asked, where: jobs_kineto.run(asked.real, asked.mb, asked.flat_mb, asked.runs,
                                                   where),
    "operators": lambda asked, where: jobs_operators.run(asked.real, asked.operators_mb,
                                                         asked.functions_mb, asked.runs, where),
    "nvprof": lambda asked, where: jobs_imports.run("nvprof", asked.real, asked.rows, asked.runs, where),
    "nvprof_text": lambda asked, where: jobs_imports.run("nvprof_text", asked.real, asked.text_rows,
                                                         asked.runs, where),
    "diff": lambda asked, where: jobs_diff.run(asked.real, asked.diff_kernels, asked.runs, where),
    "export": lambda asked, where: jobs_export.run(asked.real, asked.export_kernels,
                                                   asked.trace_kernels, asked.runs, where),
    "rocpd": lambda asked, where: jobs_imports.run("rocpd", asked.real, asked.rocpd_kernels, asked.runs,
                                                   where),
    "xplane": lambda asked, where: jobs_imports.run("xplane", asked.real, asked.xplane_mb, asked.runs,
                                                    where),
    "steps": lambda asked, where: jobs_steps.run(asked.real, asked.step_kernels, asked.runs, where),
    "ranks": lambda asked, where: jobs_ranks.run(asked.real, asked.ranks, asked.rank_kernels,
                                                 asked.runs, where),
}  # fmt: skip
"""The groups of jobs; each is kept in a file of its name."""
PARTS = (*GROUPS, "starts")


def measured() -> list[str]:
    """Return the groups that were ever run."""
    return [name for name in GROUPS if (RESULTS / f"{name}.json").exists()]


def kept() -> list[Group]:
    """Return what was found when each group was last run."""
    return [
        Group.from_json(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))
        for name in measured()
    ]


def starts() -> Iterator[str]:
    """Yield the section of the page on what each command loads."""
    found = [
        imports.CommandStart(**{
            **start, "packages": tuple(imports.Package(**package) for package in start["packages"])
        })
        for start in json.loads(STARTS.read_text(encoding="utf-8"))
    ]  # fmt: skip
    yield from (
        "## What a command loads", "",
        "Commands on small files, started cold (`benchmarks/imports.py`), and what they load.", "",
        *imports.table(found), "", "What asks for each package, and how long it takes to load:", "",
        *imports.reasons(found), "",
    )  # fmt: skip


def document(plots: dict[str, str]) -> str:
    """Return docs/performance.md, made from the kept results."""
    notes = (HERE / "notes.md").read_text(encoding="utf-8")
    return page.document(kept(), notes, plots, starts())


def plots(folder: Path) -> dict[str, str]:
    """Draw the plots into `docs/images`; their paths from the page, by the title of the group."""
    (folder / "images").mkdir(exist_ok=True)
    found = {}
    for name, group in zip(measured(), kept(), strict=True):
        path = f"images/performance-{name}.svg"
        if page.draw(group, folder / path):
            found[group.title] = path
    return found


def main() -> None:
    """Run the benchmarks that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, help="parts to measure")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--real", type=Path, default=DATA / "real", metavar="FOLDER",
                        help="the real traces and exports that are repeated")  # fmt: skip
    parser.add_argument("--kernels", type=int, nargs="+", default=[1_000_000, 5_000_000],
                        help="sizes of nsys exports")  # fmt: skip
    for flag, number, text in (
        ("--report-kernels", jobs_nsys_rep.KERNELS, "of the nsys report"),
        ("--mb", jobs_kineto.MB, "size of each Kineto trace"),
        ("--flat-mb", jobs_kineto.FLAT_MB, "size of the one that shows memory; 0 for none"),
        ("--operators-mb", jobs_operators.MB, "size of the trace whose operators are reported"),
        ("--functions-mb", jobs_operators.FUNCTIONS_MB, "size of those imported with Python functions"),
        ("--rows", jobs_imports.IMPORTS["nvprof"].size, "of the nvprof trace"),
        ("--text-rows", jobs_imports.IMPORTS["nvprof_text"].size, "of the nvprof trace of text"),
        ("--diff-kernels", jobs_diff.KERNELS, "of each of the two exports that are compared"),
        ("--export-kernels", jobs_export.KERNELS, "of the store that is written as Parquet and Arrow"),
        ("--trace-kernels", jobs_export.TRACE_KERNELS, "of the export that is written as a trace"),
        ("--rocpd-kernels", jobs_imports.IMPORTS["rocpd"].size, "of the rocpd database"),
        ("--xplane-mb", jobs_imports.IMPORTS["xplane"].size, "size of the profile of XLA"),
        ("--step-kernels", jobs_steps.KERNELS, "of the store whose steps are reported"),
        ("--ranks", jobs_ranks.RANKS, "of the job of many ranks"),
        ("--rank-kernels", jobs_ranks.KERNELS, "of each rank"),
    ):
        parser.add_argument(flag, type=int, default=number, help=text)
    asked = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    # As an installer does: where Python may not write beside the sources, each start would compile them.
    compileall.compile_dir(HERE.parent / "nsysconv", quiet=1)
    for name in asked.only:
        if name == "starts":
            found = imports.measure(asked.runs)
            text = json.dumps([asdict(each) for each in found], indent=1)
            STARTS.write_text(text + "\n", encoding="utf-8")
        else:
            group = GROUPS[name](asked, setting(asked.runs))
            for reason in group.skipped:
                print(f"not run: {reason}")
            text = json.dumps(group.to_json(), indent=1)
            (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (DOCS / "performance.md").write_text(document(plots(DOCS)), encoding="utf-8")
    notes = (HERE / "notes.md").read_text(encoding="utf-8")
    for missed in page.unexplained(kept(), notes):
        print(f"missed, and the notes do not say why: {missed}")


if __name__ == "__main__":
    main()
