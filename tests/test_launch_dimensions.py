"""Places in a parallel program: from names of files and processes, and from groups of ranks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from small_store import Kernel, opened

from nsysconv import api
from nsysconv.launch import dimensions_in, dimensions_of_groups


@pytest.mark.parametrize(("name", "expected"), [
    ("1725000000.5-TP-3.trace.json.gz", "TP3"),
    ("run-TP-1-DP-2-PP-0-EP-7.trace.json.gz", "TP1 PP0 DP2 EP7"),
    ("dp0_pp1_tp3_dcp0_ep2_rank11.pt.trace.json.gz", "TP3 PP1 DP0 EP2"),
    ("VLLM::Worker_DP0_TP1_EP1", "TP1 DP0 EP1"),
    ("sglang::scheduler_TP0", "TP0"),
    ("prefill_tp2.nsys-rep", "TP2 prefill"),
    ("decode.sqlite", "decode"),
    ("http2.sqlite", None), ("report1.nsys-rep", None), ("model_ep10.json", None),
    ("tp0_and_tp1.json", None), ("prefill_decode.json", None), ("decoder.json", None),
    ("backup3.json", None),
])  # fmt: skip
def test_what_a_name_says(name: str, expected: str | None) -> None:
    assert dimensions_in(name) == expected


GROUPS = {"default_pg": [0, 1, 2, 3], "TENSOR_MODEL_PARALLEL_GROUP": [2, 3], "mesh_dp": [1, 3],
          "TENSOR_AND_DATA_PARALLEL_GROUP": [0, 1, 2, 3],
          "EXPERT_MODEL_PARALLEL_GROUP": [0, 1]}  # fmt: skip


def test_a_rank_is_at_its_place_in_the_groups_that_hold_it() -> None:
    """Rank 3 is the second of its tensor group and of its data group, and in no expert group."""
    assert dimensions_of_groups(GROUPS, 3) == "TP1 DP1"
    assert dimensions_of_groups(GROUPS, 9) is None
    assert dimensions_of_groups({}, None) is None


def test_reports_show_them(tmp_path: Path) -> None:
    """Of a trace by its groups, which count more than its name."""
    groups = [{"pg_name": "1", "pg_desc": "tp", "ranks": [4, 5]}, {"pg_name": "2", "ranks": "x"}, 7]
    trace: dict[str, Any] = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": 5, "world_size": 8, "pg_config": groups},
        "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 5,
                         "args": {"device": 0, "stream": 7, "correlation": 1}},
                        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
                         "ts": 1, "dur": 2, "args": {"correlation": 1}}],
    }  # fmt: skip
    path = tmp_path / "run-TP-0-DP-3.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    for wanted in ("TP1", "TP0 DP3"):
        with api.open(path) as profile:
            for report in ("processes", "rank_summary"):
                rows = profile.report(report).rows()
                assert [row["dimensions"] for row in rows if row["pid"] == 9] == [wanted], report
        trace["distributedInfo"].pop("pg_config", None)
        path.write_bytes(gzip.compress(json.dumps(trace).encode()))


def test_a_process_is_called_by_its_place() -> None:
    with opened(Kernel(0, 10), processes={1: {"name": "VLLM::Worker_TP1"}}) as profile:
        assert [row["dimensions"] for row in profile.report("processes").rows()] == ["TP1"]
