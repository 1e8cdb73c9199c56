"""Recordings of several files: a made-up source of three, by every way in which people name profiles."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import NSYS, few
from golden_cases import run

import nsysconv
from nsysconv import api, schema
from nsysconv.api.inputs import find_inputs
from nsysconv.errors import InputError, NoProfileError, StrictError, UsageError
from nsysconv.facts import Fact
from nsysconv.importers import IMPORTERS, detection
from nsysconv.importers.contract import Group, No, Options, Yes
from nsysconv.importers.probe import Probe
from nsysconv.store.recording import (
    ArrayRows,
    Batches,
    ProfileAttributes,
    Recording,
    Summary,
    rows_of,
)

# Times of a rank: two kernels of 20 and 30 ns after their launches of 5 ns each.
KERNELS = "kernels\n10 20 1\n40 30 2\n"
CALLS = "calls\n0 5 1\n30 5 2\n"
RANGES = "ranges\n0 80 0\n"
PARTS = {"kernels": KERNELS, "calls": CALLS, "ranges": RANGES}
_TABLES = {"kernels": ("kernel", Fact.KERNELS), "calls": ("api_call", Fact.API_CALLS),
           "ranges": ("range", Fact.RANGES)}  # fmt: skip


def _sniff(probe: Probe) -> Yes | No:
    word = probe.head.partition(b"\n")[0].decode("utf-8", "replace")
    return Yes() if word in (*PARTS, "whole") else No("it is not of threes")


def _read(probes: Sequence[Probe], options: Options) -> Iterator[Recording]:
    yield Recording(_batches(probes))


def _batches(probes: Sequence[Probe]) -> Batches:
    facts, notes = set(), [note for probe in probes for note in probe.notes]
    texts = (probe.path.read_text(encoding="utf-8") for probe in probes)
    for word, *lines in (line for text in texts for line in _blocks(text)):
        table, fact = _TABLES[word]
        facts.add(fact)
        start, dur, number = np.array([line.split() for line in lines], np.int64).T
        columns = {"start_ns": start, "dur_ns": dur, "pid": np.ones_like(start)}
        if table == "range":
            columns |= {"tid": start * 0, "kind": start * 0, "name_id": start * 0}
        else:
            columns["correlation_id"] = number
            columns["name_id"] = start * 0 + (table == "api_call")
            columns["device_id" if table == "kernel" else "tid"] = start * 0
        yield ArrayRows(table, columns)
    if {Fact.KERNELS, Fact.API_CALLS} <= facts:
        facts.add(Fact.API_LINKS)
    yield rows_of(schema.device, [{"device_id": 0, "ordinal": 0}])
    yield rows_of(schema.process, [{"pid": 1}])
    names = ("step", "cudaLaunchKernel")
    yield rows_of(schema.name, [{"id": i, "text": name} for i, name in enumerate(names)])
    return Summary(ProfileAttributes(), frozenset(facts), {}, notes)


def _blocks(text: str) -> Iterator[list[str]]:
    lines = [line for line in text.splitlines() if line != "whole"]
    starts = [i for i, line in enumerate(lines) if line in PARTS]
    for first, after in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[first:after]


def _group(paths: Sequence[Path]) -> list[Group]:
    found: dict[str, list[Path]] = {}
    for path in paths:
        if match := re.fullmatch(r"(.*)_(?:kernels|calls|ranges)\.txt", str(path)):
            found.setdefault(match[1], []).append(path)
    wholes = {prefix: Path(f"{prefix}_whole.txt") for prefix in found}
    return [Group(tuple(files), whole if (whole := wholes[prefix]) in paths else None)
            for prefix, files in found.items() if len(files) > 1]  # fmt: skip


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("nsysconv.importers.threes")
    vars(module).update(
        NAME="threes", VERSION=1, TITLE="Threes", GUARANTEED=frozenset(), POSSIBLE=frozenset(Fact),
        ADVICE={}, JOINS=True, INCLUDABLE={}, sniff=_sniff, read=_read, group=_group)  # fmt: skip
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(detection, "IMPORTERS", ("threes", *IMPORTERS))


def written(folder: Path, *prefixes: str, parts: dict[str, str] = PARTS) -> Path:
    """A folder of recordings that differ in the length of their range: 80 ns, 81, …"""
    folder.mkdir(exist_ok=True)
    for more, prefix in enumerate(prefixes):
        for word, text in parts.items():
            own = text.replace("0 80 0", f"0 {80 + more} 0")
            (folder / f"{prefix}_{word}.txt").write_text(own, encoding="utf-8")
    return folder


def sums(target: Any, **options: Any) -> list[tuple[Any, ...]]:
    """What API and kernels took: it needs two files and the links between them."""
    (report,) = nsysconv.report_on(target, ["launch_stats"], **options)
    return [tuple(row.values()) for row in report.rows()]


def test_a_folder_of_ranks_is_a_profile_for_each(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "rank0", "rank1")
    result = api.import_files(folder, tmp_path / "a.db", workers=1)
    labels = [imported.label for each in result.files for imported in each.imported]
    assert labels == ["rank0", "rank1"]
    with api.open(f"{tmp_path / 'a.db'}@rank=1") as profile:
        assert profile.profile.attributes["path"] == f"{folder}/rank1_*"
        assert profile.report("launch_stats").rows()[0]["gpu_op_sum_ns"] == 50
        assert profile.report("ranges").rows()[0]["range_sum_ns"] == 81


def test_in_place_and_stored_give_the_same(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "rank0", "rank1")
    api.import_files(folder, tmp_path / "a.db", workers=1)
    stored = sums(tmp_path / "a.db")
    assert stored
    assert sums(folder) == stored
    assert sums(f"{folder}/rank?_*.txt") == stored


@pytest.mark.parametrize("name", ["{}", "{}/one_*", "{}/o*_kernels.txt {}/o*_calls.txt"])
def test_one_recording_is_a_target_of_everything(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path / "job", "one")
    (folder / "job.log").write_text("done\n", encoding="utf-8")
    if " " in name:
        target: Any = nsysconv.api.targets.Files(sorted(folder.glob("one_*")))
        assert len(sums(target)) == 1
        return
    target = name.format(folder)
    assert len(sums(target)) == 1
    assert nsysconv.sql(target, "SELECT count(*) AS n FROM api_call").rows()[0]["n"] == 2
    assert any("threes" in str(report.rows()) for report in nsysconv.info(target))
    with api.open(target) as profile:
        assert profile.profile.facts >= {Fact.KERNELS, Fact.API_CALLS, Fact.API_LINKS, Fact.RANGES}
        assert profile.profile.ref.label == "one"


def test_a_file_that_is_named_is_read_alone(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "one")
    with api.open(folder / "one_kernels.txt") as profile:
        assert profile.profile.facts == {Fact.KERNELS}


def test_several_in_a_folder_are_no_single_profile(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "one", "two")
    with pytest.raises(UsageError, match="a folder of several profiles"):
        nsysconv.sql(folder, "SELECT 1")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.txt").write_text("nothing\n", encoding="utf-8")
    with pytest.raises(InputError):
        nsysconv.sql(tmp_path / "empty", "SELECT 1")


def test_two_folders_are_compared(tmp_path: Path) -> None:
    slow = {**PARTS, "kernels": KERNELS.replace("10 20 1", "10 25 1")}
    base = written(tmp_path / "a", "one")
    other = written(tmp_path / "b", "one", parts=slow)
    (row,) = api.compare(base, other, ["kernels"]).reports[0].rows()
    assert (row["base_kernel_sum_ns"], row["other_kernel_sum_ns"]) == (50, 55)
    assert api.compare(base, base, ["kernels"]).answer.startswith("same: both sides are the same")


def test_join_makes_one_of_files_that_do_not_belong_together(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "one")
    files = [(folder / "one_kernels.txt").rename(folder / "x.txt"), folder / "one_calls.txt"]
    api.import_files(files, tmp_path / "a.db", join=True)
    with api.open(tmp_path / "a.db") as profile:
        assert profile.profile.facts == {Fact.KERNELS, Fact.API_CALLS, Fact.API_LINKS}
        assert profile.report("launch_stats").row_count == 1


@pytest.mark.parametrize("damage", few([b"", b"\0\1\2", b"==123== nonsense\n"], 2))
def test_a_damaged_part_costs_what_is_in_it(tmp_path: Path, damage: bytes) -> None:
    folder = written(tmp_path / "job", "one")
    (folder / "one_calls.txt").write_bytes(damage)
    api.import_files(folder, tmp_path / "a.db")
    for target in (folder, tmp_path / "a.db"):
        with api.open(target) as profile:
            assert profile.profile.facts == {Fact.KERNELS, Fact.RANGES}
            (note,) = [note for note in profile.profile.notes if note.slug == "part-unread"]
            assert (note.count, note.where) == (1, "one_calls.txt")
    (folder / "one_calls.txt").write_text(CALLS, encoding="utf-8")
    (folder / "one_ranges.txt").write_bytes(damage)
    result = api.import_files(folder, tmp_path / "strict.db", strict=True)
    assert isinstance(result.files[0].error, StrictError)


def test_damage_of_all_parts_is_an_error(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "one", parts=dict.fromkeys(PARTS, ""))
    with pytest.raises(NoProfileError, match="the file is empty"):
        nsysconv.sql(folder, "SELECT 1")


def test_what_holds_all_of_it_is_read_in_place_of_the_parts(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "one")
    whole = folder / "one_whole.txt"
    whole.write_text("whole\n" + "".join(PARTS.values()), encoding="utf-8")
    found = find_inputs([folder])
    assert [item.paths for item in found.read] == [(whole,)]
    assert {file.reason for file in found.passed} == {"its recording is in one_whole.txt"}
    assert len(sums(folder)) == 1


def test_a_copy_of_a_recording_is_read_once(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "one")
    for word in PARTS:
        shutil.copyfile(folder / f"one_{word}.txt", folder / f"copy_{word}.txt")
    said: list[str] = []
    assert len(sums(folder, say=said.append)) == 1
    assert [line for line in said if "the same bytes as" in line]
    result = api.import_files(folder, tmp_path / "a.db", workers=1)
    assert len({each.profile_id for file in result.files for each in file.imported}) == 1


def test_a_copied_folder_is_named_whole(tmp_path: Path) -> None:
    folder = written(tmp_path / "job", "one")
    shutil.copytree(folder, folder / "saved")
    said: list[str] = []
    assert len(sums(folder, say=said.append)) == 1
    (line,) = [line for line in said if "the same bytes as" in line]
    assert "saved/one_* (3 files): the same bytes as" in line
    assert line.endswith("job/one_* (3 files)")
    assert "one_*" in run("info", "job", cwd=tmp_path).out


def test_a_copy_of_a_part_counts_once(tmp_path: Path) -> None:
    """Beside its recording, under a name that belongs to it or to none."""
    folder = written(tmp_path / "job", "one", "two")
    expected = sums(folder)
    shutil.copyfile(folder / "two_kernels.txt", folder / "a_copy.txt")
    said: list[str] = []
    assert sums(folder, say=said.append) == expected
    assert any("a_copy.txt: the same bytes as" in line for line in said)
    assert run("import", ".", "-o", "x.db", cwd=folder).err.count("a_copy.txt: the same bytes") == 1


def test_a_folder_with_one_profile_without_gpu_work_is_answered(tmp_path: Path) -> None:
    shutil.copyfile(NSYS / "no_gpu-3.25.0.sqlite", tmp_path / "a.sqlite")
    assert "has no timed GPU work" in run("a.sqlite", cwd=tmp_path).out
    assert "has no timed GPU work" in run(".", cwd=tmp_path).out


def test_a_folder_is_exported_under_its_name(tmp_path: Path) -> None:
    written(tmp_path / "job", "one")
    assert run("export", ".", "--to", "parquet", cwd=tmp_path / "job").status == 0
    assert (tmp_path / "job" / "job_parquet").is_dir()


def test_two_files_of_one_recording_are_answered(tmp_path: Path) -> None:
    """Two profiles are to be compared."""
    folder = written(tmp_path / "job", "one", "two")
    assert run("one_calls.txt", "one_kernels.txt", cwd=folder).status == 0
    assert "nsysconv diff" in run("one_kernels.txt", "two_kernels.txt", cwd=folder).err


def test_why_names_the_file_of_a_pattern(tmp_path: Path) -> None:
    for name in ("a1", "a2"):
        shutil.copyfile(
            NSYS / f"basic-{'3.25.0' if name == 'a1' else '2.7.0'}.sqlite",
            tmp_path / f"{name}.sqlite",
        )
    (line,) = [line for line in run("a*.sqlite", cwd=tmp_path).out.splitlines() if "why: " in line]
    command = line.partition("why: ")[2].partition(";")[0].split()
    assert run(*command[1:], cwd=tmp_path).status == 0, line
