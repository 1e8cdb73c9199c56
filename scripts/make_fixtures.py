"""Make the test fixtures that are made up, and the list of all of them.

    python scripts/make_fixtures.py            write tests/fixtures and its README.md
    python scripts/make_fixtures.py --check    exit 1 and say which file differs

`--check` compares contents: schema and rows of databases, what compressed files hold, and bytes of
everything else, so a newer SQLite that lays out pages differently does not matter. Files that a
program recorded are only listed; `scripts/record_pytorch.py` says how they came about.
"""

from __future__ import annotations

import argparse
import hashlib
import sqlite3
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import kineto_training
import nvidia_smi_logs
import nvprof_tables
import record_pytorch
import scenario_operators
from emit_nvtx import with_ranges
from kineto_ages import AGES as KINETO_AGES
from kineto_framework import NOTHING
from nsys_stats_logs import STATS
from nsys_tables import AGES
from nvprof_logs import LOGS, text_of
from odd_fixtures import ODD
from odd_kineto import ODD_KINETO
from odd_nsys_stats import ODD_STATS
from odd_nvprof_logs import ODD_LOGS
from scenario_cpu_side import WORKLOAD as CPU_SIDE
from scenario_nccl import WORKLOAD as NCCL
from scenarios import WORKLOADS
from workload import Process
from write_kineto import write_kineto
from write_nsys import write_nsys
from write_nsys_stats import write_stats
from write_nvprof_database import write_nvprof_database
from write_nvprof_log import write_log

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
README = "README.md"

# Which schema ages each workload is written in: those where its subject looks different.
NSYS_AGES: dict[str, tuple[str, ...]] = {
    "basic": tuple(AGES),
    "two_processes_one_gpu": ("2.7.0", "3.13.2", "3.24.14", "3.28.1"),
    "two_processes_two_gpus": ("2020", "3.7.2", "3.17.2", "3.24.7"),
    "graphs": ("3.4.0", "3.13.2", "3.24.0", "3.28.1"),
    "unified_memory": ("2021", "3.1.2", "3.17.2", "3.25.0"),
    "ranges": ("2021", "3.0.0", "3.16.1", "3.28.1"),
    "no_gpu": ("2.9.1", "3.16.1", "3.25.0"),
    "cpu_side": ("2.9.1", "3.4.0", "3.17.2", "3.28.1"),
    "operators": ("3.0.0", "3.28.1"),
    "nccl": ("3.25.0", "3.28.1"),
}
OPERATORS_AS_RANGES = with_ranges(scenario_operators.WORKLOAD, scenario_operators.FRAMEWORK)
NSYS_WORKLOADS = {
    **WORKLOADS,
    CPU_SIDE.name: CPU_SIDE,
    "operators": OPERATORS_AS_RANGES,
    NCCL.name: NCCL,
}

# Traces hold one process each; those of the middle age are compressed.
KINETO_SUFFIX = {"1.9": "json", "2.5": "json.gz", "2.13": "json"}
_OF_PYTORCH = (kineto_training, scenario_operators)
KINETO_WORKLOADS = {**WORKLOADS, **{each.WORKLOAD.name: each.WORKLOAD for each in _OF_PYTORCH}}
KINETO_FRAMEWORKS = {each.WORKLOAD.name: each.FRAMEWORK for each in _OF_PYTORCH}

# Databases of nvprof hold one process each, and graphs by their nodes only.
NVPROF_SUFFIX = {"9": "nvprof", "12": "nvvp"}
NVPROF_LEFT_OUT = {("graphs", 7001)}

