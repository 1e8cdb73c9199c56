"""The job on nvprof's GPU traces (CSV): an import beside pandas' `read_csv` and `to_sql`.

The peer that the bar is set for is the faster of two ways to write the data frame: 1000 rows an INSERT.
The defaults of `to_sql` are measured too. Both write through Python's `sqlite3`; through SQLAlchemy, the
other way that pandas offers, the same took more than twice as long.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from measure import DATA, HERE, NSYSCONV, Group, Result, Side, baseline, compare, in_turn

ROWS = 1_000_000
MEMORY = "≤ 300 MB"
# (baseline, what it is called in the table, the bars against it); the first is the faster one.
PEERS = (
    (
        "pandas_to_sql_multi",
        "pandas read_csv + to_sql, 1000 rows an INSERT",
        f"≤ 0.2 × (5 × as fast), {MEMORY}",
    ),
    ("pandas_to_sql", "pandas read_csv + to_sql", MEMORY),
)


def generated(rows: int) -> Path:
    """The generated trace of this size, made when it is missing."""
    path = DATA / f"nvprof-{rows}.csv"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        unfinished = path.with_name(f"unfinished-{path.name}")
        command = [str(HERE / "generate_nvprof.py"), str(unfinished), "--rows", str(rows)]
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(path)
    return path


def import_jobs(rows: int, runs: int) -> list[Result]:
    """A trace into a store, beside the peers, which write a file of their own."""
    source, store, table = generated(rows), DATA / "nvprof.db", DATA / "pandas.db"
    ours = Side("nsysconv import", [*NSYSCONV, "import", str(source), "-o", str(store)], (store,))
    peers = [Side(title, baseline(name, source, table), (table,)) for name, title, _ in PEERS]
    found = in_turn([ours, *peers], runs)
    for path in (store, table):
        path.unlink(missing_ok=True)
    return [
        compare(f"import, {rows / 1e6:g} M rows", found[ours.name], title, found[title], bar)
        for _, title, bar in PEERS
    ]


def run(rows: int, runs: int, setting: str) -> Group:
    """All of them."""
    return Group("nvprof GPU traces (CSV)", setting, import_jobs(rows, runs))
