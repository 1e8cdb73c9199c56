"""Every output format x every nasty report; and the package's own functions."""

from __future__ import annotations

import importlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from nasty import all_reports, nasty_report

from nsysconv.document import Section, Text
from nsysconv.errors import UsageError
from nsysconv.notes import Note, Severity
from nsysconv.render import FORMATS, Options, check_count, format_for, renderer, suffix
from nsysconv.report import Column, ProfileRef, Unit, build_table, report_table

ONE_REPORT = ("csv", "tsv")
NO_NOTES = (*ONE_REPORT, "column")
OPTIONS = (Options(), Options(width=40), Options(width=80), Options(width=160))


def kept(name: str) -> str:
    """What a report is known to look like, of the files in tests/rendered."""
    return (Path(__file__).with_name("rendered") / name).read_bytes().decode("utf-8")


def rendered(name: str, *reports: Section, options: Options = Options()) -> str:  # noqa: B008
    out = io.StringIO()
    renderer(name)(reports, out, options)
    return out.getvalue()


def encoded(name: str, encoding: str, *reports: Section, options: Options = Options()) -> str:  # noqa: B008
    """What comes out of a stream of that encoding."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, newline="")
    renderer(name)(reports, out, options)
    out.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("report", all_reports(), ids=lambda report: report.name)
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_writes_every_report(name: str, report: Section, options: Options) -> None:
    text = rendered(name, report, options=options)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    text.encode("utf-8")  # raises where a surrogate got through
    assert text == rendered(name, report, options=options)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_stream_can_take_it(name: str, encoding: str) -> None:
    encoded(name, encoding, nasty_report(), options=Options(width=100))


@pytest.mark.parametrize("name", FORMATS)
def test_several_reports(name: str) -> None:
    reports = all_reports()
    if name in ONE_REPORT:
        with pytest.raises(UsageError, match="-o DIR/"):
            rendered(name, *reports)
        with pytest.raises(UsageError):
            rendered(name)
        for names in ((), ("kernels", "overview")):
            with pytest.raises(UsageError):
                check_count(name, names)
    else:
        text = rendered(name, *reports).replace("`", "")  # of code in Markdown
        # A page and text say a note once.
        times = 1 if name in ("html", "text") else len(reports)
        assert text.count("Left out") == (0 if name in NO_NOTES else times)
        assert text.count("API") == 1  # of the one that was not recorded
        rendered(name)
        check_count(name, reports)
    check_count(name, ("kernels",))


@pytest.mark.parametrize("name", FORMATS)
def test_rows_no_rows_and_not_recorded_never_look_alike(name: str) -> None:
    columns = (Column("call_count", Unit.COUNT, "Calls."),)
    full = Section("r", "R", columns, build_table(columns, {"call_count": [739]}), row_count=1)
    empty = Section("r", "R", columns, build_table(columns, {"call_count": []}))
    missing = Section("r", "R", columns, None, not_recorded=("API calls",))
    outputs = [rendered(name, report) for report in (full, empty, missing)]
    if name in ONE_REPORT:
        # These hold rows alone; what is missing is said on stderr (test_render_text.py).
        assert outputs == ["call_count\n739\n", "call_count\n", "call_count\n"]
    else:
        assert len(set(outputs)) == 3
        assert ["739" in text for text in outputs] == [True, False, False]
        assert ["API calls" in text for text in outputs] == [False, False, True]
        words = re.sub(r"(?s)<head>.*</head>|<script>.*</script>|<[^>]*>", "", outputs[2])
        assert "0" not in words


@pytest.mark.parametrize("name", FORMATS)
def test_a_module_per_format_with_the_contract(name: str) -> None:
    module = importlib.import_module(f"nsysconv.render.{name}")
    assert suffix(name) == module.SUFFIX
    assert module.render is renderer(name)
    by_suffix = "text" if name == "column" else name  # one suffix, and text is what it says
    assert format_for(Path(f"some.dir/report{module.SUFFIX}")) == by_suffix
    assert format_for(Path(f"REPORT{module.SUFFIX.upper()}")) == by_suffix
    assert module.__doc__


def test_unknown_formats_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as unknown:
        renderer("xlsx")
    assert all(name in str(unknown.value) for name in FORMATS)
    for path in (Path("report"), Path("report.xlsx"), Path(".json")):
        with pytest.raises(UsageError) as no_suffix:
            format_for(path)
        assert str(path) in str(no_suffix.value)
        assert ".md" in str(no_suffix.value)


@pytest.mark.parametrize("name", FORMATS)
def test_columns_without_any_value(name: str) -> None:
    columns = (Column("rank", Unit.ID, "A rank.", key=True), Column("dur_ns", Unit.NS, "A time."))
    table = build_table(columns, {"rank": [None], "dur_ns": [None]})
    assert rendered(name, Section("r", "R", columns, table, row_count=1), options=Options(width=80))


_LOADED = """
import io, sys
sys.path[:0] = {path!r}
from nasty import nasty_report
from nsysconv.render import Options, renderer
for name in {names!r}:
    renderer(name)([nasty_report()], io.StringIO(), Options())
    loaded = [m for m in ("rich", "pandas", "sqlalchemy", "sqlite3", "typer") if m in sys.modules]
    print(name, *loaded)
"""


def test_only_text_loads_rich_and_nothing_loads_pandas() -> None:
    here = Path(__file__).parent
    names = sorted(FORMATS, key=lambda name: name == "text")
    code = _LOADED.format(path=[str(here), str(here.parent)], names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*names[:-1], "text rich"]


# -- texts of any kind, in every place


class Terminal(io.StringIO):
    """A stream whose text is looked at on a terminal."""

    def isatty(self) -> bool:
        return True


TEXTS = st.one_of(
    st.sampled_from(["", " ", "  ", "\x1b[31m", "\x1b]0;T\x07", "\x9b31m", "\x7f", "\u202e", "\u2028",
                     "`", "``", "|", "a|b", "\n", "\t", "\r", "</script>", "<!--", "@x", "x" * 300]),
    st.text(max_size=8),
)  # fmt: skip
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@examples(45)
@given(st.lists(TEXTS, min_size=3, max_size=3, unique=True), TEXTS, TEXTS, TEXTS)
def test_texts_of_any_kind_in_any_place_are_written(
    names: list[str], title: str, said: str, place: str
) -> None:
    columns = (Column(names[0], Unit.TEXT, names[1], key=True), Column("sum_ns", Unit.NS, title))
    table = report_table(columns, {names[0]: names, "sum_ns": [0, 1, None]})
    note = Note("device-unnamed", Severity.INFO, said or "text", 1, place)
    profile = ProfileRef(1, title, "kineto", place)
    report = Section(
        "kernels", title, columns, table, profiles=(profile,), notes=(note,), row_count=3,
        texts=(Text(said, (said, title)),),
    )  # fmt: skip
    for name in FORMATS:
        terminal = Terminal()
        renderer(name)([report], terminal, Options())
        # The colors of headings are ours.
        shown = re.sub(r"\x1b\[\d*m", "", terminal.getvalue()) if name == "text" else terminal.getvalue()
        assert not STEERING.search(shown), name
        assert shown


@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_to_a_file_control_characters_are_data(name: str) -> None:
    columns = (Column("a\x1b", Unit.TEXT, "", key=True),)
    table = report_table(columns, {"a\x1b": ["\x1b[31m"]})
    report = Section("kernels", "Kernels", columns, table, row_count=1)
    assert rendered(name, report) == "a\x1b\n\x1b[31m\n"
