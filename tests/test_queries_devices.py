"""Devices: what each source describes, the peaks of known models and of others, and who uses them."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, few, name_of, profile_in_place, real
from importing import changed_copy
from small_store import Call, Kernel, Operator, Range, answers, asked, opened

from nsysconv import api, schema
from nsysconv.errors import InputError, NoProfileError, NotRecorded
from nsysconv.present.devices import sentences
from nsysconv.timeline.peaks import KINDS, Peaks, device_peaks, model_of, models

Row = dict[str, Any]
MHZ = 1_000_000
EMPTY = {column.name: None for column in schema.device.columns}
A100 = {"name": "NVIDIA A100-SXM4-80GB", "sm_count": 108, "compute_major": 8, "compute_minor": 0,
        "sm_clock_hz": 1410 * MHZ, "threads_per_warp": 32}  # fmt: skip


def peaks(**known: Any) -> Peaks | None:
    return device_peaks({**EMPTY, **known})


def described(path: Path, *names: str) -> list[tuple[Any, ...]]:
    with profile_in_place(path) as profile:
        return [tuple(row[name] for name in names) for row in profile.rows("device")]


CLOCKS = ("sm_clock_hz", "memory_clock_hz", "threads_per_warp", "max_threads_per_sm",
          "memory_bandwidth_bytes_per_s")  # fmt: skip


# -- what sources describe


def test_an_export_has_hertz_and_bytes() -> None:
    """clockRate 1410000000, threadsPerWarp 32, memoryBandwidth 1555200000000; no memory clock."""
    found = described(FIXTURES / "nsys/basic-3.28.1.sqlite", *CLOCKS)
    assert found == [(1_410_000_000, None, 32, None, 1_555_200_000_000)]


OLD = (
    "UPDATE TARGET_INFO_CUDA_GPU"
    " SET coreClockRate = {}, globalMemoryBandwidth = {}, globalMemorySize = {}"
)


@pytest.mark.parametrize(
    ("clock", "bandwidth", "memory", "wanted"),
    [
        (1_740_000, 760_080_000, 10_495_524_864, (1740 * MHZ, 760_080_000_000, 10_495_524_864)),
        # As Quadro RTX 8000 was exported once: MiB, and a bandwidth that is none.
        (1_770_000, 4_026_531_840, 48_567, (1770 * MHZ, None, 48_567 << 20)),
        (1_380_000, 0, 32_510, (1380 * MHZ, None, 32_510 << 20)),
        (1_410_000_000, 0, 0, (None, None, 0)),
    ],
    ids=["kilohertz", "mebibytes", "no bandwidth", "implausible"],
)
def test_the_oldest_exports_have_kilohertz_and_some_have_mebibytes(
    tmp_path: Path, clock: int, bandwidth: int, memory: int, wanted: tuple[Any, ...]
) -> None:
    change = OLD.format(clock, bandwidth, memory)
    path = changed_copy(FIXTURES / "nsys/basic-2020.sqlite", tmp_path, change)
    names = ("sm_clock_hz", "memory_bandwidth_bytes_per_s", "memory_bytes")
    assert described(path, *names) == [wanted]


def test_names_of_2021_go_with_the_properties_of_the_older_table(tmp_path: Path) -> None:
    path = changed_copy(
        FIXTURES / "nsys/basic-2021.sqlite", tmp_path, "DROP TABLE IF EXISTS TARGET_INFO_CUDA_GPU",
        "CREATE TABLE TARGET_INFO_CUDA_GPU"
        " (name TEXT, pciBusId, coreClockRate INT, numMultiprocessors INT, deviceId INT, pid INT)",
        "INSERT INTO TARGET_INFO_CUDA_GPU VALUES"
        " ('NVIDIA A100-SXM4-40GB', 77, 1410000, 108, 0, 1), ('another', 78, 1, 2, 1, 1)",
    )  # fmt: skip
    assert described(path, "name", "sm_count", "sm_clock_hz") == [
        ("NVIDIA A100-SXM4-40GB", 108, 1410 * MHZ)
    ]


def test_a_database_of_nvprof_has_kilohertz_and_attributes(tmp_path: Path) -> None:
    """CUdevice_attribute 36 is the memory's clock in kHz, 39 an SM's threads; flag 0: CUPTI's."""
    path = changed_copy(
        FIXTURES / "nvprof_database/basic-12.nvvp", tmp_path,
        "DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE (_id_, flags, deviceId, attribute, value)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE VALUES"
        " (1, 1, 0, x'24000000', x'DE8A120000000000'),"  # 0x128ADE = 1,215,198 kHz
        " (2, 1, 0, x'27000000', x'0008000000000000'),"  # 0x800 = 2048
        " (3, 0, 0, x'27000000', x'FF00000000000000'),"
        " (4, 1, 1, x'27000000', x'FF00000000000000'), (5, 1, 0, 36, 7)",
    )  # fmt: skip
    assert described(path, *CLOCKS) == [(1_410_000_000, 1_215_198_000, 32, 2048, 1_555_200_000_000)]
    assert described(FIXTURES / "nvprof_database/basic-12.nvvp", *CLOCKS)[0][1:4] == (None, 32, None)


