"""Which importer reads a file: told by its content, whatever it is called."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import make_fixtures
import pytest
from conftest import (
    FIXTURES,
    NSYS_FILES,
    REAL,
    REAL_FILES,
    REAL_TRACES,
    UNREADABLE_FILES,
    claimed_by,
    examples,
    few,
    name_of,
    provenance,
    real,
    with_slow,
)
from hypothesis import given
from hypothesis import strategies as st

import nsysconv
from nsysconv import importers
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers import detection
from nsysconv.importers.contract import Importer, No, Yes
from nsysconv.importers.detection import all_importers, detect
from nsysconv.importers.probe import Probe

NAMES = ("unknown", "trace.json.gz", "report.nsys-rep", "nvprof.csv", "store.db")
REAL_LOGS = [
    REAL / row["file"] for kind in ("nvprof_csv", "nvprof_text") for row in provenance(kind)
] or [REAL / "missing"]

REAL_PLANES = sorted((REAL / "jax_xplane").glob("*.pb")) or [REAL / "missing"]

OWN = [(name, each) for name, source in make_fixtures.SOURCES.items() for each in source.FILES]
CLAIMED = with_slow(
    ((name, FIXTURES / each.name), not each.between) for name, each in OWN if not each.refused
)
REFUSED = [(name, FIXTURES / each.name) for name, each in OWN if each.refused]


@pytest.mark.parametrize(("importer", "path"), CLAIMED, ids=name_of)
def test_exactly_one_importer_claims_a_file(importer: str, path: Path, tmp_path: Path) -> None:
    """By what is in it: it is called `unknown`; by its own name every import of it is detected."""
    shutil.copyfile(path, tmp_path / "unknown")
    assert claimed_by(tmp_path / "unknown") == [importer]
    with Probe(tmp_path / "unknown") as probe:
        assert importer == detect(probe).NAME


@pytest.mark.parametrize(("importer", "path"), REFUSED, ids=name_of)
def test_one_other_importer_at_most_claims_what_is_refused(importer: str, path: Path) -> None:
    claims = claimed_by(path)
    assert importer not in claims
    assert len(claims) <= 1


@real
@pytest.mark.parametrize(("importer", "path"), [
    *(("nsys_sqlite", path) for path in REAL_FILES), *(("kineto", path) for path in REAL_TRACES),
    *(("nvprof_log", path) for path in REAL_LOGS), *(("xplane", path) for path in REAL_PLANES),
], ids=name_of)  # fmt: skip
def test_exactly_one_importer_claims_a_real_file(importer: str, path: Path) -> None:
    assert claimed_by(path) == [importer]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", [NSYS_FILES[0], NSYS_FILES[-1]], ids=name_of)
def test_the_name_does_not_matter(path: Path, name: str, tmp_path: Path) -> None:
    shutil.copyfile(path, tmp_path / name)
    assert claimed_by(tmp_path / name) == ["nsys_sqlite"]
    with Probe(tmp_path / name) as probe:
        assert detect(probe).NAME == "nsys_sqlite"


@pytest.mark.parametrize("path", UNREADABLE_FILES, ids=name_of)
def test_every_refusal_has_a_reason(path: Path) -> None:
    with Probe(path) as probe:
        answers = [importer.sniff(probe) for importer in all_importers()]
    assert all(isinstance(answer, No) and answer.reason for answer in answers)


@examples(150)
@given(content=st.binary(max_size=400), magic=st.booleans())
def test_sniffing_never_raises(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, magic: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    path.write_bytes((b"SQLite format 3\0" if magic else b"") + content)
    with Probe(path) as probe:
        for importer in all_importers():
            assert isinstance(importer.sniff(probe), No)


def test_two_claims_are_an_error_that_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    first = SimpleNamespace(NAME="first", TITLE="First", sniff=lambda probe: Yes())
    other = SimpleNamespace(NAME="other", TITLE="Other", sniff=lambda probe: Yes())
    monkeypatch.setattr(detection, "iter_importers", lambda: [first, other])
    with Probe(NSYS_FILES[0]) as probe, pytest.raises(InputError, match="more than one") as e:
        detect(probe)
    assert first.TITLE in str(e.value)
    assert "Other" in str(e.value)
    assert str(NSYS_FILES[0]) in str(e.value)
    assert e.value.hint


def test_after_a_claim_that_stands_alone_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(probe: Probe) -> No:
        raise AssertionError

    alone = SimpleNamespace(NAME="alone", TITLE="Alone", sniff=lambda probe: Yes(alone=True))
    other = SimpleNamespace(NAME="other", TITLE="Other", sniff=asked)
    monkeypatch.setattr(detection, "iter_importers", lambda: [alone, other])
    with Probe(NSYS_FILES[0]) as probe:
        assert detect(probe) is alone


def test_a_trace_may_quote_other_profilers(tmp_path: Path) -> None:
    trace = (FIXTURES / "kineto" / "basic-2.13.json").read_text()
    quoting = trace.replace("{", '{"note": "==7== NVPROF is profiling process 7",', 1)
    (tmp_path / "trace.json").write_text(quoting)
    assert set(claimed_by(tmp_path / "trace.json")) > {"kineto"}
    with Probe(tmp_path / "trace.json") as probe:
        assert detect(probe).NAME == "kineto"


def test_a_close_refusal_is_the_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An importer that knows what the file is explains it better than a list of refusals."""
    close = No("of a later age", close=True, hint="export again")
    near = SimpleNamespace(NAME="near", TITLE="Near", sniff=lambda p: close)
    far = SimpleNamespace(NAME="far", TITLE="Far", sniff=lambda p: No("no such table"))
    monkeypatch.setattr(detection, "iter_importers", lambda: [far, near])
    (tmp_path / "unknown").write_bytes(b"something")
    with Probe(tmp_path / "unknown") as probe, pytest.raises(InputError) as caught:
        detect(probe)
    assert caught.value.what == "of a later age"
    assert caught.value.hint == "export again"


