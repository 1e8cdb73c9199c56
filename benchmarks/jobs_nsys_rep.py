"""The jobs on Nsight Systems' own reports: read, imported and answered, beside the same run's export.

What is read is a real report, its blocks of events repeated; nothing where it is missing.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, in_turn, remove
from results import Bar, Group, Job

# Its kernels were launched by a call each; few events are of anything else.
REPORT = "cestwc+balinski-and-gomory-cuda__report22_bcb379.nsys-rep"
KERNELS = 1_000_000
OF_EXPORT = "nsysconv import EXPORT"
WHY = "reports-of-nsight-systems"


def of_report(report: Path, kernels: int, runs: int) -> list[Job]:
    """Return the jobs. The export is the one that nsysconv makes of the report."""
    export, written = DATA / "exported.sqlite", DATA / "written.sqlite"
    store, other, answer = DATA / "report.db", DATA / "export.db", DATA / "answer.json"
    remove(export)
    as_tables = [*NSYSCONV, "export", str(report), "--to", "nsys-sqlite", "-o"]
    made = in_turn([Side("nsysconv export", [*as_tables, str(written)], (written,))], runs)
    subprocess.run([*as_tables, str(export)], check=True, stdout=subprocess.DEVNULL)
    imports = in_turn([
        Side("nsysconv import REPORT", [*NSYSCONV, "import", str(report), "-o", str(store)], (store,)),
        Side(OF_EXPORT, [*NSYSCONV, "import", str(export), "-o", str(other)], (other,)),
    ], runs)  # fmt: skip
    answered = [*NSYSCONV, str(report), "-f", "json", "-o", str(answer)]
    answers = in_turn([Side("nsysconv REPORT", answered, (answer,))], runs)
    size, bars = kernels / 1e6, (Bar("s", 12, why=WHY), Bar("MB", 400, why=WHY))
    jobs = [
        Job("a report as nsys' tables", size, "M kernels", made, (Bar("MB", 300, why=WHY),)),
        Job("import of a report", size, "M kernels", imports, (Bar("times", 3, OF_EXPORT, why=WHY),)),
        Job("answer of a report", size, "M kernels", answers, bars if kernels == KERNELS else ()),
    ]
    for path in (export, written, store, other, answer):
        remove(path)
    return jobs


def run(real: Path, kernels: int, runs: int, setting: str) -> Group:
    """Return all of them."""
    group = Group("Nsight Systems reports", setting)
    source = inputs.real(real, REPORT)
    if source is None:
        group.skipped.append(f"{REPORT} is not there: it has no fixture")
        return group
    for job in of_report(inputs.report(source, kernels), kernels, runs):
        group.say(job)
    return group