def test_a_trace_has_threads_of_warps_and_of_sms() -> None:
    found = described(FIXTURES / "kineto/basic-2.13.json", *CLOCKS, "max_warps_per_sm")
    assert found == [(None, None, 32, 2048, None, 64)]  # 2048 / 32


def test_a_database_of_rocm_has_megahertz(tmp_path: Path) -> None:
    """max_engine_clk_fcompute 1700, mem_clk_max 1600 MHz of the memory that is the GPU's own (heap 1)."""
    source = "rocpd/basic-3.db"
    with closing(sqlite3.connect(FIXTURES / source)) as connection:
        (table,) = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_info_agent%'"
        ).fetchone()
        (text,) = connection.execute(f"SELECT extdata FROM {table} WHERE type = 'GPU'").fetchone()
    details = json.loads(text) | {"max_engine_clk_fcompute": 1700, "wave_front_size": 64}
    details["mem_banks"][0]["mem_clk_max"] = 1600
    details["mem_banks"].append({"heap_type": 0, "mem_clk_max": 6400})
    change = f"UPDATE {table} SET extdata = '{json.dumps(details)}' WHERE type = 'GPU'"
    path = changed_copy(FIXTURES / source, tmp_path, change)
    assert described(path, *CLOCKS) == [(1700 * MHZ, 1600 * MHZ, 64, None, None)]
    # Banks of two clocks have none.
    details["mem_banks"].append({**details["mem_banks"][0], "mem_clk_max": 1500})
    change = f"UPDATE {table} SET extdata = '{json.dumps(details)}' WHERE type = 'GPU'"
    path = changed_copy(FIXTURES / source, tmp_path, change)
    assert described(path, "memory_clock_hz") == [(None,)]


def test_tables_of_rocprofv3_have_megahertz(tmp_path: Path) -> None:
    source = FIXTURES / "rocprofv3_csv/basic-7"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (agents,) = tmp_path.glob("*agent_info.csv")
    head, *rows = agents.read_text("utf-8").splitlines()
    lines = [f'{head},"Max_Engine_Clk_Fcompute","Wave_Front_Size"', *(f"{row},1700,64" for row in rows)]
    agents.write_text("\n".join(lines) + "\n", "utf-8")
    with api.open(tmp_path) as profile:
        (row,) = profile.report("devices").rows()
    assert (row["sm_clock_hz"], row["threads_per_warp"]) == (1700 * MHZ, 64)


@real
def test_a_profile_of_xla_has_kilohertz() -> None:
    path = REAL / "jax_xplane" / "AMD-AGI+TraceLens__te_fused_attn.xplane.pb"
    assert (2400 * MHZ,) in described(path, "sm_clock_hz")


# -- peaks of known models