INTRO = """# Fixtures

Small files that the tests read. Those of origin **made up** come from no program: none ran, no GPU
was there. They are written by `scripts/make_fixtures.py`; `python scripts/make_fixtures.py --check`
says whether they still are what it writes. Those of origin **recorded** come from a program of this
repository. Do not edit them or this page by hand.

`nsys/` holds the workloads of `scripts/scenario_*.py` as SQLite exports of Nsight Systems, one file
per schema age (`scripts/nsys_tables.py`). Tables, columns and spellings follow exports found in
public repositories; schema 3.28.1, whole graphs and graph nodes follow NVIDIA's documentation. The
figures that each workload must give are in the same modules, worked out by hand. Only here is
`cpu_side`: what threads did beside the CUDA API, memory, page faults and GPU metrics. Its tables
follow NVIDIA's documentation and empty tables of exports; names of OpenMP's events are invented.
`operators` has PyTorch's operators as the ranges that `emit_nvtx` makes of them (`scripts/emit_nvtx.py`).
`nccl` has payloads of NCCL's ranges: their schemas follow real exports, their bytes what a public project
says of them (docs/formats/nsys.md); no real payload was seen.
`basic-2.9.1` has all tables, with and without rows; the other ages have tables with rows only. From
3.24.7 on the rows are in no order. Every file has made-up secrets, texts with `SECRET-` in them, in
the places where real exports hold environments, names and output.

`odd/` holds damaged, trimmed and foreign files.

`kineto/` holds traces of PyTorch's profiler (Kineto). `WORKLOAD-AGE.json` and
`WORKLOAD-AGE-PID.json` are the same workloads as in `nsys/` and one of PyTorch's own, `training`, in
the layouts of three releases (`scripts/kineto_layout.py`); a trace holds one process, so a workload
of two is two files. Keys, spellings and line breaks follow traces found in public repositories and,
for 2.13, traces recorded with it on a CPU; rows of GPU work of 2.13 follow Kineto's published
source. What PyTorch does not record is left out: some API calls, migrations, marks, whole graphs.
Every trace of these has made-up secrets where real ones hold paths and keys that users add.
`odd-….json` are damaged, merged and foreign files.

`nvprof_database/` holds the workloads of `nsys/` as `nvprof -o FILE` writes them, a file per process
and version (`scripts/nvprof_tables.py`): version 9 with times of the machine's own clock, version 12
with times of day. Tables, columns and codes follow databases found in public repositories. What nvprof
does not record is left out: whole graphs, graph nodes, lazy loading, the system's names of threads.
Every file has made-up secrets where real ones hold command lines and environments.

`nvprof_log/` holds what nvprof prints of the same workloads, as text and CSV: traces and summaries of a
process or two (`scripts/nvprof_logs.py`). Banners, headers, units, alignment and values follow logs
found in public repositories; the order of cells in peer copies' rows and tables of managed memory in
CSV follow scripts that read them. Every log has a made-up secret in its command line.
`odd-….txt` and `odd-….csv` are damaged, mixed, rewritten and foreign files and those of counters.

`nsys_stats/` holds what `nsys stats` prints of the same workloads: summaries and traces of several ages,
as CSV, TSV, JSON and text in several locales (`scripts/nsys_stats_logs.py`). Headers, headings, alignment
and what is around the tables follow output found in public repositories; figures follow from NVIDIA's
definitions (`scripts/nsys_stats_tables.py`). Those with something around the tables have made-up secrets
in paths and output. `odd-…` are damaged, mixed, rewritten and foreign files.

`nvidia_smi/` holds logs of `nvidia-smi --query-gpu` and `nvidia-smi dmon` of two GPUs in the same three
seconds (`scripts/nvidia_smi_logs.py`), with a made-up secret where serial numbers stand. Columns, units,
alignment and the words for nothing follow logs found in public repositories and nvidia-smi's manual.
`odd-…` are cut, mixed and rewritten ones.

`recorded-….json.gz` are the only files here that a program made: `scripts/record_pytorch.py` ran its
own small training under PyTorch 2.13.0 (CPU build). Host name, ids of process, threads and trace,
the path of the file, paths of Python code and addresses in names were replaced, as that script says;
times, names and order are as recorded.

| file | origin | holds | bytes | sha256 |
|---|---|---|---:|---|
"""


