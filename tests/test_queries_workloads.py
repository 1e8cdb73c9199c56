"""The made-up workloads: every report gives the answers that stand beside each scenario.

Every age of the export, imported and read in place. What an age cannot hold is named here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from answers import NO_API_CALL
from conftest import NSYS_FILES, Shelf, oldest_and_newest
from scenarios import EXPECTED, WORKLOADS

from nsysconv import api, codes
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries import REPORTS, reports_that_are

Rows = list[dict[str, Any]]
PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")
FILES = [path for path in NSYS_FILES if path.stem.rpartition("-")[0] in EXPECTED]
HOW = ("imported", "in_place")
UNKNOWN = -1


class Told:
    """All reports of one file, and which GPU of the machine each device is."""

    def __init__(self, path: Path, target: Path) -> None:
        self.name = path.stem.rpartition("-")[0]
        self.expected = EXPECTED[self.name]
        self.reports: dict[str, Rows | None] = {}
        with api.open(target) as profile:
            for report in REPORTS:
                try:
                    split = "device" if report in reports_that_are("split") else None
                    self.reports[report] = profile.report(report, split=split).rows()
                except NotRecorded:
                    self.reports[report] = None
            self.facts = profile.profile.facts
            self.gpus = {row["device_id"]: self._gpu(row) for row in profile.profile.rows("device")}
            if Fact.KERNELS in self.facts:
                self.no_kernel = profile.report(
                    "idle_summary", idle=("no_kernel",), split="device").rows()

    def _gpu(self, device: dict[str, Any]) -> int:
        workload = WORKLOADS[self.name]
        for gpu in workload.devices:
            # The oldest exports tell the number of the bus and nothing else.
            bus = (gpu.bus_id, str(int(gpu.bus_id.split(":")[1], 16)))
            if device["uuid"] in (gpu.uuid, f"GPU-{gpu.uuid}") or device["bus_id"] in bus:
                return gpu.gpu_id
        if device["ordinal"] is None:
            return UNKNOWN
        (gpu_id,) = {
            process.devices[device["ordinal"]].gpu_id for process in workload.processes
            if device["pid"] in (None, process.pid)}  # fmt: skip
        return gpu_id

    def __getitem__(self, report: str) -> Rows:
        rows = self.reports[report]
        if rows is None:
            pytest.skip(f"{report} is not recorded: nothing ran on a GPU")
        return rows

    @property
    def apart(self) -> bool:
        """Whether every device of the profile is another GPU: else only sums can be compared."""
        return len(set(self.gpus.values())) == len(self.gpus)


@pytest.fixture(scope="module")
def known() -> dict[tuple[Path, str], Told]:
    return {}


@pytest.fixture(params=HOW)
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=oldest_and_newest(FILES), ids=lambda path: path.stem)
def told(
    request: pytest.FixtureRequest, how: str, known: dict[tuple[Path, str], Told], shelf: Shelf
) -> Told:
    path: Path = request.param
    if (path, how) not in known:
        known[path, how] = Told(path, path if how == "in_place" else shelf.store(path))
    return known[path, how]


def test_every_workload_is_tested() -> None:
    assert {path.stem.rpartition("-")[0] for path in FILES} == set(EXPECTED)


def test_devices(told: Told) -> None:
    rows = told["overview"]
    if not told.apart:
        names = ("kernel_count", "kernel_sum_ns", "memcpy_count", "memcpy_sum_ns")
        for name in names:
            assert sum(row[name] for row in rows) == sum(
                answer[name] for answer in told.expected["devices"].values())  # type: ignore[literal-required]
        return
    for row in rows:
        # What a file has no table for is null there: the writers leave empty tables out.
        found = {name: 0 if row[name] is None else row[name] for name in
                 told.expected["devices"][told.gpus[row["device_id"]]]
                 if name != "no_kernel_idle_ns"}  # fmt: skip
        wanted = dict(told.expected["devices"][told.gpus[row["device_id"]]])
        del wanted["no_kernel_idle_ns"]
        assert found == wanted
    assert {told.gpus[row["device_id"]] for row in rows} == set(told.expected["devices"])


def test_idle_time_without_kernels(told: Told) -> None:
    if told["overview"] and not told.apart:
        pytest.skip("this age does not tell which GPU a device is")
    found: Counter[int] = Counter()
    for row in told.no_kernel:
        found[told.gpus[row["device_id"]]] += row["gap_sum_ns"]
    assert found == {gpu: answer["no_kernel_idle_ns"]
                     for gpu, answer in told.expected["devices"].items()}  # fmt: skip


def test_gaps(told: Told) -> None:
    if told["idle_gaps"] and not told.apart:
        pytest.skip("this age does not tell which GPU a device is")
    profiler = Fact.OVERHEAD in told.facts
    for gpu, gaps in told.expected["gaps"].items():
        found = [(row["start_ns"], row["dur_ns"], row["cause"], *(row[f"{p}_ns"] for p in PARTS))
                 for row in told["idle_gaps"] if told.gpus[row["device_id"]] == gpu]  # fmt: skip
        wanted = [(gap.start_ns, gap.dur_ns, gap.cause,
                   # Where the age has no table of overhead it remains the host's.
                   gap.host_ns + (0 if profiler else gap.profiler_ns), gap.launch_ns, gap.queue_ns,
                   gap.migration_ns, gap.profiler_ns if profiler else 0, gap.unknown_ns, 0)
                  for gap in gaps]  # fmt: skip
        assert sorted(found) == wanted


def test_the_host_part_is_split_without_loss(told: Told) -> None:
    parts = sum(row["host_ns"] for row in told["idle_gaps"])
    assert sum(row["host_sum_ns"] for row in told["idle_host"]) == parts


def test_transfers(told: Told) -> None:
    if told.reports["transfers"] is None:
        assert told.expected["transfers"] == {}
        return
    found: Counter[Any] = Counter()
    for row in told["transfers"]:
        kinds = (row[end] and row[end].lower() for end in ("src_kind", "dst_kind"))
        key = (told.gpus[row["device_id"]], row["direction"], *kinds)
        for name in ("memcpy_count", "bytes_sum", "memcpy_sum_ns"):
            found[key, name] += row[name]
    assert found == Counter({
        (key, name): number for key, answer in told.expected["transfers"].items()
        for name, number in (("memcpy_count", answer.memcpy_count), ("bytes_sum", answer.bytes_sum),
                             ("memcpy_sum_ns", answer.sum_ns))
    })  # fmt: skip


def test_sizes_of_transfers_are_those_of_transfers(told: Told) -> None:
    """The same copies, in other groups."""
    def totals(rows: Rows) -> Counter[tuple[Any, ...]]:
        return Counter({(row["device_id"], row["direction"], name): 0 for row in rows
                        for name in ("memcpy_count", "bytes_sum", "memcpy_sum_ns")})  # fmt: skip

    found, wanted = totals(told["transfer_sizes"]), totals(told["transfers"])
    for counter, report in ((found, "transfer_sizes"), (wanted, "transfers")):
        for row in told[report]:
            for name in ("memcpy_count", "bytes_sum", "memcpy_sum_ns"):
                counter[row["device_id"], row["direction"], name] += row[name]
    assert found == wanted


def test_kernels(told: Told) -> None:
    found: Counter[Any] = Counter()
    for row in told["kernels"]:
        key = (told.gpus[row["device_id"]], row["name"])
        found.update({(key, "count"): row["kernel_count"], (key, "ns"): row["kernel_sum_ns"]})
    assert found == Counter({
        (key, what): number for key, answer in told.expected["kernels"].items()
        for what, number in (("count", answer.kernel_count), ("ns", answer.sum_ns))
    })  # fmt: skip


def test_shares_of_kernels_add_up_to_all(told: Told) -> None:
    assert sum(row["kernel_pct"] for row in told["kernels"]) == pytest.approx(100)


def test_calls_and_what_they_launched(told: Told) -> None:
    linked = Fact.API_LINKS in told.facts
    found = {(row["layer"], row["name"]): (
        row["call_count"] or 0, row["api_sum_ns"] or 0, row["gpu_op_count"] or 0,
        row["kernel_sum_ns"] or 0, row["memcpy_sum_ns"] or 0, row["memset_sum_ns"] or 0)
        for row in told["api_vs_kernel"]}  # fmt: skip
    wanted = {key: tuple(answer)[:6] for key, answer in told.expected["api"].items()}
    assert linked or {answer[2:] for answer in wanted.values()} == {(0, 0, 0, 0)}
    assert found == wanted


def test_latencies_and_queue_times(told: Told) -> None:
    found = {(row["layer"], row["name"]): (
        row["launch_latency_avg_ns"], row["queue_count"] or 0, row["queue_avg_ns"])
        for row in told["api_vs_kernel"] if row["layer"]}  # fmt: skip
    assert found == {
        key: (a.latency_sum_ns / a.latency_count if a.latency_count else None, a.queue_count,
              a.queue_sum_ns / a.queue_count if a.queue_count else None)
        for key, a in told.expected["api"].items() if key != NO_API_CALL}  # fmt: skip


def test_processes(told: Told) -> None:
    found = {row["pid"]: (row["api_call_count"], row["api_sum_ns"]) for row in told["processes"]}
    assert found == {pid: (told.expected["api_call_count"][pid], outermost)
                     for pid, outermost in told.expected["api_outermost_sum_ns"].items()}  # fmt: skip


def test_gpu_work_of_processes_adds_up_to_the_whole(told: Told) -> None:
    kinds = ("kernel", "memcpy", "memset", "um", "graph_launch")
    ops = sum(row[f"{kind}_count"] or 0 for row in told["overview"] for kind in kinds)
    assert sum(row["gpu_op_count"] for row in told["processes"]) == ops


def test_directions_are_words_of_the_schema(told: Told) -> None:
    allowed = {*codes.DIRECTIONS, *(f"UM {word}" for word in codes.DIRECTIONS)}
    assert {row["direction"] for row in told["transfers"]} <= allowed
