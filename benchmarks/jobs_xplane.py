"""The job on profiles of XLA: an import beside protobuf's own decoder in Python, and sums of kernels."""

from __future__ import annotations

from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from results import Bar, Group, Job

MB = 100
PROFILE = "AMD-AGI+TraceLens__te_fused_attn.xplane.pb"
PYTHON, FAST = "protobuf in pure Python", "protobuf in C (upb)"


def run(real: Path, megabytes: int, runs: int, setting: str) -> Group:
    """Return the group."""
    group = Group("profiles of XLA", setting)
    source = inputs.xplane(
        inputs.source(real, PROFILE, "xplane/training.xplane.pb", group.skipped), megabytes
    )
    store = DATA / "xplane.db"
    sides = [
        Side("nsysconv import", [*NSYSCONV, "import", str(source), "-o", str(store)], (store,)),
        Side(PYTHON, baseline("xplane_python", source), most_runs=1),
        Side(FAST, baseline("xplane_upb", source)),
    ]
    bars = (Bar("as fast", 5, PYTHON), Bar("MB", 300))
    group.say(Job("import of an XLA profile", megabytes, "MB", in_turn(sides, runs), bars))
    remove(store)
    return group