@dataclass(frozen=True)
class Fixture:
    """One file under tests/fixtures: `make` writes it to a path, None where it was recorded."""

    name: str
    holds: str
    make: Callable[[Path], None] | None
    origin: str = "made up, `scripts/make_fixtures.py`"


def fixtures() -> list[Fixture]:
    """Return all fixtures, in the order of the README."""
    found = []
    for workload, ages in NSYS_AGES.items():
        for age in ages:
            writer = partial(_write_nsys, workload, age)
            holds = f"{NSYS_WORKLOADS[workload].title}; as of nsys {AGES[age].product}"
            found.append(Fixture(f"nsys/{workload}-{age}.sqlite", holds, writer))
    found += [Fixture(f"odd/{name}", holds, make) for name, (make, holds) in ODD.items()]
    found += _kineto_fixtures()
    found += _nvprof_fixtures()
    found += [Fixture(f"nvprof_log/{name}", log.holds, partial(_write_log, name))
              for name, log in LOGS.items()]  # fmt: skip
    found += [
        Fixture(f"nvprof_log/{name}", holds, make) for name, (make, holds) in ODD_LOGS.items()
    ]
    found += [Fixture(f"nsys_stats/{name}", log.holds, partial(_write_stats, name))
              for name, log in STATS.items()]  # fmt: skip
    found += [
        Fixture(f"nsys_stats/{name}", holds, make) for name, (make, holds) in ODD_STATS.items()
    ]
    found += [
        Fixture(f"nvidia_smi/{name}", holds, partial(nvidia_smi_logs.write, name))
        for name, (_, holds) in nvidia_smi_logs.LOGS.items()
    ]
    found += [Fixture(f"kineto/{name}", holds, make) for name, (make, holds) in ODD_KINETO.items()]
    found += [Fixture(f"kineto/{name}", holds, None, record_pytorch.ORIGIN)
              for name, holds in record_pytorch.RECORDED.items()]  # fmt: skip
    return found


def kineto_name(workload: str, process: Process, age: str) -> str:
    """Return the name of the file that holds this process."""
    several = len(KINETO_WORKLOADS[workload].processes) > 1
    number = f"-{process.pid}" if several else ""
    return f"{workload}-{age}{number}.{KINETO_SUFFIX[age]}"


def _kineto_fixtures() -> list[Fixture]:
    found = []
    for name, workload in KINETO_WORKLOADS.items():
        for age, release in KINETO_AGES.items():
            for process in workload.processes:
                which = f"process {process.pid} of: " if len(workload.processes) > 1 else ""
                holds = f"{which}{workload.title}; as of {release.product}"
                writer = partial(_write_kineto, name, process, age)
                found.append(Fixture(f"kineto/{kineto_name(name, process, age)}", holds, writer))
    return found


def nvprof_name(workload: str, process: Process, age: str) -> str:
    """Return the name of the database that holds this process."""
    number = f"-{process.pid}" if len(WORKLOADS[workload].processes) > 1 else ""
    return f"{workload}-{age}{number}.{NVPROF_SUFFIX[age]}"


def nvprof_processes() -> list[tuple[str, Process]]:
    """Return the processes that databases are made of, with the names of their workloads."""
    return [
        (name, process)
        for name, workload in WORKLOADS.items()
        for process in workload.processes
        if (name, process.pid) not in NVPROF_LEFT_OUT
    ]


def _nvprof_fixtures() -> list[Fixture]:
    found = []
    for name, process in nvprof_processes():
        for age, release in nvprof_tables.AGES.items():
            several = len(WORKLOADS[name].processes) > 1
            which = f"process {process.pid} of: " if several else ""
            holds = f"{which}{WORKLOADS[name].title}; as of {release.product}"
            writer = partial(_write_nvprof, name, process, age)
            path = f"nvprof_database/{nvprof_name(name, process, age)}"
            found.append(Fixture(path, holds, writer))
    return found


