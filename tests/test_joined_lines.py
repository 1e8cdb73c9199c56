"""Source lines of a line profiler at the operators of a timeline: `--join`.

The program has `main` in /home/me/job/train.py from line 10, which calls `forward` in
/home/me/job/pkg/model.py from line 3. Two operators launch a kernel each (ns):

    aten::mm     line 5 of model.py, called in line 12 of train.py    30
    aten::add_   line 13 of train.py                                  10
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, examples, few, real
from golden_cases import run
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Operator, write

import nsysconv
from nsysconv.errors import InputError
from nsysconv.timeline.line_operators import same_files

TRAIN, MODEL = "/home/me/job/train.py", "/home/me/job/pkg/model.py"
LINES = [(TRAIN, 10, "main", 12), (TRAIN, 10, "main", 13), (MODEL, 3, "forward", 5)]
# Profilers write the line that runs, or the first line of the function.
RUNNING = ("pkg/model.py(5): forward;train.py(12): main;", "train.py(13): main;")
FIRST = ("pkg/model.py(3): forward;train.py(10): main;", "train.py(10): main;")


def printed(folder: Path, lines: Sequence[tuple[str, int, str, int]] = LINES) -> Path:
    """Write what line_profiler prints: each line of 1 s, with the calls in it."""
    text = "Timer unit: 1e-06 s\n"
    for file, first, function, line in lines:
        text += (
            f"\nTotal time: 1 s\nFile: {file}\nFunction: {function} at line {first}\n\n"
            "Line #      Hits         Time  Per Hit   % Time  Line Contents\n"
            "==============================================================\n"
            f"{line:6d}         1    1000000.0 1000000.0    100.0      run()\n"
        )
    (folder / "lines.txt").write_text(text, encoding="utf-8")
    return folder / "lines.txt"


def sampled(folder: Path, decorated: int = 0) -> Path:
    """Write what Scalene records: each line of 1 s, without the calls in it.

    Of a decorated function, lines know the `def`, and the list of functions the first decorator.
    """
    files: dict[str, Any] = {}
    for file, first, function, line in LINES:
        of_file = files.setdefault(file, {"functions": [], "lines": []})
        of_file["functions"] = [{"lineno": first, "line": function}]
        of_file["lines"].append({
            "lineno": line, "start_function_line": first + decorated, "n_cpu_percent_python": 25,
            "n_cpu_percent_c": 0, "n_sys_percent": 0, "n_gpu_percent": 0,
        })  # fmt: skip
    profile = {"elapsed_time_sec": 4, "gpu": True, "memory": False, "files": files}
    (folder / "scalene.json").write_text(json.dumps(profile), encoding="utf-8")
    return folder / "scalene.json"


def timeline(folder: Path, stacks: tuple[str | None, str | None]) -> Path:
    path = folder / "run.db"
    write(
        path,
        *(Kernel(100, 130, 1), Kernel(200, 210, 2), Call(12, 14, 1), Call(32, 34, 2)),
        Operator(10, 20, "aten::mm", stack=stacks[0]),
        Operator(30, 40, "aten::add_", stack=stacks[1]),
    )
    return path


def trace(folder: Path) -> Path:
    """Write a trace of PyTorch 2, whose operators lie in calls of functions."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid,
         "ts": start, "dur": dur, "args": args}
        for category, name, tid, start, dur, args in (
            ("python_function", "job/train.py(10): main", 1, 0, 90, {"Python id": 1}),
            ("python_function", "job/pkg/model.py(3): forward", 1, 5, 20, {"Python id": 2}),
            ("cpu_op", "aten::mm", 1, 10, 10, {"External id": 1}),
            ("cuda_runtime", "cudaLaunchKernel", 1, 12, 2, {"correlation": 1}),
            ("cpu_op", "aten::add_", 1, 30, 10, {"External id": 2}),
            ("cuda_runtime", "cudaLaunchKernel", 1, 32, 2, {"correlation": 2}),
            # The function itself launches a kernel, as Triton's do.
            ("cuda_runtime", "cudaLaunchKernel", 1, 50, 2, {"correlation": 3}),
        )
    ]  # fmt: skip
    events += [
        {"ph": "X", "cat": "kernel", "name": f"k{n}", "pid": 0, "tid": 7, "ts": 100 * n, "dur": dur,
         "args": {"correlation": n, "device": 0, "stream": 7}}
        for n, dur in ((1, 30), (2, 10), (3, 5))
    ]  # fmt: skip
    text = json.dumps({"schemaVersion": 1, "with_stack": 1, "traceEvents": events})
    (folder / "run.pt.trace.json").write_text(text, encoding="utf-8")
    return folder / "run.pt.trace.json"


