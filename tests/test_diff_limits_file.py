"""Files of limits: what they say, on which line, and what is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import golden_cases
import pytest
from conftest import examples, few
from diff_asking import Pair, of_lengths, of_steps, sides
from diff_workloads import Launch, run_of
from hypothesis import given
from hypothesis import strategies as st
from machine import SAXPY

from nsysconv import api
from nsysconv.api.options import DiffOptions
from nsysconv.diff import limits_file
from nsysconv.diff.limits_file import LimitsFile
from nsysconv.errors import InputError, UsageError

GEMM = "kernels[/gemm/].avg_ns:2%"
SUM = "overview.kernel_sum_ns:3%"


WINDOW = "overview.window_ns:20%"


def read_limits_file(path: str | Path) -> LimitsFile:
    """The file, as a comparison reads it."""
    return limits_file.read_limits_file(path, DiffOptions.in_files())


def limits(folder: Path, text: str | bytes) -> Path:
    path = folder / "limits.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    path = limits(tmp_path, f"""\
run_noise = "0.3%"        # optional
inconclusive = "pass"      # optional
step_range = "step *"
limits = ["{SUM}", "{GEMM}"]
""")
    assert read_limits_file(path) == LimitsFile(
        ((SUM, "limits.toml:4"), (GEMM, "limits.toml:4")),
        {"run_noise": "0.3%", "inconclusive": "pass", "step_range": "step *"},
    )  # fmt: skip
    assert read_limits_file(str(path)) == read_limits_file(path)


def test_what_is_not_said_is_none(tmp_path: Path) -> None:
    path = limits(tmp_path, f'limits = ["{SUM}"]')
    assert read_limits_file(path) == LimitsFile(((SUM, "limits.toml:1"),), {})


def test_each_limit_has_its_own_line(tmp_path: Path) -> None:
    path = limits(tmp_path, f"""\
# limits = ["{GEMM}"], said the old one
limits = [  # "not this" ] nor that [
    "{SUM}",
    # "{SUM}",

    '{SUM}', "{GEMM}",  # it's one "quote
    '''{GEMM}''',
    \"\"\"
{SUM}\"\"\",
    'steps[/a "b" #c ]/].avg_ns:2%',
    "kernels[/\\"\\\\[\\"/].avg_ns:2%"
]
run_noise = "1% ]"
inconclusive = 'fail'
""")
    found = read_limits_file(path)
    assert found.limits == (
        (SUM, "limits.toml:3"),
        (SUM, "limits.toml:6"),
        (GEMM, "limits.toml:6"),
        (GEMM, "limits.toml:7"),
        (SUM, "limits.toml:8"),
        ('steps[/a "b" #c ]/].avg_ns:2%', "limits.toml:10"),
        (r'kernels[/"\["/].avg_ns:2%', "limits.toml:11"),
    )
    assert found.options == {"run_noise": "1% ]", "inconclusive": "fail"}


def test_quotes_at_the_end_of_long_texts(tmp_path: Path) -> None:
    path = limits(tmp_path, '''limits = [\n"""a""""",\n\'\'\'b\'\'\'\'\',\n"""c\\\n"""",\n"d"]''')
    texts = [('a""', 2), ("b''", 3), ('c"', 4), ("d", 6)]
    assert read_limits_file(path).limits == tuple((text, f"limits.toml:{line}") for text, line in texts)


@pytest.mark.parametrize(
    "content",
    [f'limits = [\r\n"{SUM}"\r\n]\r\n'.encode(), f'\ufefflimits = [\n"{SUM}"\n]'.encode(),
     f'"limits" =\t[ \n"{SUM}" ,]'.encode()],
    ids=["lines of Windows", "byte order mark", "quoted key"],
)  # fmt: skip
def test_other_ways_to_write_it(content: bytes, tmp_path: Path) -> None:
    assert read_limits_file(limits(tmp_path, content)).limits == ((SUM, "limits.toml:2"),)


def quoted(text: str, style: str) -> str | None:
    """The text as a TOML string of a style; None where the style cannot spell it."""
    if style == "'":
        return None if "'" in text or "\n" in text else f"'{text}'"
    if style == "'''":
        return None if "'" in text else f"'''{text}'''"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{escaped}"""' if style == '"""' else '"' + escaped.replace("\n", "\\n") + '"'


TEXTS = st.text(st.sampled_from("a[]#=,:'\"\\/\n "), max_size=8)
PIECES = st.tuples(
    st.lists(st.sampled_from(["", "# x ] ' \"", "#[", "  "]), max_size=2),
    TEXTS, st.sampled_from(["'", "'''", '"', '"""']),
)  # fmt: skip


