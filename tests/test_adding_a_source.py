"""The guide to a new source: its example is an importer that works."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, event_rows, import_file

from nsysconv.importers import detection
from nsysconv.importers.contract import No
from nsysconv.importers.probe import Probe
from nsysconv.store.location import reading

GUIDE = (ROOT / "docs" / "adding-a-source.md").read_text(encoding="utf-8")
LOG = """name,start_ns,end_ns,device
saxpy,1000,3000,0
reduce,4000,9000,0
interrupted
saxpy,10000,13000,1
late,20000,10000,1
"""


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The importer of the guide, as the only one there is."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    module = ModuleType("nsysconv.importers.gputimes")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "gputimes.py", "exec"), module.__dict__)
    monkeypatch.setattr(detection, "IMPORTERS", (module.NAME,))
    return module


def test_example_reads_kernels_and_counts_lines_left_out(
    example: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "log.txt").write_text(LOG)
    import_file(tmp_path / "log.txt", tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        (profile,) = store.profiles()
        kernels = [(row["start_ns"], row["dur_ns"], row["device_id"], row["name"])
                   for row in event_rows(profile, "kernel")]  # fmt: skip
        assert sorted(kernels) == [
            (1000, 2000, 0, "saxpy"), (4000, 5000, 0, "reduce"), (10000, 3000, 1, "saxpy")]  # fmt: skip
        assert profile.facts == example.GUARANTEED
        assert [(note.slug, note.count, note.where) for note in profile.notes] == [
            ("line-unreadable", 2, "line 4")]  # fmt: skip


def test_example_refuses_other_files_with_a_reason(example: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("name,start\n")
    with Probe(tmp_path / "log.txt") as probe:
        answer = example.sniff(probe)
    assert isinstance(answer, No)
    assert answer.reason