def test_every_model_matches_itself_only() -> None:
    names = Counter(name.lower() for model in models() for name in model.names)
    assert set(names.values()) == {1} and len(models()) >= 25
    for model in models():
        for name in model.names:
            assert model_of(name) == model_of(f"NVIDIA {name}") == model_of(f" {name.upper()} ") == model
            assert model_of(f"{name} MIG 1g.5gb") is model_of(f"{name} of another kind") is None
        found = peaks(name=model.names[0], sm_count=model.sms)
        assert found == Peaks(model.flop_per_s, model.bytes_per_s, model.source, is_computed=False)
        assert model.source and model.url.startswith("https://") and model.sms


@pytest.mark.parametrize("name", ["", None, "NVIDIA A100", "H100", "AMD Radeon Graphics", "GeForce"])
def test_what_is_no_whole_name_of_a_model_has_no_peaks(name: str | None) -> None:
    assert peaks(name=name, sm_count=108) is None


def test_types_of_half_the_bytes_are_twice_as_fast_or_more() -> None:
    """A slip of a column would show: rates grow with smaller types, and with Tensor Cores."""
    for model in models():
        rate = model.flop_per_s
        for slower, faster in (
            ("fp64", "fp32"), ("fp32", "tf32_tensor"), ("fp64", "fp64_tensor"),
            ("fp32", "fp32_tensor"), ("fp32", "fp16"), ("fp32", "fp16_tensor"),
        ):  # fmt: skip
            if slower in rate and faster in rate:
                assert rate[faster] >= rate[slower], (model.names, slower, faster)
        for slower, faster in (("tf32_tensor", "fp16_tensor"), ("fp16_tensor", "fp8_tensor")):
            if slower in rate and faster in rate:
                assert rate[faster] / rate[slower] == pytest.approx(2, rel=0.02), model.names


# -- computed peaks


def test_the_computed_peaks_of_the_documentation() -> None:
    """108 SMs × 64 multiply-adds × 2 × 1.41 GHz = 19.49 TFLOP/s; 16 bit: × 1024 × 2 = 311.9."""
    found = peaks(**{**A100, "name": "another one"}, memory_bandwidth_bytes_per_s=1_555_200_000_000)
    assert found is not None and found.is_computed
    assert found.flop_per_s["fp32"] == 108 * 64 * 2 * 1410 * MHZ == 19_491_840_000_000
    assert found.flop_per_s["fp16_tensor"] == pytest.approx(311.9e12, rel=1e-3)
    assert found.bytes_per_s == 1_555_200_000_000
    assert found.source == "computed: 108 SMs at 1.410 GHz, compute capability 8.0"


