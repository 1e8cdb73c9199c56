"""Imports of each command started cold: packages, the modules that ask for them, and their costs.

    python benchmarks/run.py --only starts

Each command is a new process; the files it reads are in the system's cache. Wall and CPU time are those
of the command as users run it. Beside it a run under `-X importtime` says which modules are loaded and
how long each takes by itself. A hook in that run notes which module of nsysconv first asked for a
package; packages that come with another one have the same asker. CPU time is what to compare on a busy
machine.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import HERE, NSYSCONV, Side, remove, run_once
from results import Run

FIXTURES = HERE.parent / "tests" / "fixtures"
NSYS = FIXTURES / "nsys" / "basic-3.25.0.sqlite"
KINETO = FIXTURES / "kineto" / "basic-2.13.json"
NVPROF_LOG = FIXTURES / "nvprof_log" / "basic-gpu-trace.csv"
WRITE_EXAMPLES = HERE.parent / "scripts" / "write_examples.py"
NSYSCONV_HELP = ("import", "report", "diff", "info", "runs", "sql", "export", "profile")

STDLIB_SHOWN_MS = 5.0
"""Packages of the standard library that take less are not kept."""

# Says on stderr, between the lines of -X importtime, which module of ours first asks for a package.
_HOOK = r"""
import sys
class _Asked:
    def find_spec(self, name, path=None, target=None):
        if "." not in name:
            frame = sys._getframe(1)
            while frame is not None:
                by = frame.f_globals.get("__name__", "")
                if by.partition(".")[0] == "nsysconv":
                    break
                frame = frame.f_back
            sys.stderr.write(f"asked: {name} {by if frame else '-'}\n")
        return None
sys.meta_path.insert(0, _Asked())
import runpy
runpy.run_module("nsysconv", run_name="__main__", alter_sys=True)
"""
# What an installation adds to Python's own start, and what pickle looks for in vain.
_NOT_OURS = re.compile(r"__editable__\w*|_distutils_hack|sitecustomize|coverage|org")
_TIMED = re.compile(r"^import time:\s*(\d+) \|\s*\d+ \| *([\w.]+)$", re.M)
_ASKED = re.compile(r"^asked: (\w+) (\S+)$", re.M)


@dataclass(frozen=True)
class Package:
    """A top-level package that a command loads: its modules, the time they take by themselves, and the
    module of nsysconv that first asked for it (`-`: Python does by itself).
    """

    name: str
    modules: int
    self_ms: float
    asked_by: str


@dataclass(frozen=True)
class CommandStart:
    """A command's cold start: medians of its runs, and what it loads, the slowest package first.

    `modules` counts all; `packages` are those worth a line: of the standard library only what takes long.
    """

    command: str
    wall_ms: float
    cpu_ms: float
    modules: int
    packages: tuple[Package, ...]

    @property
    def third_party(self) -> tuple[str, ...]:
        """Return the packages that are neither Python's nor nsysconv."""
        return tuple(sorted(third_party(each.name for each in self.packages)))


@dataclass(frozen=True)
class Cold:
    """A command to be measured: arguments of nsysconv, and what has to be gone before each run."""

    name: str
    arguments: tuple[str, ...]
    outputs: tuple[Path, ...] = ()

    @property
    def side(self) -> Side:
        """Return the command as the program that users run."""
        return Side(self.name, [*NSYSCONV, *self.arguments], self.outputs)