@given(st.lists(PIECES, min_size=1, max_size=5), st.booleans())
@examples(300)
def test_lines_are_those_that_the_file_was_written_in(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[tuple[list[str], str, str]],
    option_first: bool,
) -> None:
    option = "inconclusive = 'pass' # [']\n"
    text = (option if option_first else "") + "limits = ["
    expected = []
    for between, wanted, style in pieces:
        text += "".join(f"{each}\n" for each in between)
        spelled = quoted(wanted, style) or quoted(wanted, '"')
        expected.append(text.count("\n") + 1)
        text += f"{spelled}, "
    text += "]\n" + ("" if option_first else option)
    found = read_limits_file(limits(tmp_path_factory.mktemp("file"), text))
    assert [place for _, place in found.limits] == [f"limits.toml:{line}" for line in expected]
    assert [each for each, _ in found.limits] == tomllib.loads(text)["limits"]
    assert found.options == {"inconclusive": "pass"}


@pytest.mark.parametrize(
    ("text", "where", "what", "hint"),
    [
        ("", "", "no limits", "limits = ["),
        ("run_noise = '1%'", "", "no limits", "limits = ["),
        ("limits = [ # none\n]", "", "no limits", "limits = ["),
        (f"limits = '{SUM}'", "", "limits is not a list but a text", "limits = ["),
        ("[limits]\na = 1", "", "limits is not a list but a table", "limits = ["),
        (f"limits = ['{SUM}', 3]", "", "limit 2 of 2 is not a string but 3", "limits = ["),
        ("[[limits]]\na = 1", "", "limit 1 of 1 is not a string but a table", "limits = ["),
        (f"limits = [['{SUM}']]", "", "limit 1 of 1 is not a string but a list", "limits = ["),
        (f"limit = ['{SUM}']", "", "no key 'limit'", "Did you mean limits "),
        (f"run-noise = '1%'\nlimits = ['{SUM}']", "", "no key 'run-noise'", "Did you mean run_noise?"),
        (f"limits = ['{SUM}']\n[other]", "", "no key 'other'", "There are: limits, step_range"),
        (f"run_noise = 0.3\nlimits = ['{SUM}']", "", "run_noise is not a string but 0.3",
         "--run-noise"),
        (f"inconclusive = true\nlimits = ['{SUM}']", "", "inconclusive is not a string but true or false",
         "--inconclusive"),
    ],
)  # fmt: skip
def test_what_no_file_of_limits_can_say(
    text: str, where: str, what: str, hint: str, tmp_path: Path
) -> None:
    path = limits(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_limits_file(path)
    assert (caught.value.what, caught.value.where) == (what, f"{path}{where}")
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (f"\nlimits = ['{SUM}'\nrun_noise = '1%'", ":3", "not TOML: Unclosed array"),
        ("# limits\nlimits: [1]", ":2", "not TOML: Expected '=' after a key in a key/value pair"),
        (f"limits = ['{SUM}']\nlimits = ['{SUM}']", ":2", "not TOML: Cannot overwrite a value"),
        (f"# limits\nlimits = ['{SUM}'", ":2", "not TOML: Unclosed array"),
        (b"SQLite format 3\0\xff\xfe", ":1", "not TOML: not UTF-8"),
        (b"limits = [\n'a',\n'\xe9']", ":3", "not TOML: not UTF-8"),
        ("limits = " + "[" * 100_000, "", "not TOML: nested too deeply"),
        ("limits = " + "9" * 10_000, "", "not TOML: Exceeds the limit"),
        (b" " * 1_000_001, "", "too long for a file of limits"),
    ],
)
def test_what_is_not_toml(content: str | bytes, line: str, what: str, tmp_path: Path) -> None:
    path = limits(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_limits_file(path)
    assert caught.value.what.startswith(what)
    assert "(at " not in caught.value.what
    assert caught.value.where == f"{path}{line}"
    assert caught.value.hint.endswith('limits = ["overview.kernel_sum_ns:3%"]')


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "none.toml", "no such file"), (tmp_path, "cannot be read: Is a")):
        with pytest.raises(InputError) as caught:
            read_limits_file(path)
        assert caught.value.what.startswith(what)
        assert caught.value.where == str(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_limits_file("a\0b")


# -- in a diff


@pytest.fixture
def slower_by_four_percent(tmp_path: Path) -> Pair:
    """One run per side, which may differ by 8.7 % without a change; with `run_noise` 0.3 % by 0.8."""
    return sides(tmp_path, of_lengths([100]), of_lengths([104]))


def test_limits_are_judged_and_named_by_their_lines(slower_by_four_percent: Pair, tmp_path: Path) -> None:
    path = limits(tmp_path, f"# of the nightly job\nlimits = [\n  '{WINDOW}',\n  '{SUM}',\n]\n")
    found = api.compare(*slower_by_four_percent, ["overview"], limits=path)
    assert [report.name for report in found.reports] == ["diff_overview", "limits"]
    first, second = found.reports[-1].rows()
    assert (first["state"], second["state"], found.exit_status) == ("within", "inconclusive", 4)
    for row, text, place in ((first, WINDOW, "limits.toml:3"), (second, SUM, "limits.toml:4")):
        assert text in row["limit"]
        assert place in " ".join(map(str, row.values()))


def test_limits_of_a_file_and_of_the_call_are_judged_both(
    slower_by_four_percent: Pair, tmp_path: Path
) -> None:
    path = limits(tmp_path, f"limits = ['{WINDOW}']")
    found = api.compare(*slower_by_four_percent, limits=path, fail_on=["overview.kernel_count:0%"])
    rows = found.reports[-1].rows()
    assert {row["state"] for row in rows} == {"within"}
    assert sorted(row["limit"].split(":")[0].split(".")[-1] for row in rows) == [
        "kernel_count", "window_ns"]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "options", "status"),
    few([
        ("run_noise = '0.3%'", {}, 1), ("", {}, 4), ("inconclusive = 'pass'", {}, 0),
        ("inconclusive = 'pass'\nrun_noise = '0.3%'", {}, 1),
        # What the call says counts for more than the file does.
        ("run_noise = '0.3%'", {"run_noise": "3%"}, 4),
        ("inconclusive = 'pass'", {"inconclusive": "fail"}, 4), ("", {"inconclusive": "pass"}, 0),
    ], 2),
)  # fmt: skip
def test_options_in_a_file(
    said: str, options: dict[str, str], status: int, slower_by_four_percent: Pair, tmp_path: Path
) -> None:
    path = limits(tmp_path, f"{said}\nlimits = ['{SUM}']\n")
    assert api.compare(*slower_by_four_percent, limits=path, **options).exit_status == status
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    called = golden_cases.run(
        "diff", *slower_by_four_percent, "--limits", str(path), *flags, cwd=tmp_path
    )
    assert called.status == status
    assert "limits.toml:" in called.out


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        (f"limits = [\n'{SUM}',\n'overview.window_n:3%']", "limits.toml:3", "window_n"),
        (f"# noise\nrun_noise = 'much'\nlimits = ['{SUM}']", "limits.toml", "much"),
        (f"inconclusive = 'ignore'\nlimits = ['{SUM}']", "limits.toml", "ignore"),
        (f"match = 'roughly'\nlimits = ['{SUM}']", "limits.toml", "roughly"),
        (r'limits = ["kernels[/\bgemm/].kernel_count:0"]', "limits.toml:1", "backspace"),
    ],
)
def test_what_a_limit_cannot_say_is_refused_with_its_place(
    text: str, place: str, what: str, slower_by_four_percent: Pair, tmp_path: Path
) -> None:
    path = limits(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        api.compare(*slower_by_four_percent, limits=path)
    assert place in caught.value.where
    assert what in caught.value.what


def test_flags_of_the_command_line(slower_by_four_percent: Pair, tmp_path: Path) -> None:
    for flags, status in (
        ((), 4), (("--inconclusive", "pass"), 0), (("--inconclusive", "fail"), 4),
        (("--run-noise", "0.3%"), 1), (("--run-noise", "much"), 2), (("--inconclusive", "no"), 2),
        (("--limits", "none.toml"), 3),
    ):  # fmt: skip
        called = golden_cases.run("diff", *slower_by_four_percent, "--fail-on", SUM, *flags, cwd=tmp_path)
        assert (called.status, flags) == (status, flags), called.err


def test_every_option_that_is_one_text_may_be_in_a_file() -> None:
    texts = ("step_range", "step_kernel", "grammar", "range_names", "split", "match", "run_noise",
             "inconclusive")  # fmt: skip
    assert DiffOptions.in_files() == {**dict.fromkeys(texts, str), "step_graph": bool}


def test_steps_are_named_in_a_file(tmp_path: Path) -> None:
    runs = sides(tmp_path, of_steps([10.0] * 20), of_steps([13.0] * 20), ("nsys", "nsys"))
    path = limits(tmp_path, "step_range = 'no such *'\nlimits = ['steps.avg_ns:3%']")
    with pytest.raises(UsageError, match="no range 'no such"):
        api.compare(*runs, limits=path)
    said = limits(tmp_path, "step_range = 'Profiler*'\nlimits = ['steps.avg_ns:3%']")
    assert api.compare(*runs, limits=said).exit_status == 1
    # What the call says counts for more.
    with pytest.raises(UsageError, match="no range 'no such"):
        api.compare(*runs, limits=said, step_range="no such *")


def test_what_ends_a_step_is_named_in_a_file(tmp_path: Path) -> None:
    """Without annotations: 20 steps between 21 kernels, 30 % longer each."""
    steps = [[[Launch(SAXPY, length)] for _ in range(21)] for length in (1_000_000, 1_300_000)]
    base, other = ([run_of(each, annotated=False)] for each in steps)
    runs = sides(tmp_path, base, other, ("nsys", "nsys"))
    path = limits(tmp_path, "step_kernel = 'saxpy'\nlimits = ['steps.avg_ns:3%']")
    assert api.compare(*runs, limits=path).exit_status == 1
    assert api.compare(*runs, fail_on=["steps.avg_ns:3%"]).exit_status == 4
    wrong = limits(tmp_path, "step_graph = 'yes'\nlimits = ['steps.avg_ns:3%']")
    with pytest.raises(UsageError, match="step_graph is not true or false but a text"):
        api.compare(*runs, limits=wrong)
