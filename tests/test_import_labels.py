"""Labels and tags: what a user calls a profile and keeps with it, and that neither makes it another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import NSYS, ODD, dump, few
from golden_cases import BASIC, FIXTURES, run

import nsysconv
from nsysconv.errors import UsageError
from nsysconv.store.location import reading
from nsysconv.store.write import tags_of

OTHER = NSYS / "graphs-3.28.1.sqlite"
MERGED = FIXTURES / "kineto" / "odd-merged-ranks.json.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with report1.sqlite and other.sqlite in it."""
    shutil.copyfile(FIXTURES / BASIC, tmp_path / "report1.sqlite")
    shutil.copyfile(OTHER, tmp_path / "other.sqlite")
    return tmp_path


def kept(store: Path) -> dict[str, dict[str, str]]:
    """The tags of a store's profiles by label."""
    with reading(store) as opened:
        return {profile.ref.label: tags_of(profile) for profile in opened.profiles()}


def tag_rows(store: Path) -> list[tuple[int, str, str]]:
    return [(row[0], row[1], row[2]) for row in dump(store)["profile_tag"]]


# -- labels


def test_a_label_is_what_selects_the_profile(folder: Path) -> None:
    outcome = run("import", "report1.sqlite", "--label", "main", cwd=folder)
    assert outcome.out.startswith("report1.db@main: 20 api_call")
    assert run("report", "report1.db@main", "processes", cwd=folder).status == 0
    assert run("report", "report1.db@report1", "processes", cwd=folder).status == 2
    (row,) = nsysconv.runs(folder / "report1.db").rows()
    assert (row["run"], row["label"], row["tags"]) == ("main", "main", None)


def test_several_profiles_of_one_label_are_numbered(folder: Path) -> None:
    store = folder / "job.db"
    sources = [folder / "report1.sqlite", folder / "other.sqlite"]
    nsysconv.import_files(sources, store, label="mine")
    nsysconv.import_files([NSYS / "no_gpu-3.25.0.sqlite"], store, label="mine")
    assert list(kept(store)) == ["mine", "mine-2", "mine-3"]


def test_parts_of_a_file_keep_their_endings(tmp_path: Path) -> None:
    by_file = nsysconv.import_files([MERGED], tmp_path / "a.db").files[0].imported
    by_label = nsysconv.import_files([MERGED], tmp_path / "b.db", label="x").files[0].imported
    stem = MERGED.name.removesuffix(".json.gz")
    assert len(by_file) > 1
    endings = [each.label.removeprefix(stem) for each in by_file]
    assert [each.label for each in by_label] == [f"x{ending}" for ending in endings]


@pytest.mark.parametrize(
    "label", few(["v1.2 (fast)", "main", "mine-2", "größer", "2nd", "ranked=1", "-"], 3)
)
def test_good_labels(tmp_path: Path, label: str) -> None:
    store = tmp_path / "job.db"
    nsysconv.import_files([NSYS / "basic-3.25.0.sqlite"], store, label=label)
    with nsysconv.open(f"{store}@{label}") as opened:
        assert opened.profile.ref.label == label


BAD_LABELS = {
    "": "empty",
    "  ": "empty",
    "1": "number",
    "0042": "number",
    "a@b": "@",
    "rank=3": "rank",
    "two\nlines": "printed",
    "\x1b[31mred": "printed",
    "\udcff": "printed",
}


@pytest.mark.parametrize("label", BAD_LABELS, ids=ascii)
def test_bad_labels_are_refused_before_anything_is_made(tmp_path: Path, label: str) -> None:
    with pytest.raises(UsageError, match=BAD_LABELS[label]) as caught:
        nsysconv.import_files([NSYS / "basic-3.25.0.sqlite"], tmp_path / "job.db", label=label)
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_bad_label_on_the_command_line(folder: Path) -> None:
    outcome = run("import", "report1.sqlite", "--label", "7", cwd=folder)
    assert (outcome.status, outcome.out) == (2, "")
    assert "'7' cannot be a label: STORE@NUMBER stands for a profile's number" in outcome.err
    assert not (folder / "report1.db").exists()


# -- tags


def test_tags_are_shown(folder: Path) -> None:
    words = ("--tag", "host=n1", "--tag", "commit=abc")
    assert run("import", "report1.sqlite", *words, cwd=folder).status == 0
    shown = run("runs", "report1.db", cwd=folder).out
    assert "commit=abc host=n1" in shown
    (report,) = json.loads(run("runs", "report1.db", "-f", "json", cwd=folder).out)["reports"]
    assert [row["tags"] for row in report["rows"]] == ["commit=abc host=n1"]
    what, _ = nsysconv.info(folder / "report1.db")
    attributes = {row["attribute"]: row["value"] for row in what.rows()}
    assert (attributes["tag commit"], attributes["tag host"]) == ("abc", "n1")
    assert attributes["host"] == "node01", "the profile's own"