@pytest.mark.parametrize("importer", all_importers(), ids=lambda i: i.NAME)
def test_an_importer_says_what_it_gives(importer: Importer) -> None:
    assert importer.TITLE
    assert importer.VERSION >= 1
    assert importer.NAME in importers.IMPORTERS
    assert importer.GUARANTEED.isdisjoint(importer.POSSIBLE)
    promised = importer.GUARANTEED | importer.POSSIBLE
    assert promised | set(importer.ADVICE) <= set(Fact)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("run.pt.trace.json.gz", "run"), ("worker0.1623.pt.trace.json", "worker0.1623"),
     ("trace.json", "trace"), ("a.b.sqlite", "a.b"), ("x.json.bak", "x.json"), ("plain", "plain"),
     (".json", ".json"), ("host.xplane.pb.gz", "host")],
)  # fmt: skip
def test_a_profile_is_called_after_its_file(name: str, expected: str) -> None:
    assert detection.profile_label(Path(name)) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [("7_hip_api_trace.csv 7_hsa_api_trace.csv", "7"), ("gpu_a.csv gpu_b.csv", "gpu"),
     ("hip_trace.csv hsa_trace.csv", "job"), ("rank0.csv rank1.csv", "job")],
)  # fmt: skip
def test_one_of_several_files_is_called_after_their_first_words(names: str, expected: str) -> None:
    assert detection.profile_label(*(Path("/job") / name for name in names.split())) == expected


# Of these some words take more room.
WIDE = {"nsys_sqlite", "kineto", "nvprof_database", "nvprof_log", "nsys_stats", "nvidia_smi",
        "rocprofv3_csv", "pytorch_snapshot", "line_profiler"}  # fmt: skip
NARROW = [name for name in importers.IMPORTERS if name not in WIDE]


@pytest.mark.parametrize("source", few(NARROW, 1))
def test_refusals_fit_into_80_columns(source: str, tmp_path: Path) -> None:
    """Of whole files and of halves; what SQLite itself cannot open is said for all databases alike."""
    for path in sorted((FIXTURES / source).iterdir()):
        copy = tmp_path / f"a{path.suffix}"
        content = path.read_bytes()
        for part in (content, content[: len(content) // 2]):
            copy.write_bytes(part)
            try:
                nsysconv.info(copy)
            except InputError as error:
                lines = [f"nsysconv: {copy.name}: {error.what}", *error.hint.splitlines()]
                assert not [x for x in lines if len(x) > 80 and "its header says" not in x], path
