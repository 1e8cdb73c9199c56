"""A profiler's line: the program is found in it, and nothing of it is changed but its output."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.capture import PROFILERS
from nsysconv.capture.command import NSYS, NVPROF, Profiler, parse
from nsysconv.errors import CaptureError

# An option as people write it, the arguments it becomes, and whether it is an output.
_VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_OUTPUTS = ("-o", "--output", "--export-profile", "--log-file")


def options_of(profiler: Profiler) -> st.SearchStrategy[list[str]]:
    valued = sorted(profiler.valued - set(_OUTPUTS))
    long = [name for name in valued if name.startswith("--")]
    return st.one_of(
        st.tuples(st.sampled_from(valued), _VALUES).map(list),
        st.tuples(st.sampled_from([*long, "--unheard-of"]), _VALUES).map(lambda t: ["=".join(t)]),
        st.sampled_from(sorted(profiler.flags)).map(lambda flag: [flag]),
    )


@st.composite
def lines(draw: st.DrawFn) -> tuple[Profiler, list[str], list[str], list[int]]:
    """A profiler, its line up to the program, the program, and where the line names an output."""
    profiler = draw(st.sampled_from([NSYS, NVPROF]))
    line = [draw(st.sampled_from(["", "/opt/cuda/bin/"])) + profiler.name, *profiler.words]
    outputs = []
    for option in draw(st.lists(options_of(profiler), max_size=5)):
        if not outputs and draw(st.booleans()):
            line += ["-o", draw(_VALUES)]
            outputs.append(len(line) - 1)
        line += option
    name = draw(_VALUES.filter(lambda text: text and not text.startswith("-")))
    # The program's own arguments look like the profiler's.
    own = st.one_of(_VALUES, st.sampled_from(["-o", "--", "--output=x", "-f", "nsys", "profile"]))
    return profiler, line, [name, *draw(st.lists(own, max_size=5))], outputs


@given(lines())
def test_nothing_but_the_output_is_changed(
    case: tuple[Profiler, list[str], list[str], list[int]],
) -> None:
    profiler, options, program, outputs = case
    line = parse([*options, *program])
    assert line.program == tuple(program)
    if outputs:
        changed = line.with_outputs(["NEW"])
        expected = [*options, *program]
        expected[outputs[0]] = "NEW"
        assert changed == tuple(expected)
    else:
        at = 1 + len(profiler.words)
        assert line.with_outputs(["NEW"]) == (*options[:at], "-o", "NEW", *options[at:], *program)


@pytest.mark.parametrize(
    ("option", "changed"),
    [
        (["-o", "x"], ["-o", "NEW"]),
        (["-ox"], ["-oNEW"]),
        (["-o=x"], ["-o=NEW"]),
        (["--output", "x"], ["--output", "NEW"]),
        (["--output=x"], ["--output=NEW"]),
        (["--output=x=y z"], ["--output=NEW"]),
    ],
)
def test_every_spelling_of_the_output(option: list[str], changed: list[str]) -> None:
    line = parse(["nsys", "profile", "-t", "cuda", *option, "./a", "-o", "b"])
    assert line.with_outputs(["NEW"]) == ("nsys", "profile", "-t", "cuda", *changed, "./a", "-o", "b")


@pytest.mark.parametrize(
    ("option", "overwrites"),
    [
        (["-f", "true"], True), (["-ftrue"], True), (["--force-overwrite=true"], True),
        (["--force-overwrite", "false"], False), (["-f", "true", "-f", "false"], False), ([], False),
    ],
)  # fmt: skip
def test_whether_nsys_may_overwrite(option: list[str], overwrites: bool) -> None:
    assert parse(["nsys", "profile", *option, "./a", "-f", "true"]).overwrites is overwrites


def test_nvprof_writes_a_profile_and_a_log() -> None:
    line = parse(["nvprof", "-f", "--log-file", "a.log", "--csv", "-o", "a.nvprof", "./a", "-o", "c"])
    assert line.overwrites
    changed = line.with_outputs(["NEW.log", "NEW.nvprof"])
    assert changed == (
        "nvprof", "-f", "--log-file", "NEW.log", "--csv", "-o", "NEW.nvprof", "./a", "-o", "c",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ([], "no command is given"),
        (["./a"], "not a line of a profiler: './a'"),
        (["ncu", "./a"], "not a line of a profiler: 'ncu'"),
        (["nsys"], "not a line of a profiler: 'nsys'"),
        (["nsys", "launch", "./a"], "not a line of a profiler: 'nsys launch'"),
        (["nsys", "profile"], "no program"),
        (["nsys", "profile", "-o", "x"], "no program"),
        (["nsys", "profile", "-o"], "no program"),
        (["nsys", "profile", "--help"], "no program"),
        (["nsys", "profile", "--unheard-of", "x", "./a"], "--unheard-of of nsys is not known"),
        (["nsys", "profile", "-Z", "x", "./a"], "-Z of nsys is not known"),
    ],
)
def test_lines_that_are_refused(line: list[str], said: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(said)) as refused:
        parse(line)
    assert refused.value.exit_status == 125
    assert refused.value.hint


def test_the_program_can_be_marked() -> None:
    line = ["nsys", "profile", "--unheard-of", "x", "-o", "y", "./a", "./a", "-o", "z"]
    assert parse(line, "./a").program == ("./a", "./a", "-o", "z")
    assert parse(line, "./a").with_outputs(["NEW"])[4:7] == ("-o", "NEW", "./a")
    with pytest.raises(CaptureError, match="not an argument of the line"):
        parse(line, "./b")


def test_the_profilers_are_those_that_are_named() -> None:
    assert (NSYS.name, NVPROF.name) == PROFILERS
