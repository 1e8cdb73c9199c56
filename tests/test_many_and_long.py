"""Long names, and names and devices by the hundred: what they cost, and that nothing is lost."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pytest
from make_names import Work
from make_names import nsys as nsys_export

import nsysconv
from nsysconv.export.columns import row_slices
from nsysconv.render import csv as csv_format
from nsysconv.render.contract import Options
from nsysconv.report import Column, Report, Unit, build_table, concatenated, report_table

LONG = 200_000
COLUMNS = (Column("name", Unit.TEXT, "", key=True), Column("sum_ns", Unit.NS, ""))


def report(names: list[str | None]) -> Report:
    data = {"name": names, "sum_ns": list(range(len(names)))}
    return Report("kernels", "Kernels", COLUMNS, report_table(COLUMNS, data), row_count=len(names))


@pytest.fixture(scope="module")
def few_long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand kernels with two names."""
    path = tmp_path_factory.mktemp("names") / "long.sqlite"
    path.write_bytes(nsys_export([Work("xy"[n % 2] * LONG) for n in range(1000)], "").content)
    return path


def test_a_name_is_in_memory_once(few_long_names: Path) -> None:
    with nsysconv.open(few_long_names) as profile:
        found = profile.report("cuda_gpu_trace")
    assert found.table is not None
    assert found.table.num_rows == 1000
    assert found.table.nbytes < 4 * LONG
    rows = [row["name"] for row in found.rows()]
    assert rows == ["xy"[n % 2] * LONG for n in range(1000)]
    assert len(set(map(id, rows))) == 2


def test_of_cut_rows_only_their_names_are_made() -> None:
    cut = report([f"k{n}" for n in range(10)]).limited(3)
    assert [row["name"] for row in cut.rows()] == ["k0", "k1", "k2"]


def test_rows_of_several_profiles_keep_their_names() -> None:
    both = concatenated([report(["a", "b", "a", None]), report(["c", "a"])])
    assert [row["name"] for row in both.rows()] == ["a", "b", "a", None, "c", "a"]
    assert both.by_column()[0] == ["a", "b", "a", None, "c", "a"]


def test_programs_get_plain_columns() -> None:
    names = ["a", None, "a", "b"]
    plain = build_table(COLUMNS, {"name": names, "sum_ns": [0, 1, 2, 3]})
    assert report(names).to_arrow().equals(plain)
    assert report(names).to_arrow().schema.field("name").type == pa.string()


def test_stray_bytes_and_surrogates_are_spelled_as_before() -> None:
    names = ["\ud800", "\\ud800", "größe", ""]
    out = io.StringIO()
    csv_format.render([report(list(names))], out, Options())
    cells = [row[0] for row in csv.reader(io.StringIO(out.getvalue()))]
    assert cells == ["name", "\\ud800", "\\ud800", "größe", ""]


@pytest.mark.parametrize(
    ("rows", "longest"), [(0, 5), (1, LONG), (20_000, 0), (20_000, LONG), (3, 1 << 40)]
)
def test_rows_that_are_written_at_a_time_cover_all_and_hold_little_text(
    rows: int, longest: int
) -> None:
    found = list(row_slices(rows, longest))
    places = [place for each in found for place in range(each.start, each.stop)]
    assert places == list(range(rows))
    sizes = [each.stop - each.start for each in found]
    assert all(size == 1 or size * longest <= 1 << 26 for size in sizes)
    assert all(size == sizes[0] for size in sizes[:-1])


@pytest.mark.slow
def test_a_page_of_many_devices_has_fewer_bins(tmp_path: Path) -> None:
    path = tmp_path / "devices.sqlite"
    path.write_bytes(nsys_export([Work("k", device=n) for n in range(500)], "").content)
    found = {report.name: report.row_count for report in nsysconv.page(path)}
    assert found["utilization_over_time:bins=200"] == 500 * 200
    (named,) = nsysconv.page(path, "utilization_over_time:bins=201")
    assert named.row_count == 500 * 201