def commands(folder: Path) -> list[Cold]:
    """Return every command on small files; stores are made in the folder, where results go as well."""
    store, other = folder / "job.db", folder / "other.db"
    for path in (store, other):
        if not path.exists():
            subprocess.run([*NSYSCONV, "import", str(NSYS), "-o", str(path)], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    report = folder / "two-calls.nsys-rep"
    if not report.exists():
        subprocess.run([sys.executable, str(WRITE_EXAMPLES), str(folder), report.name], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    made, page, profiled = folder / "new.db", folder / "page.html", folder / "profiled"
    rows, chrome = folder / "rows", folder / "trace.json"

    def cold(name: str, *arguments: str | Path, outputs: tuple[Path, ...] = ()) -> Cold:
        return Cold(name, tuple(map(str, arguments)), outputs)

    return [
        cold("--help", "--help"),
        cold("--version", "--version"),
        *(cold(f"{name} --help", name, "--help") for name in NSYSCONV_HELP),
        cold("import of an nsys export", "import", NSYS, "-o", made, outputs=(made,)),
        cold("import of an nsys report", "import", report, "-o", made, outputs=(made,)),
        cold("import of a Kineto trace", "import", KINETO, "-o", made, outputs=(made,)),
        cold("import of an nvprof log", "import", NVPROF_LOG, "-o", made, outputs=(made,)),
        cold("answer on a store", store),
        cold("report of a store", "report", store, "core"),
        cold("report of an nsys export", "report", NSYS, "core"),
        cold("report of a Kineto trace", "report", KINETO, "core"),
        cold("report -f json", "report", store, "-f", "json"),
        cold("report -o page.html", "report", store, "-o", page, outputs=(page,)),
        cold("diff of two stores", "diff", store, other),
        cold("info", "info", store),
        cold("runs", "runs", store),
        cold("sql", "sql", store, "select count(*) from kernel"),
        cold("export --to parquet", "export", store, "--to", "parquet", "-o", rows, outputs=(rows,)),
        cold("export --to chrome", "export", store, "--to", "chrome", "-o", chrome, outputs=(chrome,)),
        cold("profile of a rank not chosen", "profile", "--ranks", "1", "--", "nsys", "profile", "-o",
             profiled, "true"),
    ]  # fmt: skip


def loaded_by(code: str, environment: Mapping[str, str]) -> list[str]:
    """Return the modules that are loaded when this code has run."""
    done = subprocess.run([sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], check=True,
                          env=environment, stdout=subprocess.PIPE, text=True)  # fmt: skip
    return [name for name in done.stdout.split() if not name.startswith("__")]


def traced(each: Cold) -> tuple[Mapping[str, float], Mapping[str, str]]:
    """Return the time in ms of each module that one run loads, and who asked for each package.

    Processes that it starts do the same and are counted with it.
    """
    for path in each.outputs:
        remove(path)
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", _HOOK, *each.arguments],
                          env={**os.environ, "RANK": "0"}, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace", check=False)  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{each.arguments} failed: {done.stderr[-2000:]}")
    asked: dict[str, str] = {}
    for name, by in _ASKED.findall(done.stderr):
        asked.setdefault(name, by)
    return {name: int(us) / 1000 for us, name in _TIMED.findall(done.stderr)}, asked


def start_of(each: Cold, runs: Sequence[Run], traces: Sequence[Mapping[str, float]],
             asked: Mapping[str, str]) -> CommandStart:  # fmt: skip
    """Return the measurements of a command as one."""
    counts = Counter(map(package_of, traces[0]))
    times = {package: statistics.median(
        sum(ms for name, ms in trace.items() if package_of(name) == package) for trace in traces
    ) for package in counts}  # fmt: skip
    packages = [
        Package(name, counts[name], times[name], asked.get(name, "-"))
        for name in sorted(counts, key=lambda name: -times[name])
        if not _NOT_OURS.fullmatch(name)
        and (name not in sys.stdlib_module_names or times[name] >= STDLIB_SHOWN_MS)
    ]  # fmt: skip
    return CommandStart(
        each.name, 1000 * statistics.median(run.wall_s for run in runs),
        1000 * statistics.median(run.cpu_s for run in runs), len(traces[0]), tuple(packages),
    )  # fmt: skip


def package_of(module: str) -> str:
    """Return the top-level package of a module."""
    return module.partition(".")[0]


def third_party(modules: Iterable[str]) -> frozenset[str]:
    """Return the packages of these modules that are neither Python's nor nsysconv."""
    return frozenset(name for name in map(package_of, modules)
                     if name not in sys.stdlib_module_names and name != "nsysconv"
                     and not _NOT_OURS.fullmatch(name))  # fmt: skip


def measure(runs: int, only: Sequence[str] = ()) -> list[CommandStart]:
    """Measure all commands (or those whose names begin with one of `only`) in turn, after warm-ups.

    Raises RuntimeError where one fails.
    """
    os.environ.setdefault("RANK", "0")
    with tempfile.TemporaryDirectory() as name:
        chosen = [each for each in commands(Path(name))
                  if not only or each.name.startswith(tuple(only))]  # fmt: skip
        timed: dict[str, list[Run]] = {each.name: [] for each in chosen}
        traces: dict[str, list[Mapping[str, float]]] = {each.name: [] for each in chosen}
        asked: dict[str, Mapping[str, str]] = {}
        for number in range(runs + 1):
            for each in chosen:
                run = run_once(each.side)
                modules, asked[each.name] = traced(each)
                if number:
                    timed[each.name].append(run)
                    traces[each.name].append(modules)
        return [start_of(each, timed[each.name], traces[each.name], asked[each.name])
                for each in chosen]  # fmt: skip


def table(starts: Sequence[CommandStart]) -> list[str]:
    """Return the lines of a Markdown table, one row per command."""
    return [
        "| command | wall | CPU | modules | packages loaded |", "|---|---:|---:|---:|---|",
        *(f"| {each.command} | {each.wall_ms:.0f} ms | {each.cpu_ms:.0f} ms | {each.modules} | "
          f"{', '.join(each.third_party) or 'none'} |" for each in starts),
    ]  # fmt: skip


def reasons(starts: Sequence[CommandStart]) -> list[str]:
    """Return who imports what: a Markdown table, one row per third-party package, over all commands."""
    rows: dict[str, list[tuple[CommandStart, Package]]] = {}
    for start in starts:
        for package in start.packages:
            if package.name in start.third_party:
                rows.setdefault(package.name, []).append((start, package))
    return [
        "| package | modules | time | first asked for by | commands |", "|---|---:|---:|---|---:|",
        *(f"| {name} | {max(p.modules for _, p in found)} | "
          f"{statistics.median(p.self_ms for _, p in found):.0f} ms | "
          f"{', '.join(f'`{by}`' for by in dict.fromkeys(p.asked_by for _, p in found))} | "
          f"{len(found)} of {len(starts)} |" for name, found in sorted(rows.items())),
    ]  # fmt: skip
