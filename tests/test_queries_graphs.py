"""Graphs: replays, their nodes and what runs outside; by hand, by a slow version, and in real files."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from conftest import REAL, examples, few, import_file, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Graph, GraphNode, Kernel, Memcpy, Operator, Range, answers, picked

import nsysconv
from nsysconv.api.exporting import export_profiles

Row = dict[str, Any]
# Graph 2: its nodes bear its number in the upper half of theirs.
A, B, C = (2 << 32, (2 << 32) + 1, (2 << 32) + 2)


def launch(start: int, end: int, correlation: int, pid: int = 1) -> Call:
    return Call(start, end, correlation, name="cudaGraphLaunch", pid=pid)


def node(start: int, end: int, correlation: int, number: int | None, name: str, **more: Any) -> Kernel:
    return Kernel(start, end, correlation, name=name, node=number, **more)


# docs/definitions/launches.md, Graphs: three replays, of which the last lacks `b`, and a kernel outside.
EXAMPLE = (
    launch(0, 10, 1), node(20, 30, 1, A, "a"), node(30, 60, 1, B, "b"),
    launch(100, 106, 2), node(110, 120, 2, A, "a"), node(125, 157, 2, B, "b"),
    launch(200, 208, 3), node(210, 221, 3, A, "a"),
    Call(290, 295, 4), Kernel(300, 307, 4, name="c", node=0),
)  # fmt: skip


def test_the_example_of_the_documentation() -> None:
    graph, outside = answers("graphs", *EXAMPLE)
    assert picked(graph, "graph", "pid", "device_id", "replay_count", "node_count", "recorded") == (
        "graph 2", 1, 0, 3, 2, "node")  # fmt: skip
    # Replays take 60 - 20 = 40, 157 - 110 = 47 and 221 - 210 = 11; calls 10, 6 and 8.
    assert picked(graph, "replay_med_ns", "replay_p99_ns", "launch_med_ns") == (40.0, 47, 8.0)
    # 10 + 30, 10 + 32 and 11 are 93 of 100.
    assert picked(graph, "gpu_op_count", "gpu_op_sum_ns", "per_replay_ns") == (5, 93, 31.0)
    assert picked(graph, "incomplete_replay_count", "missing_op_count") == (1, 1)
    assert graph["gpu_op_pct"] == pytest.approx(93.0)
    assert {name: value for name, value in outside.items() if value is not None} == {
        "profile": "small", "graph": "[outside graphs]", "gpu_op_count": 1, "gpu_op_sum_ns": 7,
        "gpu_op_pct": pytest.approx(7.0)}  # fmt: skip


def test_its_kernels() -> None:
    b, a = answers("graphs:by=kernel", *EXAMPLE)
    assert picked(b, "graph", "name", "gpu_op_count", "gpu_op_sum_ns", "missing_op_count") == (
        "graph 2", "b", 2, 62, 1)  # fmt: skip
    assert picked(a, "name", "gpu_op_count", "gpu_op_sum_ns", "missing_op_count") == ("a", 3, 31, 0)
    assert (a["per_replay_count"], b["per_replay_count"]) == (1.0, pytest.approx(2 / 3))
    assert b["per_replay_ns"] == pytest.approx(62 / 3)
    assert [row["graph_pct"] for row in (a, b)] == pytest.approx([100 * 31 / 93, 100 * 62 / 93])
    assert a["captured_in"] is None


def test_a_slice_has_the_replays_that_begin_in_it() -> None:
    early = [Kernel(number, number + 1, 9, name="early", node=0) for number in range(3)]
    graph, outside = answers("graphs", *early, *EXAMPLE, time=(121, 305))
    # The first operation of the second ended before it. The third lacks what another of the profile has.
    assert picked(graph, "replay_count", "gpu_op_sum_ns", "missing_op_count", "launch_med_ns") == (
        1, 11, 1, 8.0)  # fmt: skip
    assert outside["gpu_op_sum_ns"] == 7
    assert [row["name"] for row in answers("graphs:by=kernel", *EXAMPLE, time=(121, 305))] == ["a", "b"]
    assert picked(answers("graphs:by=kernel", *EXAMPLE, time=(121, 305))[1], "gpu_op_count",
                  "missing_op_count") == (0, 1)  # fmt: skip
    assert answers("graphs", *EXAMPLE, time=(250, 400)) == []
    other = launch(400, 405, 8), node(410, 420, 8, 3 << 32, "d")
    assert [row["graph"] for row in answers("graphs:by=kernel", *EXAMPLE, *other, time=(390, 500))] == [
        "graph 3"]  # fmt: skip


def test_without_numbers_graphs_differ_by_their_kernels_and_grids() -> None:
    small, large = (1, 1, 1), (8, 1, 1)
    rows = answers("graphs",
        launch(0, 5, 1), node(10, 20, 1, None, "a", grid=small), node(20, 40, 1, None, "b", grid=small),
        launch(50, 55, 2), node(60, 90, 2, None, "a", grid=large), node(90, 99, 2, None, "b", grid=small),
        # The same kernels in another order are the same graph.
        launch(100, 105, 3), node(110, 120, 3, None, "b", grid=small),
        node(120, 140, 3, None, "a", grid=small))  # fmt: skip
    assert [picked(row, "graph", "replay_count", "gpu_op_sum_ns") for row in rows] == [
        ("2 nodes from a", 2, 60), ("2 nodes from a", 1, 39), ("[outside graphs]", None, 0)]  # fmt: skip


def test_graphs_of_two_processes_and_of_two_devices() -> None:
    rows = answers("graphs", launch(0, 5, 1), node(10, 20, 1, A, "a"), node(12, 22, 1, B, "b", device=1),
                   launch(0, 5, 1, pid=2), node(10, 15, 1, A, "a", pid=2),
                   ranks={1: 0, 2: 1})  # fmt: skip
    assert [picked(row, "rank", "pid", "device_id", "graph", "replay_med_ns") for row in rows[:2]] == [
        (0, 1, None, "graph 2", 12.0), (1, 2, 0, "graph 2", 5.0)]  # fmt: skip


def test_what_runs_outside_has_the_rank_of_its_only_process() -> None:
    assert answers("graphs", *EXAMPLE, ranks={1: 3})[-1]["rank"] == 3
    two = answers("graphs", *EXAMPLE, Kernel(400, 405, 9, pid=2), ranks={1: 3, 2: 4})
    assert [row["rank"] for row in two] == [3, None]


def test_nodes_whose_launch_is_not_recorded_share_its_correlation_id() -> None:
    nodes = node(10, 20, 1, A, "a"), node(20, 30, 1, B, "b"), node(50, 60, 2, A, "a")
    (graph, _) = answers("graphs", *nodes)
    assert picked(graph, "replay_count", "replay_p99_ns", "launch_med_ns") == (2, 20, None)


def test_copies_are_nodes_and_what_has_no_time_counts() -> None:
    events = (launch(0, 5, 1), node(10, 20, 1, A, "a"), Memcpy(20, 24, 1, node=B),
              Kernel(None, None, 1, name="c", node=C))  # fmt: skip
    (graph, _) = answers("graphs", *events)
    assert picked(graph, "node_count", "replay_med_ns", "gpu_op_sum_ns") == (3, 14.0, 14)
    assert [row["name"] for row in answers("graphs:by=kernel", *events)] == ["a", "[memcpy HtoD]", "c"]


def test_a_graph_recorded_as_one_interval() -> None:
    events = (launch(0, 5, 1), Graph(10, 30, 1, graph=7), Graph(40, 70, 0, graph=7), Kernel(80, 90, 2))
    (graph, outside) = answers("graphs", *events)
    assert picked(graph, "graph", "recorded", "replay_count", "replay_med_ns", "launch_med_ns") == (
        "graph 7", "graph", 2, 25.0, 5.0)  # fmt: skip
    assert picked(graph, "node_count", "incomplete_replay_count", "missing_op_count") == (None,) * 3
    assert (graph["gpu_op_sum_ns"], outside["gpu_op_sum_ns"]) == (50, 10)
    (row,) = answers("graphs:by=kernel", *events)
    assert picked(row, "name", "per_replay_count", "missing_op_count") == ("[graph launch]", 1.0, None)


def test_no_rows_where_no_graph_ran() -> None:
    assert answers("graphs", Call(0, 5, 1), Kernel(10, 20, 1)) == []
    assert answers("graphs:by=kernel", Call(0, 5, 1), Kernel(10, 20, 1)) == []


def test_in_what_a_node_was_captured() -> None:
    original, again = (1 << 32) + 5, (9 << 32) + 5
    rows = answers("graphs:by=kernel",
        Range(0, 100, "layer"), Operator(10, 20, "aten::mm"),
        # `b` was made in the operator and cloned twice, `c` in the range alone.
        GraphNode(15, original), GraphNode(150, again, original), GraphNode(160, B, again),
        # `a` in the operator, too: what the program called it counts. `d` was made outside of all.
        GraphNode(30, C), GraphNode(12, A), GraphNode(130, C + 1),
        launch(200, 205, 1), node(210, 250, 1, A, "a", annotation="layers.0.mlp"),
        node(250, 280, 1, B, "b"), node(280, 300, 1, C, "c"), node(300, 310, 1, C + 1, "d"))  # fmt: skip
    assert [picked(row, "name", "captured_in") for row in rows] == [
        ("a", "layers.0.mlp"), ("b", "aten::mm"), ("c", "layer"), ("d", None)]  # fmt: skip


def test_an_annotation_and_an_operator_of_one_name_are_one() -> None:
    (row,) = answers("graphs:by=kernel", Operator(0, 100, "mlp"), GraphNode(15, B), launch(200, 205, 1),
                     node(210, 250, 1, A, "a", annotation="mlp"), node(250, 280, 1, B, "a"))  # fmt: skip
    assert picked(row, "captured_in", "gpu_op_count") == ("mlp", 2)


NODE = st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9))
NODES = st.lists(NODE, min_size=1, max_size=4, unique_by=lambda each: each[0])
REPLAY = st.tuples(st.integers(1, 2), st.sampled_from([None, 2, 3]), st.booleans(), NODES)


@examples(150)
@given(st.lists(REPLAY, min_size=1, max_size=8))
def test_a_slow_version_agrees(planted: list[Any]) -> None:
    """Replays by process, graph (None: no number), whether their call is recorded, and kernels."""
    events: list[Any] = [Kernel(5000, 5001, 999)]
    replays: dict[Any, list[tuple[int, int, int, int | None]]] = defaultdict(list)
    for place, (pid, graph, has_call, kernels) in enumerate(planted):
        begin, has_call = 100 * place + 10, has_call or graph is None
        if has_call:
            events.append(launch(begin, begin + 1 + place % 3, place + 1, pid))
        times = [(begin + 2 + gap, begin + 3 + gap + dur) for _, gap, dur in kernels]
        events += [node(start, end, place + 1, graph and (graph << 32) + number, f"k{number}", pid=pid)
                   for (number, _, _), (start, end) in zip(kernels, times, strict=True)]  # fmt: skip
        alike = graph or tuple(sorted(number for number, _, _ in kernels))
        replays[pid, alike].append(
            (max(end for _, end in times) - min(start for start, _ in times),
             sum(end - start for start, end in times), len(kernels),
             1 + place % 3 if has_call else None))  # fmt: skip
    expected = []
    for each in replays.values():
        lasted, spent, sizes, calls = zip(*each, strict=True)
        known, most = [call for call in calls if call is not None], max(sizes)
        expected.append((len(each), most, median(lasted), max(lasted), sum(spent),
                         median(known) if known else None, sum(size < most for size in sizes),
                         sum(most - size for size in sizes)))  # fmt: skip
    columns = ("replay_count", "node_count", "replay_med_ns", "replay_p99_ns", "gpu_op_sum_ns",
               "launch_med_ns", "incomplete_replay_count", "missing_op_count")  # fmt: skip
    *rows, outside = answers("graphs", *events)
    assert sorted((picked(row, *columns) for row in rows), key=repr) == sorted(expected, key=repr)
    assert outside["gpu_op_sum_ns"] == 1
    by_kernel = answers("graphs:by=kernel", *events)
    assert sum(row["gpu_op_sum_ns"] for row in by_kernel) == sum(row["gpu_op_sum_ns"] for row in rows)


# -- annotations of PyTorch


def annotated(path: Path) -> Path:
    """A trace with two annotated nodes of a graph, and a kernel outside with an argument of that name."""
    def kernel(ts: int, correlation: int, **args: Any) -> Row:
        return {"ph": "X", "cat": "kernel", "name": f"k{ts}", "pid": 0, "tid": 7, "ts": ts, "dur": 5,
                "args": {"device": 0, "stream": 7, "correlation": correlation, **args}}  # fmt: skip

    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 5, "tid": 5, "ts": 1,
         "dur": 2, "args": {"correlation": 3}},
        kernel(10, 3, **{"graph node id": A, "name": "qkv_proj", "module_fqn": "layers.0.wq"}),
        kernel(20, 3, **{"graph node id": B, "name": "softmax"}),
        {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 30,
         "dur": 1, "args": {"device": 0, "stream": 7, "correlation": 3, "bytes": 4, "graph node id": C,
                  "name": "zero"}},
        kernel(40, 4, **{"graph node id": 0, "name": "secret"}),
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def test_annotations_of_nodes_are_imported_and_written_again(tmp_path: Path) -> None:
    trace = annotated(tmp_path / "trace.json")
    expected = {("k10", "layers.0.wq"), ("k20", "softmax"), ("[memset]", "zero")}
    store = tmp_path / "job.db"
    import_file(trace, store)
    (report,) = nsysconv.report_on(store, "graphs:by=kernel")
    assert {(row["name"], row["captured_in"]) for row in report.rows()} == expected
    assert b"secret" not in store.read_bytes()
    # Exported and read again, they are the same.
    export_profiles(store, "chrome", tmp_path / "again.json")
    (report,) = nsysconv.report_on(tmp_path / "again.json", "graphs:by=kernel")
    assert {(row["name"], row["captured_in"]) for row in report.rows()} == expected


# -- real files; expected values were computed from the raw JSON or with plain SQL


LABELS: dict[str, list[tuple[Any, ...]]] = {
    # replays, nodes, median and longest time, GPU time, median of the calls
    "kineto/luatil+torch-profile__trace_06.json": [
        (5, 155, 108_440_946, 110_316_098, 542_387_363, 165_566),
        (5, 69, 52_738_253, 53_441_875, 262_392_058, 77_417),
        (None, None, None, None, 43_609_414, None),
    ],
    "kineto/AMD-AGI+TraceLens__sglang_Qwen3-8B_decode.json.gz": [
        (1, 544, 9_930_636, 9_930_636, 9_656_404, 1_572_609),
        (None, None, None, None, 122_210, None),
    ],
    "nsys_sqlite/morluto+flameox__nsight-2025.5.2.sqlite": [
        (2, None, 1552, 1728, 3104, 9611),
        (None, None, None, None, 4704, None),
    ],
    "nsys_rep/NVIDIA+JAX-Toolbox__pdl_two_producers_514899.nsys-rep": [
        (25, 3, 49_440, 52_480, 2_164_608, 4352),
        (None, None, None, None, 1_832_704, None),
    ],
    "nsys_rep/NVIDIA+JAX-Toolbox__nsys_report_benchmark_3e2878.nsys-rep": [
        (1000, None, 3040, 3072, 3_029_632, 2176),
        (None, None, None, None, 5_107_776, None),
    ],
    "nsys_rep/gametekker+mamba_versions__report3_38a63c.nsys-rep": [
        (394, None, 13_379_334.5, 13_391_751, 5_271_564_585, 11_976_234.5),
        (None, None, None, None, 5_110_963_276, None),
    ],
}  # fmt: skip
LABELED = ("replay_count", "node_count", "replay_med_ns", "replay_p99_ns", "gpu_op_sum_ns",
           "launch_med_ns")  # fmt: skip


@real
@pytest.mark.parametrize("path", few(LABELS, 2), ids=lambda name: name[-30:])
def test_replays_of_real_files(path: str) -> None:
    (report,) = nsysconv.report_on(REAL / path, "graphs")
    assert [picked(row, *LABELED) for row in report.rows()] == LABELS[path]
    advised = [note.text for note in report.notes if note.slug == "graphs-without-nodes"]
    assert len(advised) == (report.rows()[0]["recorded"] == "graph")
    assert all("--cuda-graph-trace=node" in text for text in advised)


@real
def test_kernels_of_a_real_graph() -> None:
    """Nodes with numbers: two producers and their consumer in each of 25 replays."""
    path = "nsys_rep/NVIDIA+JAX-Toolbox__pdl_two_producers_514899.nsys-rep"
    (report,) = nsysconv.report_on(REAL / path, "graphs:by=kernel")
    found = [(row["name"].partition("(")[0], *picked(row, *LABELED[4:5], "gpu_op_count"))
             for row in report.rows()]  # fmt: skip
    assert found == [("producer1Kernel", 1_069_792, 25), ("producer2Kernel", 1_008_160, 25),
                     ("consumerKernel", 86_656, 25)]  # fmt: skip
