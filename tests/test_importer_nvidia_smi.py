"""Logs of nvidia-smi: the readings of scripts/fixtures_nvidia_smi.py, and what goes wrong with logs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, NSYS, examples, few
from fixtures_nvidia_smi import BUS_IDS, DRIVER, FEW, LOGS, NAME, READINGS, UUIDS, dmon, query
from hypothesis import given
from hypothesis import strategies as st
from importing import written

from nsysconv import api, codes
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers import nvidia_smi
from nsysconv.importers.contract import No, Yes
from nsysconv.importers.nvidia_smi import reader
from nsysconv.importers.nvidia_smi.columns import LogClock, MetricColumn, parse_header
from nsysconv.importers.probe import Probe
from nsysconv.notes import Severity
from nsysconv.report import MISSING

FOLDER = FIXTURES / "nvidia_smi"
READABLE = sorted(set(LOGS) - {"odd-no-header.csv"})
SECOND = 10**9
# Zones by their rules, so that none has to be installed: +1, +2 in summer; -5.
BERLIN, LIMA = "CET-1CEST,M3.5.0,M10.5.0/3", "PET5"

Sample = tuple[int | None, int | None, str, str, float]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own zone is UTC, and nobody said so."""
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(reader, "zone_is_set", lambda: False)
    yield
    monkeypatch.undo()
    time.tzset()


