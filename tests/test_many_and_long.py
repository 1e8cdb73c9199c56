"""Long names, and names and devices by the hundred: what they cost, and that nothing is lost."""

from __future__ import annotations

import csv
import gzip
import io
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_names import Work
from make_names import nsys as nsys_export

import nsysconv
from nsysconv.document import Section
from nsysconv.export.columns import row_slices
from nsysconv.names import WHOLE, without_parameters
from nsysconv.render import csv as csv_format
from nsysconv.render.contract import Options
from nsysconv.report import MISSING, Column, Unit, build_table, concatenated, report_table
from nsysconv.store import read
from nsysconv.timeline import kernel_categories
from nsysconv.timeline.kernel_categories import rules

LONG = 200_000
COLUMNS = (Column("name", Unit.TEXT, "", key=True), Column("sum_ns", Unit.NS, ""))


def report(names: list[str | None]) -> Section:
    data = {"name": names, "sum_ns": list(range(len(names)))}
    return Section("kernels", "Kernels", COLUMNS, report_table(COLUMNS, data), row_count=len(names))


@pytest.fixture(scope="module")
def few_long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred kernels with two names."""
    path = tmp_path_factory.mktemp("names") / "long.sqlite"
    path.write_bytes(nsys_export([Work("xy"[n % 2] * LONG) for n in range(100)], "").content)
    return path


def test_a_name_is_in_memory_once(few_long_names: Path) -> None:
    with nsysconv.open(few_long_names) as profile:
        found = profile.report("cuda_gpu_trace")
    assert found.table is not None
    assert found.table.num_rows == 100
    assert found.table.nbytes < 4 * LONG
    rows = [row["name"] for row in found.rows()]
    assert rows == ["xy"[n % 2] * LONG for n in range(100)]
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
    for rank in range(2):
        path = tmp_path / f"rank{rank}.sqlite"
        path.write_bytes(nsys_export([Work(f"k{rank}", device=n) for n in range(250)], "").content)
    found = {report.name: report.row_count for report in nsysconv.page(tmp_path)}
    assert found["utilization_over_time:bins=200"] == 500 * 200
    (named,) = nsysconv.page(path, "utilization_over_time:bins=201")
    assert named.row_count == 250 * 201


# -- names by the thousand

# What a kernel's name is made of, and what means something in a regular expression or at its border.
PIECES = (
    "gemm", "fbgemm", "bgemm", "ncclDevKernel", "conv", "_conv_", "triton_poi_", "softmax", "mma", "1688",
    "winograd", "h884", "flash::", "attn_", "\\bconv", "^", "$", ".", "(", ")", "<", ">", "::", " ", "_",
    "float", "ä", "ſ", "\x1c", "\n", "\x00", "K", "²", "",
)  # fmt: skip
WORDS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


MANY = 1_000


@pytest.fixture(autouse=True, scope="module")
def many() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_categories, "MANY_NAMES", MANY)
        patch.setattr(read, "MANY_NAMES", MANY)
        yield


def _in_numbers(names: list[str]) -> list[str]:
    return [*names, *(f"{name}{number}" for number in range(MANY // len(names) + 1) for name in names)]


@given(st.lists(WORDS, min_size=1, max_size=300))
def test_many_names_are_of_the_categories_of_each(names: list[str]) -> None:
    many = _in_numbers(names)
    assert rules().categories(many)[: len(names) * 2] == [
        rules().category(name) for name in many[: len(names) * 2]
    ]


@pytest.mark.parametrize("pattern", [
    "[[:alpha:]]x", "a++b", "(?i)GEMM", "(?<!b)gemm", "\\s", "x{2,3}", "(a)\\1", "gemm$", "\\w+é", "A|b",
    "[^<]k", "\\.", "^k",
])  # fmt: skip
def test_rules_of_users_mean_the_same_for_many_names(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(f"[[rule]]\ncategory = 'mine'\npatterns = ['{pattern}']\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python's, that sets of characters will mean more
        found = rules(str(tmp_path / "rules.toml"))
    names = [":x", "lx", "aab", "aaab", "gemm", "GEMM", "bgemm", "a b", "a\x1cb", "xx", "aa", "é", "wé",
             "ab", "kk", "<k", "a.b", "gemm\n", "K"]  # fmt: skip
    many = _in_numbers(names)
    alone = many[: 10 * len(names)]
    assert found.categories(many)[: len(alone)] == [found.category(name) for name in alone]


@given(WORDS)
def test_parameters_end_a_name(name: str) -> None:
    """The last `(` that is in no brackets begins them; `->`, `<<` and `>=` count as brackets."""
    depth = start = 0
    for place, sign in enumerate(name):
        depth -= sign in ">)" and depth > 0
        if sign == "(" and not depth:
            start = place
        depth += sign in "<("
    if not name.endswith(")") or name[:start].endswith("operator"):
        start = 0
    assert without_parameters(name) == (name[:start] or name)


def test_names_are_found_one_by_one_and_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "many.sqlite"
    path.write_bytes(nsys_export([Work(f"kernel_{n}") for n in range(2 * MANY)], "").content)
    nsysconv.import_files([path], tmp_path / "job.db")
    for target in (path, tmp_path / "job.db"):
        with nsysconv.open(target) as profile:
            ids = profile.profile.columns("kernel", ("name_id",))["name_id"]
            few = profile.profile.names([*ids[:3], -5, MISSING])
            every = profile.profile.names([*ids, -5, MISSING])
            assert every[-5] == few[-5] == "[name -5]"
            assert every[MISSING] == few[MISSING] == "[no name]"
            assert [every[i] for i in ids[:3].tolist()] == [few[i] for i in ids[:3].tolist()]
            assert {every[i] for i in ids.tolist()} == {f"kernel_{n}" for n in range(2 * MANY)}
            assert len(profile.report("kernels").rows()) == 2 * MANY


# -- what is written is bounded, and the same each time


def _chrome(source: Path, path: Path) -> dict[str, Any]:
    nsysconv.export_profiles(source, "chrome", path)
    content = path.read_bytes()
    trace: dict[str, Any] = json.loads(
        gzip.decompress(content) if path.suffix == ".gz" else content
    )
    return trace


@pytest.mark.parametrize("works", [
    [Work("x" * 50_000)] * 20,
    [Work(f"{n:03}" + "y" * 20_000) for n in range(30)] * 2,
], ids=["one", "several"])  # fmt: skip
def test_trace_has_a_long_name_once(works: list[Work], tmp_path: Path) -> None:
    source = tmp_path / "long.sqlite"
    source.write_bytes(nsys_export(works, "").content)
    trace = _chrome(source, tmp_path / "long.json")
    whole = trace["wholeNames"]
    long = {work.name for work in works}
    assert set(whole.values()) == long
    names = [event["name"] for event in trace["traceEvents"]]
    assert max(map(len, names)) <= WHOLE
    assert {whole.get(name, name) for name in names} >= long
    size = (tmp_path / "long.json").stat().st_size
    assert size < len(names) * (WHOLE + 1_000) + 2 * sum(map(len, long))
    with nsysconv.open(tmp_path / "long.json") as again, nsysconv.open(source) as first:
        for name in ("kernel_count", "kernel_sum_ns"):
            sums = [sum(row[name] for row in each.report("kernels").rows()) for each in (again, first)]
            assert sums[0] == sums[1]


def test_trace_of_ordinary_names_is_cut_nowhere(tmp_path: Path) -> None:
    source = tmp_path / "ordinary.sqlite"
    source.write_bytes(nsys_export([Work("x" * WHOLE), Work("y")], "").content)
    trace = _chrome(source, tmp_path / "ordinary.json")
    assert "wholeNames" not in trace
    assert {"x" * WHOLE, "y"} <= {event["name"] for event in trace["traceEvents"]}


def test_packed_trace_has_the_same_bytes_each_time(
    few_long_names: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for now, name in ((1e9, "a.json.gz"), (1.7e9, "another.json.gz")):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        _chrome(few_long_names, tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