def report(path: Path, lines: Path) -> nsysconv.ShownReport:
    with nsysconv.open(path, join=str(lines)) as profile:
        return profile.report("cpu_lines")


def found(path: Path, lines: Path) -> dict[int, tuple[Any, ...]]:
    columns = ("device_sum_ns", "operators", "named_by")
    return {row["line"]: tuple(row[c] for c in columns) for row in report(path, lines).rows()}


BOTH = "aten::mm, aten::add_"
NONE = (None, None, None)


@pytest.mark.parametrize(("stacks", "inclusive", "exclusive"), [
    (RUNNING, {5: (30, "aten::mm", "line"), 12: (30, "aten::mm", "line"), 13: (10, "aten::add_", "line")},
     {5: (30, "aten::mm", "line"), 12: NONE, 13: (10, "aten::add_", "line")}),
    (FIRST, {5: (30, "aten::mm", "function"), 12: (40, BOTH, "function"), 13: (40, BOTH, "function")},
     {5: (30, "aten::mm", "function"), 12: (10, "aten::add_", "function"),
      13: (10, "aten::add_", "function")}),
], ids=["running", "first"])  # fmt: skip
def test_operators_are_at_the_lines_that_their_stacks_name(
    stacks: tuple[str, str], inclusive: dict[int, Any], exclusive: dict[int, Any], tmp_path: Path
) -> None:
    path = timeline(tmp_path, stacks)
    assert found(path, printed(tmp_path)) == inclusive
    assert found(path, sampled(tmp_path)) == exclusive
    assert found(path, sampled(tmp_path, decorated=1)) == exclusive
    assert not report(path, printed(tmp_path)).notes


def test_a_pickle_of_line_profiler_is_joined_too(tmp_path: Path) -> None:
    path = FIXTURES / "line_profiler" / "training.lprof"
    stacks = ("pkg/train.py(5): step;pkg/train.py(13): train;", "pkg/train.py(12): train;")
    shown = found(timeline(tmp_path, stacks), path)
    assert shown == {5: (30, "aten::mm", "line"), 13: (30, "aten::mm", "line"),
                     12: (10, "aten::add_", "line"), 4: NONE, 11: NONE}  # fmt: skip


def test_python_functions_of_a_trace_are_stacks(tmp_path: Path) -> None:
    """In place and in a store. The 5 us of `main` itself are of no operator."""
    path, lines = trace(tmp_path), sampled(tmp_path)
    of_main = (15_000, "aten::add_, [no operator]", "function")
    expected = {5: (30_000, "aten::mm", "function"), 12: of_main, 13: of_main}
    assert found(path, lines) == expected
    store = tmp_path / "both.db"
    nsysconv.import_files([path, lines], store, join=True)
    (stored,) = nsysconv.report_on(store, "cpu_lines")
    assert stored.by_column()[-3:] == report(path, lines).by_column()[-3:]
    assert {row["device_sum_ns"] for row in stored.rows()} == {30_000, 15_000}
    command = ("report", path.name, lines.name, "--join", "cpu_lines")
    assert "aten::mm" in run(*command, cwd=tmp_path).out
    run(path.name, lines.name, "--join", "-o", "page.html", cwd=tmp_path)
    assert "aten::add_, [no operator]" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_timeline_without_stacks_has_a_note_with_what_records_them(tmp_path: Path) -> None:
    shown = report(timeline(tmp_path, (None, None)), printed(tmp_path))
    (note,) = shown.notes
    assert note.slug == "lines-without-stacks"
    assert "`with_stack=True`" in note.text
    assert len(shown.rows()) == 3


