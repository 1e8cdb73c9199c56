"""The job on rocpd, the databases of AMD's rocprofv3: an import beside a raw copy of what it keeps."""

from __future__ import annotations

from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from results import Bar, Group, Job

KERNELS = 1_000_000
# It would be repeated; the public ones hold kernels alone.
DATABASE, FIXTURE = "a public rocpd database with calls", "rocpd/basic-3.db"
RAW = "raw INSERT … SELECT"


def run(real: Path, kernels: int, runs: int, setting: str) -> Group:
    """Return the group."""
    group = Group("rocpd databases", setting)
    source = inputs.rocpd(inputs.source(real, DATABASE, FIXTURE, group.skipped), kernels)
    store, copy = DATA / "rocpd-store.db", DATA / "rocpd-copy.db"
    sides = [
        Side("nsysconv import", [*NSYSCONV, "import", str(source), "-o", str(store)], (store,)),
        Side(RAW, baseline("rocpd_copy", source, copy), (copy,)),
    ]
    bars = (Bar("times", 2, RAW),)
    group.say(Job("import of a rocpd database", kernels / 1e6, "M kernels", in_turn(sides, runs), bars))
    for path in (store, copy):
        remove(path)
    return group
