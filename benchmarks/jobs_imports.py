"""Imports of one large file each, beside baselines that read or copy the same file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from results import Bar, Group, Job


@dataclass(frozen=True)
class Import:
    """An import: the real file or the fixture that is repeated to a size, and what runs beside it.

    `sides` are, by name, a baseline, whether it writes a file, and how often it is run at most.
    """

    title: str
    job: str
    source: str
    fixture: str
    large: Callable[[Path, int], Path]
    size: int
    unit: str
    sides: dict[str, tuple[str, bool, int | None]]
    bars: tuple[Bar, ...]


# The peer of nvprof that the bar is set for is the faster of two ways to write the data frame, 1000 rows
# an INSERT; the defaults of `to_sql` are measured, too. Both write through Python's `sqlite3`; through
# SQLAlchemy, the other way that pandas offers, the same took more than twice as long.
FASTER = "pandas read_csv + to_sql, 1000 rows an INSERT"
COLUMNS = "pandas read_csv of columns + to_sql, 1000 rows an INSERT"
RAW = "raw INSERT … SELECT"
PYTHON, FAST = "protobuf in pure Python", "protobuf in C (upb)"
IMPORTS = {
    "nvprof": Import(
        "nvprof GPU traces (CSV)", "import of a GPU trace",
        "leimingyu+magus__traces_shoc_lev1stencil2d.csv", "nvprof_log/basic-gpu-trace.csv",
        inputs.nvprof, 1_000_000, "M rows",
        {FASTER: ("pandas_to_sql_multi", True, None),
         "pandas read_csv + to_sql": ("pandas_to_sql", True, None)},
        (Bar("as fast", 5, FASTER, why="nvprof-traces"), Bar("MB", 300))),
    # No public one is known that is large enough to be named.
    "nvprof_text": Import(
        "nvprof GPU traces (text)", "import of a GPU trace of text",
        "", "nvprof_log/basic-gpu-trace.txt", inputs.nvprof, 640_000, "M rows",
        {COLUMNS: ("pandas_text_to_sql", True, None)},
        (Bar("s", 8), Bar("MB", 300))),
    # It would be repeated; the public ones hold kernels alone.
    "rocpd": Import(
        "rocpd databases", "import of a rocpd database",
        "a public rocpd database with calls", "rocpd/basic-3.db",
        inputs.rocpd, 1_000_000, "M kernels", {RAW: ("rocpd_copy", True, None)}, (Bar("times", 2, RAW),)),
    "xplane": Import(
        "profiles of XLA", "import of an XLA profile",
        "AMD-AGI+TraceLens__te_fused_attn.xplane.pb", "xplane/training.xplane.pb",
        inputs.xplane, 100, "MB",
        {PYTHON: ("xplane_python", False, 1), FAST: ("xplane_upb", False, None)},
        (Bar("as fast", 5, PYTHON), Bar("MB", 300))),
}  # fmt: skip


def run(name: str, real: Path, size: int, runs: int, setting: str) -> Group:
    """Measure an import of IMPORTS and its baselines; return them as a group of the page of figures."""
    which = IMPORTS[name]
    group = Group(which.title, setting)
    source = which.large(inputs.source(real, which.source, which.fixture, group.skipped), size)
    store, copy = DATA / f"{name}.db", DATA / f"{name}-copy.db"
    sides = [Side("nsysconv import", [*NSYSCONV, "import", str(source), "-o", str(store)], (store,))]
    for title, (command, writes, most) in which.sides.items():
        made = (copy,) if writes else ()
        sides.append(Side(title, baseline(command, source, *made), made, most))
    amount = size / 1e6 if which.unit.startswith("M ") else size
    group.say(Job(which.job, amount, which.unit, in_turn(sides, runs), which.bars))
    for path in (store, copy):
        remove(path)
    return group
