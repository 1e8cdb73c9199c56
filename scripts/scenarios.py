"""All workloads and their answers, by name."""

from __future__ import annotations

import scenario_basic
import scenario_graphs
import scenario_memory
import scenario_no_gpu
import scenario_own_gpus
import scenario_ranges
import scenario_shared_gpu
from answers import Answers
from workload import Workload

_MODULES = (
    scenario_basic,
    scenario_shared_gpu,
    scenario_own_gpus,
    scenario_graphs,
    scenario_memory,
    scenario_ranges,
    scenario_no_gpu,
)

WORKLOADS: dict[str, Workload] = {module.WORKLOAD.name: module.WORKLOAD for module in _MODULES}
EXPECTED: dict[str, Answers] = {module.WORKLOAD.name: module.EXPECTED for module in _MODULES}