def in_zone(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()


def samples(profile: api.OpenProfile) -> list[Sample]:
    """Start, device, metric, unit and value of each sample, sorted by name, device and start."""
    names = {row["id"]: row["text"] for row in profile.profile.rows("name")}
    found = []
    for batch in profile.profile.batches("metric_sample", 1000):
        for row in batch.to_pylist():
            found.append((row["start_ns"], row["device_id"], names[row["name_id"]],
                          codes.METRIC_UNITS[row["unit"]], row["value_avg"]))  # fmt: skip
            assert (row["kind"], row["value_min"], row["pid"]) == (0, None, None)
    return sorted(found, key=lambda s: (s[2], s[1] is None, s[1] or 0, s[0] or 0))


def of(name: str) -> list[Sample]:
    with api.open(FOLDER / name) as profile:
        return samples(profile)


def read(tmp_path: Path, text: str) -> list[Sample]:
    with api.open(written(tmp_path, text)) as profile:
        return samples(profile)


def notes(path: Path) -> dict[str, tuple[Severity, int, str]]:
    with api.open(path) as profile:
        return {n.slug: (n.severity, n.count, n.where) for n in profile.profile.notes}


def metric(found: Sequence[Sample], name: str, device: int = 0) -> list[tuple[Any, ...]]:
    return [(start, unit, value) for start, of_device, metric_name, unit, value in found
            if metric_name == name and of_device == device]  # fmt: skip


# -- what the readings become


def test_a_query_with_many_columns() -> None:
    found = of("query.csv")
    assert {name for _, _, name, _, _ in found} == {
        "pstate", "utilization.gpu", "memory.used", "power.draw", "clocks.current.sm",
        "temperature.gpu"}  # fmt: skip
    at = [100_000_000, 1_100_000_000, 2_100_000_000]
    assert metric(found, "utilization.gpu") == [
        (at[0], "%", 0),
        (at[1], "%", 100),
        (at[2], "%", 50),
    ]
    assert [value for _, _, value in metric(found, "memory.used")] == [
        100 * 2**20, 300 * 2**20, 200 * 2**20]  # fmt: skip
    assert metric(found, "power.draw") == [(at[0], "W", 60), (at[1], "W", 120), (at[2], "W", 90)]
    assert [(unit, value) for _, unit, value in metric(found, "clocks.current.sm")] == [
        ("Hz", 210e6), ("Hz", 1410e6), ("Hz", 810e6)]  # fmt: skip
    assert [(unit, value) for _, unit, value in metric(found, "temperature.gpu")] == [
        ("°C", 30), ("°C", 31), ("°C", 32)]  # fmt: skip
    assert [(unit, value) for _, unit, value in metric(found, "pstate")] == [
        ("number", 8), ("number", 0), ("number", 8)]  # fmt: skip


def test_unsupported_metrics_are_not_recorded() -> None:
    found = of("query.csv")
    assert metric(found, "power.draw", device=1) == []
    assert metric(found, "fan.speed") == []


def test_several_gpus_have_times_of_their_own() -> None:
    assert [start for start, _, _ in metric(of("query.csv"), "utilization.gpu", 1)] == [
        102_000_000, 1_102_000_000, 2_102_000_000]  # fmt: skip


@pytest.mark.parametrize("name", ["query-nounits.csv", "odd-utf16.csv"])
def test_the_same_readings_in_another_spelling(name: str) -> None:
    assert of(name) == of("query.csv")


def test_dmon_has_the_names_and_units_of_a_query() -> None:
    """Its times are whole seconds; what it does not show stands as `-`."""
    found, queried = of("dmon-date-time.txt"), of("query.csv")
    for name in (
        "utilization.gpu",
        "memory.used",
        "power.draw",
        "clocks.current.sm",
        "temperature.gpu",
    ):
        for device in (0, 1):
            assert metric(found, name, device) == [
                (start - start % SECOND, unit, value)
                for start, unit, value in metric(queried, name, device)
            ]
    assert {name for _, _, name, _, _ in found} >= {"bar1", "utilization.memory"}
    assert metric(found, "temperature.memory") == []


def test_dmon_without_a_date_goes_on_after_midnight() -> None:
    """23:59:59, 00:00:00 and 00:00:01 are one second apart."""
    assert [start for start, _, _ in metric(of("dmon-time.txt"), "utilization.gpu")] == [
        0, SECOND, 2 * SECOND]  # fmt: skip


@pytest.mark.parametrize("name", ["dmon.txt", "odd-no-time.csv"])
def test_without_times_there_are_values(name: str) -> None:
    found = metric(of(name), "utilization.gpu")
    assert sorted(found) == [(None, "%", 0), (None, "%", 50), (None, "%", 100)]
    severity, count, _ = notes(FOLDER / name)["sample-without-time"]
    assert (severity, count) == (Severity.INFO, 6)


def test_dmon_as_csv(tmp_path: Path) -> None:
    text = (
        "#Date, Time, gpu, pwr, sm\n#YYYYMMDD, HH:MM:SS, Idx, W, %\n20240517, 10:00:00, 1, 70, 5\n"
    )
    assert read(tmp_path, text) == [
        (0, 1, "power.draw", "W", 70), (0, 1, "utilization.gpu", "%", 5)]  # fmt: skip


# -- devices, and the profile as a whole


def test_columns_of_gpus() -> None:
    with api.open(FOLDER / "query.csv") as opened:
        profile = opened.profile
        rows = [{k: row[k] for k in ("device_id", "ordinal", "uuid", "bus_id", "name")}
                for row in profile.rows("device")]  # fmt: skip
        assert rows == [
            {"device_id": i, "ordinal": None, "uuid": UUIDS[i], "bus_id": BUS_IDS[i], "name": NAME}
            for i in (0, 1)
        ]
        assert profile.attributes["driver_version"] == DRIVER
        assert profile.attributes["recording_ns"] == 2_102_000_000
        assert profile.facts == {Fact.METRICS, Fact.DEVICES, Fact.UTC}


TWO_GPUS = "index, uuid, utilization.gpu [%]\n0, GPU-a, 1 %\n1, GPU-b, 2 %\n"


@pytest.mark.parametrize(("text", "values"), [
    # After a restart of the driver the GPUs may be numbered the other way round.
    (TWO_GPUS + "0, GPU-b, 3 %\n1, GPU-a, 4 %\n", [(0, 1), (0, 4), (1, 2), (1, 3)]),
    (TWO_GPUS + "index, utilization.gpu [%]\n1, 3 %\n0, 4 %\n2, 5 %\n",
     [(0, 1), (0, 4), (1, 2), (1, 3), (2, 5)]),
    ("index, utilization.gpu [%]\n99999999999999999999, 5 %\n१, 6 %\n", [(0, 5), (1, 6)]),
], ids=["GPUs are the same by their uuid and not by their index",
        "a later run that asks for less is of the same GPUs", "an index that is no number"])  # fmt: skip
def test_samples_are_of_devices(text: str, values: list[tuple[int, int]], tmp_path: Path) -> None:
    assert [(device, value) for _, device, _, _, value in read(tmp_path, text)] == values


def test_rows_without_a_gpu_have_no_device() -> None:
    found = of("odd-no-gpu.csv")
    assert {device for _, device, _, _, _ in found} == {None}
    assert notes(FOLDER / "odd-no-gpu.csv")["sample-without-gpu"][:2] == (Severity.INFO, 6)


# -- time zones


@pytest.mark.parametrize(("zone", "hour"), [("UTC0", 10), (BERLIN, 8), (LIMA, 15)])
def test_times_of_day_are_read_in_the_zone_of_the_machine(
    zone: str, hour: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_zone(monkeypatch, zone)
    with api.open(FOLDER / "query.csv") as profile:
        zero = profile.profile.attributes["zero_utc_ns"]
        starts = {start for start, _, _, _, _ in samples(profile)}
    assert datetime.fromtimestamp(zero // SECOND, UTC) == datetime(
        2024, 5, 17, hour, 0, 0, tzinfo=UTC
    )
    assert min(starts - {None}) == 100_000_000  # type: ignore[type-var]  # the distances hold


@pytest.mark.parametrize(("is_set", "severity", "words"), [
    (False, Severity.APPROXIMATED, "this machine's zone"),
    (True, Severity.INFO, "the zone that TZ names"),
])  # fmt: skip
def test_an_assumed_zone_is_noted(
    is_set: bool, severity: Severity, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_zone(monkeypatch, BERLIN)
    monkeypatch.setattr(reader, "zone_is_set", lambda: is_set)
    with api.open(FOLDER / "query.csv") as profile:
        (note,) = [n for n in profile.profile.notes if n.slug == "time-zone-assumed"]
    assert note.severity is severity
    assert f"UTC+02:00, {words}" in note.text


def test_without_a_date_the_day_is_not_known() -> None:
    with api.open(FOLDER / "dmon-time.txt") as profile:
        assert profile.profile.attributes["zero_utc_ns"] is None
        assert Fact.UTC not in profile.profile.facts
        assert {note.slug for note in profile.profile.notes} == {"no-time-base"}


def test_summer_time_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 31 March 2024 Berlin's clocks went from 02:00 to 03:00."""
    in_zone(monkeypatch, BERLIN)
    clock = LogClock()
    before, after = (clock.stamp(f"2024/03/31 {at}") for at in ("01:59:59.500", "03:00:00.500"))
    assert before is not None
    assert after == before + SECOND


def test_moments_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    in_zone(monkeypatch, "UTC0")
    clock = LogClock()
    assert clock.stamp("1971/01/02 00:00:01.000000001") == 366 * 86_400 * SECOND + SECOND + 1
    assert clock.stamp(" 1971/01/02 00:00:00 ") == 366 * 86_400 * SECOND
    assert clock.date_time("19710102", "00:00:10") == 366 * 86_400 * SECOND + 10 * SECOND


@pytest.mark.parametrize("text", ["", "now", "2024/13/01 10:00:00", "2024/05/17 25:00:00",
                                  "0001/01/01 00:00:00", "[N/A]"])  # fmt: skip
def test_no_moments(text: str) -> None:
    clock = LogClock()
    assert clock.stamp(text) is None
    assert clock.date_time(text.partition(" ")[0].replace("/", ""), text.partition(" ")[2]) is None


def test_samples_lie_beside_a_profile_of_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second after the profile's zero, on the clock of a machine in Lima."""
    in_zone(monkeypatch, LIMA)
    with api.open(NSYS / "basic-3.25.0.sqlite") as profile:
        zero = profile.profile.attributes["zero_utc_ns"]
    there = datetime.fromtimestamp(zero // SECOND - 5 * 3600, UTC).strftime("%Y/%m/%d %H:%M:%S")
    log = written(tmp_path, f"timestamp, index, utilization.gpu [%]\n{there}.500, 0, 50 %\n")
    store, trace = tmp_path / "job.db", tmp_path / "job.json"
    api.import_files([NSYS / "basic-3.25.0.sqlite", log], store)
    api.export_profiles(store, "chrome", trace)
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert [e["ts"] for e in events if e["name"] == "utilization.gpu"] == [500_000]
    assert min(e["ts"] for e in events if e["ph"] == "X") == 1


# -- values


@pytest.mark.parametrize(("text", "unit", "expected"), [
    ("99 %", "%", ("%", 99)), ("99", "%", ("%", 99)), ("1.5 W", "W", ("W", 1.5)),
    ("1 MiB", "MiB", ("bytes", 2**20)), ("2 GiB", "MiB", ("bytes", 2**31)),
    ("3", "MB/s", ("bytes/s", 3e6)), ("1410 MHz", "", ("Hz", 1.41e9)), ("-5", "C", ("°C", -5)),
    ("P8", "", ("number", 8)), ("Active", "", ("number", 1)), ("Not Active", "", ("number", 0)),
    ("0x0000000000000004", "", ("number", 4)), ("7 mJ", "mJ", ("number", 7)),
    ("[N/A]", "%", None), ("N/A", "%", None), ("[Not Supported]", "", None), ("-", "W", None),
    ("[GPU is lost]", "", None), ("", "", None),
])  # fmt: skip
def test_values(text: str, unit: str, expected: tuple[str, float] | None) -> None:
    found = MetricColumn(0, "x", unit).value(f" {text} ")
    assert found == (
        None if expected is None else (codes.METRIC_UNITS.index(expected[0]), expected[1])
    )


@pytest.mark.parametrize("text", ["ERR!", "Default", "1,5", "1 2", "5..", "535.104.05", "9" * 400])
def test_no_values(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        MetricColumn(0, "x", "").value(text)


def test_a_unit_without_a_word_of_ours_stays_in_the_name(tmp_path: Path) -> None:
    (sample,) = read(tmp_path, "index, power.energy [mJ]\n0, 7 mJ\n")
    assert sample == (None, 0, "power.energy [mJ]", "number", 7)


# -- what goes wrong


def test_prose_are_no_samples_and_odd_cells_are_named() -> None:
    found = of("odd-words.csv")
    assert [value for _, _, value in metric(found, "power.draw")] == [60, 90]
    assert [value for _, _, value in metric(found, "utilization.gpu", 1)] == [10, 30]
    said = notes(FOLDER / "odd-words.csv")
    assert said["cell-unreadable"] == (Severity.DROPPED, 1, "power.draw: ERR!")
    assert said["column-not-read"][:2] == (Severity.INFO, 1)
    assert set(said) == {"cell-unreadable", "column-not-read", "time-zone-assumed"}


def test_a_log_that_was_appended_to_and_cut_off() -> None:
    """2 and 4 rows, of which the last is cut; only the second run asked for power."""
    found = of("odd-appended.csv")
    assert [value for _, _, value in metric(found, "utilization.gpu")] == [0, 100, 50]
    assert [value for _, _, value in metric(found, "power.draw")] == [120, 90]
    assert [value for _, _, value in metric(found, "utilization.gpu", 1)] == [10, 20]
    said = notes(FOLDER / "odd-appended.csv")
    assert said["line-unreadable"] == (Severity.DROPPED, 1, "line 4")
    assert said["trace-truncated"] == (Severity.DROPPED, 1, "line 9")


@pytest.mark.parametrize(("end", "kept", "cut"), [
    ("60.00 W\n", 2, False), ("60.00 W", 2, False), ("60.0", 1, True), ("60.00 ", 1, True),
    ("[N/A]", 2, False), ("", 1, True),
])  # fmt: skip
def test_a_last_cell_that_is_cut(end: str, kept: int, cut: bool, tmp_path: Path) -> None:
    text = f"index, power.draw [W]\n0, 50.00 W\n0, {end}"
    path = written(tmp_path, text)
    with api.open(path) as profile:
        rows = samples(profile)
        slugs = {note.slug for note in profile.profile.notes}
    assert len(rows) == (kept if end != "[N/A]" else 1)
    assert ("trace-truncated" in slugs) == cut


@pytest.mark.parametrize(("time", "instead", "kept", "slug", "noted"), [
    ("2024/05/17 10:00:01.100", "now", [0, 50], "line-unreadable", (1, "line 4")),
    ("2024/05/17 10:00:02", "2025/05/17 10:00:02", [0, 100], "impossible-time", (2, "line 6")),
], ids=["no time among others", "beyond any time line"])  # fmt: skip
def test_rows_without_a_possible_time_are_left_out(
    time: str, instead: str, kept: list[int], slug: str, noted: tuple[int, str], tmp_path: Path
) -> None:
    text = query(FEW).replace(time, instead)
    path = written(tmp_path, text)
    assert [value for _, _, value in metric(read(tmp_path, text), "utilization.gpu")] == kept
    assert notes(path)[slug] == (Severity.DROPPED, *noted)


def test_a_log_without_a_sample_is_refused(tmp_path: Path) -> None:
    for text in ("timestamp, utilization.gpu [%]\n", "index, utilization.gpu [%]\n0, [N/A]\n"):
        with pytest.raises(InputError, match="holds no sample"):
            api.open(written(tmp_path, text))


@pytest.mark.parametrize(("bytes_at_once", "names"), few(
    [(40, READABLE[::3]), *((size, READABLE) for size in (40, 1, 200, 1000))], 1))  # fmt: skip
def test_in_pieces_of_any_size(
    bytes_at_once: int, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {name: (of(name), notes(FOLDER / name)) for name in names}
    monkeypatch.setattr(reader, "CHUNK_BYTES", bytes_at_once)
    assert {name: (of(name), notes(FOLDER / name)) for name in names} == whole


@given(st.lists(st.sampled_from(READINGS), min_size=1, max_size=12), st.booleans(), st.booleans())
@examples(40)
def test_a_query_and_dmon_give_the_same_samples(readings: list[Any], units: bool, reverse: bool) -> None:
    """Whatever was read in whichever order; dmon's MB are a query's MiB."""
    columns = ("index", "utilization.gpu [%]", "memory.used [MiB]", "power.draw [W]")
    texts = (query(columns[::-1] if reverse else columns, readings, units=units),
             dmon(readings, times="", every=3))  # fmt: skip
    with TemporaryDirectory() as folder:
        queried, monitored = (read(Path(folder), text) for text in texts)
    asked = {name for _, _, name, _, _ in queried}
    assert asked <= {"utilization.gpu", "memory.used", "power.draw"}
    assert sorted(queried, key=repr) == sorted(
        (sample for sample in monitored if sample[2] in asked), key=repr)  # fmt: skip


# -- which files these are


@pytest.mark.parametrize(("text", "reason"), [
    # Other output of nvidia-smi is explained.
    (query(header=False), "without its header"),
    ("Fri May 17\n+---+\n| NVIDIA-SMI 535.104  Driver Version: 535 |\n", "a view of one moment"),
    ("\n==============NVSMI LOG==============\n", "a view of one moment"),
    ("# gpu        pid  type    sm   mem   enc   dec   command\n", "nvidia-smi pmon"),
    # Other tables are not.
    *((text, "") for text in (
        "timestamp,name,index\n2024/05/17,a,b\n", "time,memory used\n", "a, b\n1, 2\n",
        "# a comment on a gpu\n", "utilization gpu\n", "")),
])  # fmt: skip
def test_what_is_no_log_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    with Probe(written(tmp_path, text)) as probe:
        answer = nvidia_smi.sniff(probe)
    assert isinstance(answer, No)
    assert (answer.close, reason in answer.reason) == (reason != "", True)
    assert answer.hint or not reason


def test_lines_before_the_header_do_not_matter(tmp_path: Path) -> None:
    path = written(tmp_path, "module load cuda\nstarting\n\n" + query(FEW))
    with Probe(path) as probe:
        assert isinstance(nvidia_smi.sniff(probe), Yes)
    assert notes(path).keys() == {"time-zone-assumed"}


@given(st.text(alphabet="#gpu sm,[%]0123456789/:.-\n\ttimespaunlzr", max_size=80))
def test_no_line_is_too_odd(text: str) -> None:
    for line in text.split("\n"):
        header = parse_header(line)
        assert header is None or np.all([m.place < len(header.cells) for m in header.metrics])


def test_missing_is_never_a_time() -> None:
    starts = [start for name in READABLE for start, *_ in of(name)]
    assert MISSING not in starts


@examples(50)
@given(st.permutations([f"2024/05/17 {at}, {n} %" for n, at in enumerate(
    ("09:59:58.900", "10:00:00.100", "10:00:01.000", "10:02:00.500"))]))  # fmt: skip
def test_the_zero_is_that_of_the_first_sample_in_time(rows: list[str]) -> None:
    """Whichever row comes first, as where files were put together in another order."""
    with TemporaryDirectory() as folder:
        path = written(Path(folder), "\n".join(["timestamp, utilization.gpu [%]", *rows, ""]))
        with api.open(path) as profile:
            starts = sorted(start for start, *_ in samples(profile) if start is not None)
            told = profile.profile.attributes
            assert told["zero_utc_ns"] == 1_715_939_998 * SECOND
            assert told["recording_ns"] == 122_500_000_000
    assert starts == [900_000_000, 2_100_000_000, 3_000_000_000, 122_500_000_000]