def test_a_tag_chooses_profiles(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    runs = [NSYS / "basic-3.25.0.sqlite", NSYS / "basic-3.0.0.sqlite"]
    nsysconv.import_files(runs, store, tags={"commit": "abc", "host": "n1"})
    nsysconv.import_files([OTHER], store, tags={"commit": "a=b c"})
    with nsysconv.open(f"{store}@commit=a=b c") as profile:
        assert profile.profile.ref.label == OTHER.stem
    # As a side of a comparison they are repeats; a report is on one run, and says which there are.
    answer = nsysconv.compare(f"{store}@commit=abc", OTHER, "kernels").answer
    assert "2 runs vs. 1 run" in answer
    with pytest.raises(UsageError, match="holds 2 runs: name one"):
        nsysconv.report_on(f"{store}@host=n1", ["kernels"])
    with pytest.raises(UsageError, match="2 profiles with host=n1"):
        nsysconv.open(f"{store}@host=n1")
    for word in ("commit=ab", "host=abc", "nobody=abc"):
        with pytest.raises(UsageError, match=f"no profile '{word}' in the store"):
            nsysconv.open(f"{store}@{word}")


def test_a_label_comes_before_a_tag_that_is_spelled_like_it(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    nsysconv.import_files([NSYS / "basic-3.25.0.sqlite"], store, label="k=v")
    nsysconv.import_files([OTHER], store, label="other", tags={"k": "v"})
    with nsysconv.open(f"{store}@k=v") as profile:
        assert profile.profile.ref.label == "k=v"


def test_every_profile_of_an_import_is_tagged(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    nsysconv.import_files([NSYS / "basic-3.25.0.sqlite"], store)
    nsysconv.import_files([MERGED, OTHER], store, label="x", tags={"k": "v"})
    tags = kept(store)
    assert tags.pop("basic-3.25.0") == {}
    assert len(tags) > 2
    assert all(each == {"k": "v"} for each in tags.values())


VALUES = {
    "abc": "k=abc",
    "": "k=",
    "1": "k=1",
    "a=b": "k=a=b",
    "two words": "k='two words'",
    "it's": "k='it'\"'\"'s'",
    "100% :x, ?": "k='100% :x, ?'",
    "größer": "k=größer",
}


@pytest.mark.parametrize("value", few(VALUES, 3))
def test_values_are_kept_as_they_are(folder: Path, value: str) -> None:
    run("import", "report1.sqlite", "--tag", f"k={value}", cwd=folder)
    assert kept(folder / "report1.db") == {"report1": {"k": value}}
    assert [row["tags"] for row in nsysconv.runs(folder / "report1.db").rows()] == [VALUES[value]]


BAD_TAGS = {
    "commit": "--tag 'commit' is not KEY=VALUE",
    "": "--tag '' is not KEY=VALUE",
    "=abc": "'' cannot be the key of a tag",
    "1st=a": "'1st' cannot be the key of a tag",
    "a b=c": "'a b' cannot be the key of a tag",
    "größe=1": "'größe' cannot be the key of a tag",
    "k\n=1": r"'k\n' cannot be the key of a tag",
    "k=\x1b[31m": "the value of tag k has characters that cannot be printed",
    "k=two\nlines": "the value of tag k has characters that cannot be printed",
}


@pytest.mark.parametrize("tag", BAD_TAGS, ids=ascii)
def test_bad_tags_are_refused_before_anything_is_made(folder: Path, tag: str) -> None:
    outcome = run("import", "report1.sqlite", "--tag", tag, cwd=folder)
    assert (outcome.status, outcome.out) == (2, "")
    assert BAD_TAGS[tag] in outcome.err
    assert not (folder / "report1.db").exists()


@pytest.mark.parametrize("second", ["k=a", "k=b"])
def test_a_key_is_given_once(folder: Path, second: str) -> None:
    outcome = run("import", "report1.sqlite", "--tag", "k=a", "--tag", second, cwd=folder)
    assert (outcome.status, outcome.out) == (2, "")
    assert "--tag k is given twice" in outcome.err


# -- neither is part of a profile's identity


def test_another_label_or_tag_changes_nothing(folder: Path) -> None:
    run("import", "report1.sqlite", "--label", "main", "--tag", "commit=abc", cwd=folder)
    before = (folder / "report1.db").read_bytes()
    for words in (
        ("--label", "mine"),
        ("--tag", "host=n1"),
        ("--label", "main", "--tag", "commit=d"),
    ):
        outcome = run("import", "report1.sqlite", *words, cwd=folder)
        assert outcome.status == 0
        assert outcome.out.startswith("report1.db@main: already imported as main, nothing changed")
        assert "--replace" in outcome.out
    # Nothing was asked for that could have been taken.
    plain = run("import", "report1.sqlite", cwd=folder).out
    assert plain.splitlines()[0] == "report1.db@main: already imported, nothing changed"
    assert (folder / "report1.db").read_bytes() == before


def test_replace_takes_what_is_given_now(folder: Path) -> None:
    store = folder / "job.db"
    to_store = ("import", "report1.sqlite", "-o", "job.db")
    run(*to_store, "--label", "main", "--tag", "commit=abc", "--tag", "host=n1", cwd=folder)
    run("import", "other.sqlite", "-o", "job.db", "--tag", "commit=other", cwd=folder)
    for words, label, tags in (
        (("--label", "mine", "--tag", "commit=def"), "mine", {"commit": "def"}),
        (("--label", "mine"), "mine", {}),
        (("--tag", "a=b"), "report1", {"a": "b"}),
    ):
        outcome = run(*to_store, "--replace", *words, cwd=folder)
        assert outcome.out.startswith(f"job.db@{label}: 20 api_call")
        assert kept(store) == {"other": {"commit": "other"}, label: tags}
        assert len(tag_rows(store)) == 1 + len(tags), "none is left behind"


def test_a_replacement_that_fails_keeps_the_tags(folder: Path) -> None:
    doubtful = folder / "bad-cells.sqlite"
    shutil.copyfile(ODD / "bad-cells.sqlite", doubtful)
    store = folder / "job.db"
    nsysconv.import_files([doubtful], store, label="main", tags={"commit": "abc"})
    result = nsysconv.import_files([doubtful], store, tags={"b": "c"}, replace=True, strict=True)
    assert result.errors
    assert kept(store) == {"main": {"commit": "abc"}}
