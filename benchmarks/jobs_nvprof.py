"""The job on nvprof's GPU traces (CSV): an import beside pandas' `read_csv` and `to_sql`.

The peer that the bar is set for is the faster of two ways to write the data frame: 1000 rows an INSERT.
The defaults of `to_sql` are measured too. Both write through Python's `sqlite3`; through SQLAlchemy, the
other way that pandas offers, the same took more than twice as long.
"""

from __future__ import annotations

from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from results import Bar, Group, Job

ROWS = 1_000_000
TRACE = "leimingyu+magus__traces_shoc_lev1stencil2d.csv"
FIXTURE = "nvprof_log/basic-gpu-trace.csv"
FASTER = "pandas read_csv + to_sql, 1000 rows an INSERT"
PEERS = {FASTER: "pandas_to_sql_multi", "pandas read_csv + to_sql": "pandas_to_sql"}


def large(real: Path, rows: int, skipped: list[str]) -> Path:
    """Return the trace; says in `skipped` where it is not of the real one."""
    return inputs.nvprof(inputs.source(real, TRACE, FIXTURE, skipped), rows)


def import_job(source: Path, rows: int, runs: int) -> Job:
    """Return a trace into a store, beside the peers, which write a file of their own."""
    store, table = DATA / "nvprof.db", DATA / "pandas.db"
    ours = Side("nsysconv import", [*NSYSCONV, "import", str(source), "-o", str(store)], (store,))
    peers = [Side(title, baseline(name, source, table), (table,)) for title, name in PEERS.items()]
    bars = (Bar("as fast", 5, FASTER, why="nvprof-traces"), Bar("MB", 300))
    job = Job("import of a GPU trace", rows / 1e6, "M rows", in_turn([ours, *peers], runs), bars)
    for path in (store, table):
        remove(path)
    return job


def run(real: Path, rows: int, runs: int, setting: str) -> Group:
    """Return all of them."""
    group = Group("nvprof GPU traces (CSV)", setting)
    group.say(import_job(large(real, rows, group.skipped), rows, runs))
    return group