def test_lines_of_another_program_have_a_note(tmp_path: Path) -> None:
    other = printed(tmp_path, [("/home/me/other.py", 10, "main", 12)])
    (note,) = report(timeline(tmp_path, RUNNING), other).notes
    assert (note.slug, note.count) == ("lines-not-in-stacks", 1)


def test_a_line_of_another_function_is_not_named(tmp_path: Path) -> None:
    """Another file may have the same name; comprehensions are lines of the function around them."""
    path = timeline(
        tmp_path, ("train.py(12): <listcomp>;train.py(13): main;", "train.py(5): other;")
    )
    lines = [(TRAIN, 10, "main", 12), (TRAIN, 3, "main", 5)]
    assert found(path, printed(tmp_path, lines)) == {12: (30, "aten::mm", "line"), 5: NONE}


def test_recordings_of_lines_are_joined_to_a_timeline_alone(tmp_path: Path) -> None:
    path, lines, others = timeline(tmp_path, FIRST), printed(tmp_path), sampled(tmp_path)
    for where, joined, words in (
        (path, [lines, others], "several recordings"), (lines, [others], "no timeline"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            nsysconv.report_on(where, "cpu_lines", join=[str(each) for each in joined])
    both = tmp_path / "log.txt"
    both.write_text(2 * lines.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(InputError, match="several recordings"):
        report(path, both)


FILES = [
    # Files of stacks, files of lines, which are the same.
    ({"pkg/model.py"}, {"model.py"}, {"pkg/model.py": "model.py"}),
    ({"model.py"}, {"job/pkg/model.py"}, {"model.py": "job/pkg/model.py"}),
    ({"a/model.py", "b/model.py"}, {"model.py"}, {}),
    ({"a/model.py", "model.py"}, {"model.py"}, {"model.py": "model.py"}),
    ({"job/a/model.py", "b/model.py"}, {"a/model.py"}, {"job/a/model.py": "a/model.py"}),
    ({"c/a/model.py"}, {"model.py", "a/model.py"}, {"c/a/model.py": "a/model.py"}),
    ({"a/model.py"}, {"b/model.py"}, {}),
    ({"a_model.py"}, {"model.py"}, {}),
    ({"./pkg\\model.py"}, {"pkg/model.py"}, {"./pkg\\model.py": "pkg/model.py"}),
]  # fmt: skip


@pytest.mark.parametrize(("files", "others", "expected"), FILES)
def test_files_with_the_same_end_of_their_paths_are_the_same(
    files: set[str], others: set[str], expected: dict[str, str]
) -> None:
    assert same_files(files, others) == expected
    assert same_files(others, files) == {other: file for file, other in expected.items()}


_PATHS = st.sets(st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join), max_size=5)


@examples(150)
@given(_PATHS, _PATHS)
def test_no_file_is_the_same_as_two(files: set[str], others: set[str]) -> None:
    same = same_files(files, others)
    assert len(set(same.values())) == len(same)
    assert files & others == {file for file in same if same[file] == file}


@real
@pytest.mark.parametrize(("name", "by", "file", "first", "function", "line"), few([
    ("kineto/IBM+kineto-spyre__worker0.1623212756351.pt.trace.json.gz", "operators:by=stack",
     "/x/resnet50_profiler_api.py", 1, "<module>", 46),
    ("kineto/AMD-AGI+TraceLens__eager_trace.json.gz", "operators:by=stack:functions",
     "/x/site-packages/vllm/model_executor/layers/utils.py", 99, "default_unquantized_gemm", 105),
], 1))  # fmt: skip
def test_real_traces_have_what_their_stacks_add_up_to(
    name: str, by: str, file: str, first: int, function: str, line: int, tmp_path: Path
) -> None:
    path = REAL / name
    shown = found(path, printed(tmp_path, [(file, first, function, line)]))[line]
    entry = f"{file.split('/')[-1]}({first if shown[2] == 'function' else line}): {function}"
    (rows,) = nsysconv.report_on(path, by, limit=0)
    of_line = [row["device_self_sum_ns"] for row in rows.rows() if entry in (row["stack"] or "")]
    assert shown[0] == sum(of_line) > 0
