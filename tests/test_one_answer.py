"""A report says the same however it is asked: alone or among all, of a file in place or of its store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import FIXTURES, NO_REAL, REAL_FILES, REAL_TRACES, few, name_of
from one_answer import EXAMPLES, SEVERAL, includable, is_readable, one_by_one, said

from nsysconv import api
from nsysconv.importers import IMPORTERS
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.queries import REPORTS

OTHERS = sorted(
    path
    for folder in FIXTURES.iterdir()
    if folder.is_dir()
    for path in folder.iterdir()
    if path not in EXAMPLES
)
# Of the many files each asks for so many reports alone, other ones than the file before it.
ALONE = 5


def check(
    path: Path, tmp_path: Path, alone: Sequence[str] = REPORTS, names: Sequence[str] = REPORTS
) -> None:
    """One by one as together, and in place as in a store."""
    if not is_readable(path):
        pytest.skip("it is not a profile that can be read")
    together = said(path, names)
    each = one_by_one(path, alone)
    assert each == {name: together[name] for name in each}
    assert len(each) >= len(alone)
    include = includable(path)
    store = tmp_path / "job.db"
    api.import_files([path], store, include=include)
    assert said(store, names) == (said(path, names, include) if include else together)


def test_one_example_is_of_each_source() -> None:
    sources = []
    for path in EXAMPLES:
        with Probe(path) as probe:
            sources.append(detect(probe).NAME)
    assert sources == [*IMPORTERS]


def some(number: int) -> Sequence[str]:
    """A few reports; those of as many numbers as it takes are all."""
    return REPORTS[number % (len(REPORTS) // ALONE + 1) :: len(REPORTS) // ALONE + 1]


@pytest.mark.parametrize(("number", "path"), few(enumerate(EXAMPLES), 2), ids=name_of)
def test_a_file_its_store_and_some_reports_alone_say_the_same(
    number: int, path: Path, tmp_path: Path
) -> None:
    check(path, tmp_path, some(number))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_so_does_each_report(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)


@pytest.mark.parametrize("path", few(SEVERAL, 1), ids=name_of)
def test_so_do_files_of_several_profiles(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, ["overview", "stragglers"], ["overview", "stragglers", *REPORTS[::6]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "path"), [*enumerate([*OTHERS, *REAL_FILES, *REAL_TRACES])], ids=name_of
)
def test_so_do_all_other_files(number: int, path: Path, tmp_path: Path) -> None:
    if not path.exists():
        pytest.skip(NO_REAL)
    check(path, tmp_path, some(number))
