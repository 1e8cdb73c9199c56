"""The made-up workloads: every report gives the answers that stand beside each scenario.

Every age of the exports of nsys, imported and read in place, and the traces of Kineto. What a file
cannot hold is named here. Other sources are compared with the exports of nsys, row by row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from answers import NO_API_CALL
from conftest import BETWEEN, FIXTURES, Shelf, few, in_any_order
from scenarios import EXPECTED
from workload_rows import (
    DATABASES,
    FUNCTIONS,
    KINETO_TRACES,
    LOG_TRACES,
    NSYS_EXPORTS,
    Expected,
    File,
    Kineto,
    Nsys,
    demangle,
    newest_export,
)

from nsysconv import api, codes
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.importers.nvprof_database import reader
from nsysconv.queries import REPORTS, reports_that_are

Rows = list[dict[str, Any]]
PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")
UNKNOWN = -1
# c++filt's spelling, as in traces -> NVIDIA's, as in exports.
SPELLED = {each.itanium: each.demangled for each in FUNCTIONS}
# A launch by the driver, which traces of 1.9 leave out.
UNKNOWN_GAPS = {("basic", "1.9"): 191_000}


class Told:
    """All reports of the files of one recording, and which GPU of the machine each device is."""

    def __init__(self, files: list[File], targets: list[Path]) -> None:
        self.files = files
        self.first = files[0].expected[0]
        self.workload = self.first.workload
        self.expected = EXPECTED[self.workload.name]
        self.reports: dict[str, Rows | None] = dict.fromkeys(REPORTS)
        self.facts: set[Fact] = set()
        self.no_kernel: Rows = []
        for file, target in zip(files, targets, strict=True):
            self._read(file.expected[0], target)

    def _read(self, expected: Expected, target: Path) -> None:
        with api.open(target) as opened:
            profile = opened.profile
            gpus = {row["device_id"]: self._gpu(expected, row) for row in profile.rows("device")}
            zero = profile.attributes["zero_utc_ns"]
            later = zero - self.workload.zero_utc_ns if zero else 0

            def rows(report: str, **asked: Any) -> Rows:
                found: Rows = opened.report(report, **asked).rows()
                for row in found:
                    for column in row.keys() & {"start_ns", "window_start_ns"}:
                        row[column] += later
                    if "device_id" in row:
                        row["gpu"] = gpus.get(row["device_id"])
                return found

            for report in REPORTS:
                try:
                    split = "device" if report in reports_that_are("split") else None
                    self.reports[report] = (self.reports[report] or []) + rows(report, split=split)
                except NotRecorded:
                    continue
            self.facts |= profile.facts
            if Fact.KERNELS in profile.facts:
                self.no_kernel += rows("idle_summary", idle=("no_kernel",), split="device")

    @staticmethod
    def _gpu(expected: Expected, device: dict[str, Any]) -> int:
        for gpu in expected.workload.devices:
            # The oldest exports hold the number of the bus and nothing else.
            bus = (gpu.bus_id, str(int(gpu.bus_id.split(":")[1], 16)))
            if device["uuid"] in (gpu.uuid, f"GPU-{gpu.uuid}") or device["bus_id"] in bus:
                return gpu.gpu_id
        if device["ordinal"] is None:
            return UNKNOWN
        (gpu_id,) = {
            process.devices[device["ordinal"]].gpu_id for process in expected.processes
            if device["pid"] in (None, process.pid)}  # fmt: skip
        return gpu_id

    def __getitem__(self, report: str) -> Rows:
        rows = self.reports[report]
        if rows is None:
            pytest.skip(f"{report} is not recorded: nothing ran on a GPU")
        return rows

    @property
    def is_coarse(self) -> bool:
        """Whether times are whole microseconds."""
        return isinstance(self.first, Kineto) and not self.first.age.relative

    @property
    def apart(self) -> bool:
        """Whether every device is another GPU: else only sums can be compared."""
        gpus = [row["gpu"] for row in self["overview"]]
        return len(set(gpus)) == len(gpus)

    def has_all_of(self, gpu: int) -> bool:
        """Whether all that ran on a GPU is recorded: neither migrations nor whole graphs are missing."""
        answer = self.expected["devices"][gpu]
        return isinstance(self.first, Nsys) or not (answer["um_count"] or answer["graph_launch_count"])

    def omitted(self) -> list[Any]:
        """Calls that the files leave out."""
        kept = [call for file in self.files for call in file.expected[0].own("calls")]
        return [call for call in self.workload.events.calls if call not in kept]

    def same(self, found: Counter[Any], wanted: Counter[Any]) -> None:
        """Equal; in whole microseconds a sum may lack up to one for each row."""
        if not self.is_coarse:
            assert +found == +wanted
            return
        for key in found | wanted:
            if str(key[-1]).endswith("_ns"):
                assert wanted[key] - 10_000 < found[key] <= wanted[key]
                assert found[key] % 1000 == 0
            else:
                assert found[key] == wanted[key]


@dataclass(frozen=True)
class Recording:
    """An export, or the traces of all processes in one age."""

    files: tuple[File, ...]
    in_place: bool = False

    @property
    def path(self) -> Path:
        return self.files[0].path

    @property
    def is_trace(self) -> bool:
        return isinstance(self.files[0].expected[0], Kineto)

    def __str__(self) -> str:
        return f"{self.files[0]}-{'in_place' if self.in_place else 'imported'}"


def recordings() -> list[Recording]:
    traces: dict[tuple[str, str], list[File]] = {}
    for file in KINETO_TRACES:
        (expected,) = file.expected
        if isinstance(expected, Kineto) and expected.name in EXPECTED:
            traces.setdefault((expected.name, expected.age_name), []).append(file)
    return [*(Recording((file,), in_place) for file in NSYS_EXPORTS for in_place in (False, True)),
            *(Recording(tuple(files)) for files in traces.values())]  # fmt: skip


@pytest.fixture(scope="module")
def known() -> dict[Recording, Told]:
    return {}


# The oldest and the newest of each; an export imported or in place, by turns.
RECORDINGS = recordings()
ENDS = [each for each in RECORDINGS if each.path not in BETWEEN]


@pytest.fixture(params=[
    *few(ENDS, len(ENDS) // 3), *few([each for each in RECORDINGS if each not in ENDS], 0)
], ids=str)  # fmt: skip
def told(request: pytest.FixtureRequest, known: dict[Recording, Told], shelf: Shelf) -> Told:
    recording: Recording = request.param
    if recording not in known:
        paths = [file.path for file in recording.files]
        targets = paths if recording.in_place else [shelf.store(path) for path in paths]
        known[recording] = Told([*recording.files], targets)
    return known[recording]


def test_devices(told: Told) -> None:
    rows = told["overview"]
    if not told.apart:
        names = ("kernel_count", "kernel_sum_ns", "memcpy_count", "memcpy_sum_ns")
        told.same(Counter({(name,): sum(row[name] or 0 for row in rows) for name in names}), Counter({
            (name,): sum(answer[name] for answer in told.expected["devices"].values())  # type: ignore[literal-required]
            for name in names}))  # fmt: skip
        return
    by_gpu = {row["gpu"]: row for row in rows}
    whole = {gpu for gpu in told.expected["devices"] if told.has_all_of(gpu)}
    assert whole <= by_gpu.keys() <= told.expected["devices"].keys()
    for gpu in whole:
        for name, wanted in told.expected["devices"][gpu].items():
            if name != "no_kernel_idle_ns":
                # What a file has no table for is null there: the writers leave empty tables out.
                slack = 1_000 if told.is_coarse and name.endswith("_ns") else 0
                assert (by_gpu[gpu][name] or 0) == pytest.approx(wanted, abs=slack), name


def test_what_a_trace_never_holds_is_not_known(told: Told) -> None:
    if isinstance(told.first, Kineto):
        assert {row["um_count"] for row in told["overview"]} <= {None}


def test_idle_time_without_kernels(told: Told) -> None:
    if (told["overview"] and not told.apart) or told.is_coarse:
        pytest.skip("this age does not say which GPU a device is, or has whole microseconds")
    found: Counter[int] = Counter()
    for row in told.no_kernel:
        found[row["gpu"]] += row["gap_sum_ns"]
    for gpu, answer in told.expected["devices"].items():
        if told.has_all_of(gpu):
            assert found[gpu] == answer["no_kernel_idle_ns"]


def test_gaps(told: Told) -> None:
    if told["idle_gaps"] and not told.apart:
        pytest.skip("this age does not say which GPU a device is")
    if told.is_coarse and told.workload.name == "graphs":
        pytest.skip("gaps of half a microsecond")
    profiler = Fact.OVERHEAD in told.facts
    for gpu, gaps in told.expected["gaps"].items():
        if not told.has_all_of(gpu):
            continue
        found = [(row["start_ns"], row["dur_ns"], row["cause"], *(row[f"{p}_ns"] for p in PARTS))
                 for row in told["idle_gaps"] if row["gpu"] == gpu]  # fmt: skip
        wanted = [(gap.start_ns, gap.dur_ns, gap.cause,
                   # Where the age has no table of overhead it remains the host's.
                   gap.host_ns + (0 if profiler else gap.profiler_ns), gap.launch_ns, gap.queue_ns,
                   gap.migration_ns, gap.profiler_ns if profiler else 0, gap.unknown_ns, 0)
                  for gap in gaps]  # fmt: skip
        unknown = UNKNOWN_GAPS.get((told.workload.name, told.first.age_name))
        assert sorted(found) == [
            (start, dur, "unknown", 0, 0, 0, 0, 0, dur, 0) if start == unknown else (start, dur, *rest)
            for start, dur, *rest in wanted]  # fmt: skip


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
        key = (row["gpu"], row["direction"], *kinds)
        for name in ("memcpy_count", "bytes_sum", "memcpy_sum_ns"):
            found[key, name] += row[name]
    told.same(found, Counter({
        (key, name): number for key, answer in told.expected["transfers"].items()
        # Traces hold no migrations.
        if isinstance(told.first, Nsys) or not key[1].startswith("UM ")
        for name, number in (("memcpy_count", answer.memcpy_count), ("bytes_sum", answer.bytes_sum),
                             ("memcpy_sum_ns", answer.sum_ns))
    }))  # fmt: skip


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
        key = (row["gpu"], SPELLED.get(row["name"], row["name"]))
        found.update({(*key, "count"): row["kernel_count"], (*key, "sum_ns"): row["kernel_sum_ns"]})
    told.same(found, Counter({
        (*key, what): number for key, answer in told.expected["kernels"].items()
        for what, number in (("count", answer.kernel_count), ("sum_ns", answer.sum_ns))
    }))  # fmt: skip


def test_shares_of_kernels_add_up_to_all(told: Told) -> None:
    """In each file that has some."""
    files = {row["profile"] for row in told["kernels"]}
    assert sum(row["kernel_pct"] for row in told["kernels"]) == pytest.approx(100 * len(files))


VALUES = ("call_count", "api_sum_ns", "gpu_op_count", "kernel_sum_ns", "memcpy_sum_ns", "memset_sum_ns")


def test_calls_and_what_they_launched(told: Told) -> None:
    """Of a call that is left out the GPU work has no call, and is counted there."""
    linked = Fact.API_LINKS in told.facts
    found: Counter[Any] = Counter()
    for row in told["api_vs_kernel"]:
        found.update({(row["layer"], row["name"], value): row[value] or 0 for value in VALUES})
    wanted = Counter({(*key, value): number for key, answer in told.expected["api"].items()
                      for value, number in zip(VALUES, answer[:6], strict=True)})  # fmt: skip
    assert linked or not any(number for key, number in wanted.items() if key[-1] not in VALUES[:2])
    for call in told.omitted():
        key = (call.layer, call.symbol.removesuffix("_v2").partition("_v")[0])
        wanted[*key, "call_count"] -= 1
        wanted[*key, "api_sum_ns"] -= call.end_ns - call.start_ns
        for value in VALUES[2:]:
            wanted[*NO_API_CALL, value] += wanted.pop((*key, value), 0)
    if isinstance(told.first, Kineto):
        # Migrations and graphs as a whole are in no trace.
        wanted[*NO_API_CALL, "gpu_op_count"] -= len(told.workload.events.migrations)
        launches = len(told.workload.events.graph_launches)
        wanted["runtime", "cudaGraphLaunch", "gpu_op_count"] -= launches
    told.same(found, wanted)


def test_latencies_and_queue_times(told: Told) -> None:
    if told.is_coarse or len(told.files) > 1 or not all(map(told.has_all_of, told.expected["devices"])):
        pytest.skip("GPU work is missing or in another file, or has whole microseconds")
    found = {(row["layer"], row["name"]): (
        row["launch_latency_avg_ns"], row["queue_count"] or 0, row["queue_avg_ns"])
        for row in told["api_vs_kernel"] if row["layer"]}  # fmt: skip
    omitted = {(call.layer, call.symbol.partition("_v")[0]) for call in told.omitted()}
    assert found == {
        key: (a.latency_sum_ns / a.latency_count if a.latency_count else None, a.queue_count,
              a.queue_sum_ns / a.queue_count if a.queue_count else None)
        for key, a in told.expected["api"].items() if key not in {NO_API_CALL, *omitted}}  # fmt: skip


def test_processes(told: Told) -> None:
    omitted = Counter(call.thread.process.pid for call in told.omitted())
    found = {row["pid"]: (row["api_call_count"], row["api_sum_ns"]) for row in told["processes"]}
    assert found.keys() == told.expected["api_call_count"].keys()
    for pid, (count, outermost) in found.items():
        assert count == told.expected["api_call_count"][pid] - omitted[pid]
        if not omitted[pid] and not told.is_coarse:
            assert outermost == told.expected["api_outermost_sum_ns"][pid]


def test_gpu_work_of_processes_adds_up_to_the_whole(told: Told) -> None:
    kinds = ("kernel", "memcpy", "memset", "um", "graph_launch")
    ops = sum(row[f"{kind}_count"] or 0 for row in told["overview"] for kind in kinds)
    assert sum(row["gpu_op_count"] for row in told["processes"]) == ops


def test_directions_are_words_of_the_schema(told: Told) -> None:
    allowed = {*codes.DIRECTIONS, *(f"UM {word}" for word in codes.DIRECTIONS)}
    assert {row["direction"] for row in told["transfers"]} <= allowed


@pytest.mark.parametrize("age", ["2.5.json.gz", "2.13.json"])
def test_unified_memory_of_a_trace_leaves_its_gap_to_the_host(age: str) -> None:
    """Without migrations: kernels 5-15 and 26-30, the second one launched at 24-25 us."""
    with api.open(FIXTURES / "kineto" / f"unified_memory-{age}") as profile:
        (row,) = profile.report("overview").rows()
        (gap,) = profile.report("idle_gaps").rows()
    assert (row["window_ns"], row["busy_ns"], row["idle_ns"]) == (25_000, 14_000, 11_000)
    assert gap["start_ns"] - row["window_start_ns"] == 10_000
    assert (gap["host_ns"], gap["launch_ns"], gap["queue_ns"]) == (9_000, 1_000, 1_000)


# -- sources of nvprof, row by row beside nsys

# What only one of the two knows: how long recording went on, the program's name, the system's names of
# threads, ranks in environments. Ids are by the order of rows, which is each source's own.
NOT_COMPARED = {"profile", "recording_ns", "process", "thread", "rank", "event"}
OF_DATABASES = ("overview", "processes", "api_vs_kernel", "kernels", "transfers", "transfer_sizes",
                "idle_gaps", "idle_summary", "idle_host", "gpu_utilization")  # fmt: skip
OF_LOGS = ("overview", "kernels", "transfers", "transfer_sizes", "idle_gaps")


class Beside:
    """A file of one process, and what it has in common with the export of nsys."""

    def __init__(self, file: File) -> None:
        (expected,) = file.expected
        self.file, self.workload = file, expected.workload.name
        name, is_log = file.path.name, file in LOG_TRACES
        # Text has numbers for launches only.
        linked = "both" in name and name.endswith(".csv")
        self.reports = (*OF_LOGS, *(["api_vs_kernel"] if linked else [])) if is_log else OF_DATABASES
        # Logs spell some GPUs in short, and have no parts of gaps.
        self.columns = {"idle_gaps": {"start_ns", "dur_ns", "device_id", "next_op"}} if is_log else {}
        self.not_compared = {*NOT_COMPARED, *(["device"] if is_log else [])}
        self.has_kinds = "cuda8" not in name

    def __str__(self) -> str:
        return str(self.file)

    def answers(self, path: Path) -> dict[str, Any]:
        with api.open(path) as profile:
            return {report: self._rows(profile, report) for report in self.reports}

    def _rows(self, profile: api.OpenProfile, report: str) -> Any:
        try:
            rows = profile.report(report).rows()
        except NotRecorded as missing:
            return {str(fact) for fact in missing.missing}
        if report == "transfers" and not self.has_kinds:
            # Of copies alike but for the kinds of memory, only their sums are left.
            sums: Counter[Any] = Counter()
            for row in rows:
                for column in ("memcpy_count", "bytes_sum", "memcpy_sum_ns"):
                    sums[row["device_id"], row["direction"], column] += row[column]
            return sums
        columns = self.columns.get(report)
        # Whether none of a kind was recorded, or nothing could be, only one of the two may know.
        unsure = ("um_", "graph_launch_") if self.workload != "no_gpu" else ("",)
        return in_any_order([
            {k: v for k, v in row.items() if k not in self.not_compared
             and (columns is None or k in columns) and not (v in (None, 0) and k.startswith(unsure))}
            for row in rows])  # fmt: skip


# Databases of two processes are two; in other logs times and sizes do not survive the rounding.
BESIDE = [
    *(Beside(file) for file in DATABASES
      if file.expected[0].workload.name in ("basic", "unified_memory", "ranges", "no_gpu")),
    *(Beside(file) for file in LOG_TRACES if "api-trace" not in file.path.name
      and file.expected[0].workload.name in ("basic", "unified_memory")),
]  # fmt: skip


@pytest.mark.parametrize("beside", BESIDE, ids=str)
def test_reports_are_those_of_nsys(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "demangler", lambda: demangle)
    ours = beside.answers(beside.file.path)
    theirs = beside.answers(newest_export(beside.workload))
    for report in beside.reports:
        if beside.workload == "no_gpu" and isinstance(theirs[report], set):
            continue  # nsys says that it could not trace: not recorded. Here it is none.
        assert ours[report] == theirs[report], report