# As real files describe them: SMs, highest clock in MHz, compute capability.
ATTRIBUTES = {
    "NVIDIA A100-SXM4-80GB": (108, 1410, "8.0"),
    "NVIDIA A100-PCIE-40GB": (108, 1410, "8.0"),
    "NVIDIA GeForce RTX 2080": (46, 1710, "7.5"),
    "NVIDIA GeForce RTX 3080": (68, 1710, "8.6"),
    "NVIDIA GeForce RTX 3090": (82, 1695, "8.6"),
    "NVIDIA GeForce RTX 4080": (76, 2505, "8.9"),
    "NVIDIA GeForce RTX 4090": (128, 2520, "8.9"),
    "NVIDIA GB200": (152, 2062, "10.0"),
    "NVIDIA H100 80GB HBM3": (132, 1980, "9.0"),
    "NVIDIA H100 NVL": (132, 1785, "9.0"),
    "Quadro RTX 8000": (72, 1770, "7.5"),
    "Tesla K80": (13, 875, "3.7"),
    "Tesla P100-SXM2-16GB": (56, 1480, "6.0"),
    "Tesla P40": (30, 1531, "6.1"),
    "Tesla T4": (40, 1590, "7.5"),
    "Tesla V100-PCIE-32GB": (80, 1380, "7.0"),
    "Tesla V100-SXM2-32GB": (80, 1530, "7.0"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_what_is_computed_of_a_known_model_is_what_its_vendor_says(name: str) -> None:
    count, clock, capability = ATTRIBUTES[name]
    major, minor = map(int, capability.split("."))
    model = model_of(name)
    assert model is not None and model.sms == count
    # A letter more is another name, which the rules of names still fit.
    computed = peaks(name=f"{name}x", sm_count=count, sm_clock_hz=clock * MHZ, compute_major=major,
                     compute_minor=minor)  # fmt: skip
    assert computed is not None and computed.is_computed
    both = computed.flop_per_s.keys() & model.flop_per_s.keys()
    assert "fp32" in both
    for kind in both:
        assert computed.flop_per_s[kind] == pytest.approx(model.flop_per_s[kind], rel=0.03), kind


def test_a_part_of_a_gpu_has_its_share_and_no_bandwidth() -> None:
    """A MIG instance of 14 of 108 SMs: 14 / 108 × 312 = 40.4 TFLOP/s."""
    bandwidth = {"memory_bandwidth_bytes_per_s": 2_039_040_000_000}
    for known in ({"name": "NVIDIA A100-SXM4-80GB MIG 1g.10gb"}, {"uuid": "MIG-a100a100-0000"}):
        found = peaks(**{**A100, "sm_count": 14, **known}, **bandwidth)
        assert found is not None and found.bytes_per_s is None
        assert found.flop_per_s["fp16_tensor"] == pytest.approx(312e12 * 14 / 108)
        assert found.source == "computed: 14 of 108 SMs, NVIDIA A100, data sheet"
    # One that does not say so has other SMs than the model: what can be computed of them.
    found = peaks(**{**A100, "sm_count": 14}, **bandwidth)
    assert found is not None and found.is_computed and found.bytes_per_s is None
    assert found.flop_per_s["fp32"] == 14 * 64 * 2 * 1410 * MHZ
    # AMD's partitions have no rule.
    assert peaks(name="AMD Instinct MI300X", sm_count=38, compute_major=9, compute_minor=4) is None


def test_another_vendors_numbers_are_not_taken_for_compute_capabilities() -> None:
    """gfx90a is 9.0, as Hopper is; its waves have 64 threads. Bandwidths of AMD's are not believed."""
    wave = {"threads_per_warp": 64, "memory_bandwidth_bytes_per_s": 10**12}
    for known in (wave, {"name": "AMD Radeon Graphics"}, {"name": "gfx90a"}):
        assert peaks(**{**A100, "name": None, "compute_major": 9, **known}) is None


def test_products_of_one_capability_differ_by_name() -> None:
    """GeForce RTX adds products of 16 bit in fp32 at half the rate; without a name nobody knows."""
    figures = {"sm_count": 10, "compute_major": 8, "compute_minor": 6, "sm_clock_hz": 10**9}
    found = {name: peaks(name=name, **figures) for name in
             ("NVIDIA GeForce RTX 3070", "NVIDIA RTX A4000", "NVIDIA A10G", None)}  # fmt: skip
    rates = [each and each.flop_per_s.get("fp16_tensor") for each in found.values()]
    assert rates == [5.12e12, 10.24e12, None, None]


# -- the report


def gpu(**known: Any) -> dict[int, Row]:
    return {0: {**A100, "max_warps_per_sm": 64, "memory_bytes": 84_990_623_744, **known}}


def test_a_row_has_what_is_recorded_and_the_peaks() -> None:
    (row,) = answers("devices", Kernel(0, 10), gpus=gpu())
    assert (row["device_id"], row["device"], row["compute_capability"]) == (0, A100["name"], "8.0")
    assert (row["sm_count"], row["sm_clock_hz"], row["memory_bandwidth_bytes_per_s"]) == (
        108, 1_410_000_000, None)  # fmt: skip
    assert row["max_threads_per_sm"] == 64 * 32
    assert [row[f"peak_{kind}_flop_per_s"] for kind in KINDS] == [
        9.7e12, 19.5e12, None, 19.5e12, None, 156e12, 312e12, None, 624e12]  # fmt: skip
    assert row["peak_memory_bytes_per_s"] == 2.039e12
    assert row["peak_source"] == "NVIDIA A100, data sheet"


def test_devices_are_shown_whatever_ran_on_them() -> None:
    """Of no device without work nothing is lost; one of which nothing is known is no row."""
    rows = answers("devices", Kernel(0, 10), Kernel(0, 10, device=1), gpus={1: {"name": None}})
    assert [(row["device_id"], row["device"]) for row in rows] == [(0, "GPU 0")]
    with pytest.raises(NotRecorded), opened(Kernel(0, 10), gpus={0: {"name": None}}) as profile:
        profile.report("devices")


def test_equal_devices_are_said_once_with_a_source() -> None:
    """Lines have no more than 79 characters."""
    with opened(Kernel(0, 10), Kernel(0, 10, device=1), Kernel(0, 10, device=2),
                gpus={0: gpu()[0], 1: gpu()[0], 2: {"name": "unknown"}}) as profile:  # fmt: skip
        (text,) = sentences(profile.report("devices"))
    assert text.lines == (
        "2 × NVIDIA A100-SXM4-80GB, 108 SMs at 1.41 GHz, compute capability 8.0",
        "   memory: 84.99 GB",
        "   SM: 64 warps, 2,048 threads",
        "   peak TFLOP/s: fp64 9.7, fp32 19.5",
        "   peak TFLOP/s with Tensor Cores: fp64 19.5, TF32 156, 16 bit 312, int8 624",
        "   peak memory: 2,039.00 GB/s",
        "   peaks from: NVIDIA A100, data sheet",
        "GPU 2: unknown",
        "   peaks: not known for this device",
    )
    assert max(map(len, text.lines)) < 80


# -- who uses them

MM = "[[10, 5], [5, 10]]"  # 1000 operations
TENSOR, CUDA_CORES = "ampere_fp16_s16816gemm_fp16_64x64_tn", "ampere_sgemm_64x64_tn"


def product(types: str, kernel: str = TENSOR, name: str = "aten::mm", shapes: str = MM) -> list[Any]:
    inputs = json.dumps([types, types])
    return [Operator(10, 20, name, shapes=shapes, types=inputs), Call(12, 14, 1),
            Kernel(30, 130, 1, name=kernel)]  # fmt: skip


@pytest.mark.parametrize(
    ("types", "kernel", "name", "kind", "peak"),
    [
        ("c10::BFloat16", TENSOR, "aten::mm", "fp16_tensor", 312e12),
        ("c10::Half", CUDA_CORES, "aten::mm", "fp16_tensor", 312e12),
        ("float", CUDA_CORES, "aten::mm", "fp32", 19.5e12),
        ("float", "cutlass_80_tensorop_s1688gemm_128x128_nn", "aten::mm", "tf32_tensor", 156e12),
        ("float", "triton_mm", "aten::mm", None, None),
        ("double", "ampere_d884gemm_64x64", "aten::mm", "fp64_tensor", 19.5e12),
        ("double", "ampere_dgemm_64x64_nn", "aten::mm", "fp64", 9.7e12),
        ("c10::Half", "kernel", "aten::add", "fp32", 19.5e12),
        ("double", "kernel", "aten::mul", "fp64", 9.7e12),
        ("c10::Float8_e4m3fn", TENSOR, "aten::_scaled_mm", None, None),
        ("c10::complex<float>", TENSOR, "aten::mm", None, None),
    ],
)
def test_the_peak_of_a_row_is_that_of_its_type(
    types: str, kernel: str, name: str, kind: str | None, peak: float | None
) -> None:
    """100 operations of 1000 in 100 ns are 1e10 FLOP/s: of 312e12 it is 0.0032 %."""
    shapes = MM if "mm" in name else "[[10, 100], [10, 100]]"
    (row,) = answers("operators:rates", *product(types, kernel, name, shapes), gpus=gpu())
    assert (row["peak_kind"], row["peak_flop_per_s"]) == (KINDS[kind] if kind else None, peak)
    wanted = None if peak is None else pytest.approx(100 * 1e10 / peak)
    assert (row["flop_per_s"], row["peak_flop_pct"]) == (pytest.approx(1e10), wanted)


def test_matrix_cores_do_all_products_of_amd() -> None:
    rows = [answers("operators:rates", *product(types, "Cijk_Ailk"), gpus={0: {"name": name}})[0]
            for types in ("float", "double") for name in ("AMD Instinct MI300X",)]  # fmt: skip
    assert [row["peak_kind"] for row in rows] == [KINDS["fp32_tensor"], KINDS["fp64_tensor"]]


def test_a_given_peak_wins_and_notes_say_which_it_is() -> None:
    def rates(spec: str, **known: Any) -> tuple[Row, dict[str, str]]:
        report = asked(spec, *product("c10::Half"), gpus=gpu(**known))
        (row,) = report.rows()
        return row, {note.slug: note.text for note in report.notes}

    row, notes = rates("operators:rates")
    assert row["peak_bytes_pct"] == pytest.approx(100 * (200 * 1e9 * 2 / 100) / 2.039e12)
    assert notes["peak-used"] == (
        "shares are of the peaks of NVIDIA A100-SXM4-80GB: NVIDIA A100, data sheet"
    )
    row, notes = rates("operators:rates:peak_flop_per_s=20e9:peak_bytes_per_s=1e9")
    assert (row["peak_kind"], row["peak_flop_pct"]) == ("given", pytest.approx(50))
    assert "peak-used" not in notes and "rate-above-peak" in notes
    row, notes = rates("operators:rates", name="made up", compute_major=None)
    assert (row["peak_flop_pct"], row["peak_bytes_pct"], row["peak_kind"]) == (None, None, None)
    assert notes["peak-unknown"] == "no peak is known for made up, so there are no shares of it"


def test_devices_that_differ_have_no_common_peak() -> None:
    events = [*product("c10::Half"), Kernel(200, 210, device=1)]
    (row,) = answers("operators:rates", *events, gpus={**gpu(), 1: {"name": "Tesla T4"}})
    assert row["peak_flop_pct"] is None
    (row,) = answers("operators:rates", *events, gpus={**gpu(), 1: gpu()[0]})
    assert row["peak_flop_pct"] is not None


def steps(*types: str, **known: Any) -> list[Any]:
    events: list[Any] = [Range(0, 100, "ProfilerStep#1")]
    for number, kind in enumerate(types, 1):
        at = 10 * number
        events += [
            Operator(at, at + 8, "aten::mm", shapes=MM, types=json.dumps([kind, kind])),
            Call(at + 2, at + 4, number), Kernel(at + 100, at + 108, number, name=TENSOR),
        ]  # fmt: skip
    return answers("steps", *events, gpus=gpu(**known))


def test_the_utilization_of_a_step_has_each_operation_at_the_peak_of_its_type() -> None:
    """1000 operations at 312 and 1000 at 156 TFLOP/s take 0.00321 + 0.00641 ns of 128."""
    (row,) = steps("c10::Half", "float")
    at_peak = 1000 / 312e3 + 1000 / 156e3
    assert (row["dur_ns"], row["flop_sum"]) == (128, 2000)
    assert row["mfu_pct"] == pytest.approx(100 * at_peak / 128)
    # One of unknown peak takes the figure away, as an unknown device does.
    assert steps("c10::Half", "c10::complex<float>")[0]["mfu_pct"] is None
    (row,) = steps("c10::Half", name="made up", compute_major=None)
    assert (row["mfu_pct"], row["flop_sum"]) == (None, None)


def test_the_gpus_of_a_process_have_their_peaks_together() -> None:
    """1000 operations at 2 × 312 TFLOP/s in a step of 128 ns."""
    events = [Range(0, 100, "ProfilerStep#1"), Operator(10, 18, "aten::mm", shapes=MM,
                                                        types='["c10::Half", "c10::Half"]'),
              Call(12, 14, 1), Kernel(110, 118, 1, name=TENSOR), Call(22, 24, 2),
              Kernel(120, 128, 2, device=1)]  # fmt: skip
    (row,) = answers("steps", *events, gpus={0: gpu()[0], 1: gpu()[0]})
    assert (row["dur_ns"], row["mfu_pct"]) == (128, pytest.approx(100 * 1000 / 624e3 / 128))


def test_above_the_peak_is_noted() -> None:
    """2 × 1000³ operations in 8 ns are 250 PFLOP/s."""
    big = "[[1000, 1000], [1000, 1000]]"
    events = [Range(0, 100, "ProfilerStep#1"),
              Operator(10, 18, "aten::mm", shapes=big, types='["c10::Half", "c10::Half"]'),
              Call(12, 14, 1), Kernel(110, 118, 1, name=TENSOR)]  # fmt: skip
    for report in ("steps", "operators:rates"):
        found = asked(report, *events, gpus=gpu())
        note = next(note for note in found.notes if note.slug == "rate-above-peak")
        assert (note.count, note.of) == (1, 1)


def test_a_finding_on_single_precision_says_both_peaks() -> None:
    events = [Kernel(0, 1000, 1, name=CUDA_CORES), Call(0, 5, 1)]
    wanted = "(peaks: FP32 19.5, TF32 156 TFLOP/s)"
    unknown = {"name": "?", "sm_count": None}
    for known, there in (({}, True), ({"name": "made up"}, True), (unknown, False)):
        rows = answers("findings", *events, gpus=gpu(**known))
        (row,) = (row for row in rows if row["rule"] == "fp32_matmul")
        assert (wanted[:13] in row["finding"]) == there
    assert wanted in answers("findings", *events, gpus=gpu())[0]["finding"]


# -- real files

# Names in real files that no table has: of no whole model, or of a model without a publication at hand.
UNKNOWN = {
    "AMD GPU", "AMD Radeon Graphics", "GeForce GTX 1080 Ti", "NVIDIA A100-PG509-200",
    "NVIDIA GeForce GTX 1050",
    "NVIDIA GeForce RTX 3050 Laptop GPU", "NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 4060",
    "NVIDIA GeForce RTX 3060 Laptop ", "NVIDIA GeForce RTX 4060 Laptop GPU", "NVIDIA GeForce RTX 4060 Ti",
    "NVIDIA GeForce RTX 4090 D", "NVIDIA RTX A5000", "Tesla K20m", "Tesla V100-DGXS-32GB",
}  # fmt: skip
FOLDERS = ("nsys_sqlite", "nvprof_sqlite", "nvprof_csv", "nvprof_text", "kineto", "jax_xplane", "rocpd",
           "rpd", "rocprof", "proton_json")  # fmt: skip


def real_files() -> Iterator[Path]:
    for folder in FOLDERS:
        if (REAL / folder).is_dir():
            yield from sorted(path for path in (REAL / folder).iterdir() if path.suffix != ".tsv")


@real
@pytest.mark.parametrize("path", few(list(real_files()), 3), ids=name_of)
def test_the_names_of_real_files_are_of_the_table_or_known_not_to_be(path: Path) -> None:
    try:
        opened_file = api.open(path)
    except (NoProfileError, InputError) as error:
        pytest.skip(str(error)[:80])
    with opened_file as profile:
        for row in profile.profile.rows("device"):
            assert row["name"] is None or (model_of(row["name"]) is None) == (row["name"] in UNKNOWN)
            found = device_peaks(row)
            model = model_of(row["name"])
            if found is not None and model is not None and row["memory_bandwidth_bytes_per_s"]:
                # Vendor and driver agree on the memory.
                assert found.bytes_per_s == pytest.approx(row["memory_bandwidth_bytes_per_s"], rel=0.03)


@real
def test_no_rate_of_real_traces_is_above_the_peaks() -> None:
    """What three of them reach: TF32 on H100, 16 bit on MI300X and A100."""
    found = {}
    for start in ("sidnb13+torch", "AMD-AGI+TraceLens__0702619a", "harryjmoss+"):
        (path,) = (REAL / "kineto").glob(f"{start}*")
        with api.open(path) as profile:
            rows = profile.report("operators:rates").rows()
        shares = {(row["peak_kind"], row["peak_flop_pct"]) for row in rows if row["peak_flop_pct"]}
        assert shares and max(share for _, share in shares) < 100
        assert all((row["peak_bytes_pct"] or 0) < 100 for row in rows)
        found[start] = {kind for kind, _ in shares}
    assert KINDS["tf32_tensor"] in found["sidnb13+torch"]
    assert KINDS["fp16_tensor"] in found["harryjmoss+"]
