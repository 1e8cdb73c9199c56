"""Names of outputs: completed so that ranks cannot clash, read as the profilers read them."""

from __future__ import annotations

import pytest

from nsysconv import launch
from nsysconv.capture import patterns
from nsysconv.capture.patterns import complete_pattern, expand_pattern, split_folder
from nsysconv.errors import CaptureError
from nsysconv.launch import Launch

RANK_3 = Launch(rank=3, local_rank=1, world_size=8, node=1, job="slurm 1234.0")
NSYS = (".nsys-rep", ".qdrep")


@pytest.mark.parametrize(
    ("pattern", "place", "name"),
    [
        ("train", RANK_3, "train.1234.0.rank3"),
        ("train.nsys-rep", RANK_3, "train.1234.0.rank3.nsys-rep"),
        ("train.v2", RANK_3, "train.v2.1234.0.rank3"),
        ("train", Launch(rank=3), "train.rank3"),
        ("train", Launch(rank=3, job="lsf 5[2]"), "train.5_2.rank3"),
        ("train", Launch(job="slurm 1234_7"), "train.1234_7"),
        ("train", Launch(local_rank=1), "train.node.local1"),
        ("train", Launch(), "train"),
        # The rank is told, or a process on a host.
        ("train.%q{SLURM_PROCID}", RANK_3, "train.%q{SLURM_PROCID}"),
        ("train.%q{OMPI_COMM_WORLD_RANK}", RANK_3, "train.%q{OMPI_COMM_WORLD_RANK}"),
        ("train.%h.%p", RANK_3, "train.%h.%p"),
        ("train.%h.%q{SLURM_LOCALID}", RANK_3, "train.%h.%q{SLURM_LOCALID}"),
        # Several hosts can have the same process numbers, and every host has several ranks.
        ("train.%p", RANK_3, "train.%p.1234.0.rank3"),
        ("train.%h", RANK_3, "train.%h.1234.0.rank3"),
        ("train.%q{SLURM_LOCALID}", RANK_3, "train.%q{SLURM_LOCALID}.1234.0.rank3"),
        ("train.%q{SLURM_JOB_ID}", RANK_3, "train.%q{SLURM_JOB_ID}.rank3"),
        ("train.%q{SLURM_JOB_ID}", Launch(job="slurm 1"), "train.%q{SLURM_JOB_ID}"),
        ("100%%", RANK_3, "100%%.1234.0.rank3"),
        ("%%q{SLURM_PROCID}", RANK_3, "%%q{SLURM_PROCID}.1234.0.rank3"),
    ],
)
def test_names_are_completed(pattern: str, place: Launch, name: str) -> None:
    assert complete_pattern(pattern, NSYS, place, "node") == name


def test_a_folder_is_read_as_the_profiler_reads_it() -> None:
    environment = {"RUN": "a b", "EMPTY": ""}
    assert expand_pattern("out/%q{RUN}%q{EMPTY}/%h/%%p", environment, "node1") == "out/a b/node1/%p"
    with pytest.raises(CaptureError, match="MISSING is not set"):
        expand_pattern("out/%q{MISSING}", environment, "node1")
    with pytest.raises(CaptureError, match="%p in the folder"):
        expand_pattern("out/%p", environment, "node1")


def test_folder_and_name() -> None:
    assert split_folder("a") == (".", "a")
    assert split_folder("/a/b c/d") == ("/a/b c", "d")
    for wrong in ("", "a/", "/"):
        with pytest.raises(CaptureError, match="a folder"):
            split_folder(wrong)


def test_variables_that_tell_ranks_apart_are_those_of_launchers() -> None:
    told = (patterns.RANK_VARIABLES, patterns.LOCAL_RANK_VARIABLES, patterns.NODE_VARIABLES)
    for names in told:
        assert names <= launch.VARIABLES
    # A launcher that is new there has to be sorted in here.
    sizes = {
        name
        for name in launch.VARIABLES
        if name.endswith(("SIZE", "NTASKS", "NUM_TASKS", "NRANKS"))
    }
    others = {"TORCHELASTIC_RUN_ID", "SLURM_STEP_ID", "SLURM_ARRAY_JOB_ID", "LSB_JOBINDEX"}
    assert launch.VARIABLES - sizes - others == frozenset().union(*told) | (
        patterns.JOB_VARIABLES & launch.VARIABLES
    )