def _write_nvprof(name: str, process: Process, age: str, path: Path) -> None:
    write_nvprof_database(WORKLOADS[name], process, path, age)


def _write_log(name: str, path: Path) -> None:
    write_log(path, text_of(name))


def _write_stats(name: str, path: Path) -> None:
    write_stats(path, STATS[name].make())


def _write_kineto(name: str, process: Process, age: str, path: Path) -> None:
    framework = KINETO_FRAMEWORKS.get(name, NOTHING)
    write_kineto(KINETO_WORKLOADS[name], process, path, age, framework)


def _write_nsys(workload: str, age: str, path: Path) -> None:
    write_nsys(NSYS_WORKLOADS[workload], path, age)


def content(path: Path) -> object:
    """Return what a file says: schema and rows of a sound database, else the bytes, unpacked."""
    if path.suffix == ".gz":
        # A file may be cut short: then what can be unpacked.
        return zlib.decompressobj(wbits=31).decompress(path.read_bytes())
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    # Texts may hold NUL or be no UTF-8 at all.
    connection.text_factory = bytes
    try:
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        entries = sorted(schema.fetchall(), key=repr)
        tables = [name.decode() for kind, name, _, _ in entries if kind == b"table"]
        rows = {}
        for table in tables:
            quoted = table.replace('"', '""')
            rows[table] = connection.execute(f'SELECT * FROM "{quoted}"').fetchall()
        return (entries, rows) if tables else path.read_bytes()
    except sqlite3.DatabaseError:
        return path.read_bytes()
    finally:
        connection.close()


def readme(folder: Path, made: list[Fixture]) -> str:
    """Return the text of README.md for the files in the folder."""
    rows = []
    for fixture in made:
        data = (folder / fixture.name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        rows.append(
            f"| `{fixture.name}` | {fixture.origin} | {fixture.holds} "
            f"| {len(data)} | `{digest}` |\n"
        )
    return INTRO + "".join(rows)


def make_all() -> None:
    """Write every fixture that is made up, and the README."""
    for fixture in fixtures():
        if fixture.make is None:
            continue
        path = FIXTURES / fixture.name
        path.parent.mkdir(parents=True, exist_ok=True)
        fixture.make(path)
    (FIXTURES / README).write_text(readme(FIXTURES, fixtures()))


def problems() -> list[str]:
    """Return the problems of the folder, a line for each file."""
    found = []
    expected = fixtures()
    listed = (FIXTURES / README).read_text() if (FIXTURES / README).exists() else ""
    with tempfile.TemporaryDirectory() as folder:
        for fixture in expected:
            path, fresh = FIXTURES / fixture.name, Path(folder) / Path(fixture.name).name
            if not path.exists():
                found.append(f"{fixture.name}: is missing")
                continue
            if fixture.make is not None:
                fixture.make(fresh)
            if fixture.make is not None and content(path) != content(fresh):
                found.append(f"{fixture.name}: differs from what the script makes")
            elif f"`{hashlib.sha256(path.read_bytes()).hexdigest()}`" not in listed:
                found.append(f"{fixture.name}: {README} lacks it or has another checksum")
    for kind in sorted({fixture.name.partition("/")[0] for fixture in expected}):
        names = {
            Path(fixture.name).name for fixture in expected if fixture.name.startswith(f"{kind}/")
        }
        strangers = {path.name for path in (FIXTURES / kind).glob("*")} - names
        found += [f"{kind}/{name}: is not made by the script" for name in sorted(strangers)]
    return found


def main() -> int:
    """Make or check; returns the exit status."""
    parser = argparse.ArgumentParser(description="make the made-up test fixtures")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    if not parser.parse_args().check:
        make_all()
        return 0
    found = problems()
    print("\n".join(found) if found else "all fixtures are as the script makes them")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
