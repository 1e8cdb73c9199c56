"""Which ranks are profiled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.capture.session import parse_rank_filter
from nsysconv.errors import CaptureError
from nsysconv.launch import Launch

# Eight nodes of four ranks.
RANKS = [Launch(rank=r, local_rank=r % 4, node=r // 4) for r in range(32)]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (None, list(range(32))),
        ("all", list(range(32))),
        ("0", [0]),
        ("0,8,16-18", [0, 8, 16, 17, 18]),
        ("rank3, 5", [3, 5]),
        ("%8", [0, 8, 16, 24]),
        ("local0", [0, 4, 8, 12, 16, 20, 24, 28]),
        ("node1", [4, 5, 6, 7]),
        ("node%4:local0", [0, 16]),
        ("node%4:local0,3", [0, 3, 16]),
        ("node0-1:local2-3", [2, 3, 6, 7]),
        ("9-3", []),
    ],
)
def test_ranks_of_a_choice(text: str | None, chosen: list[int]) -> None:
    assert [launch.rank for launch in RANKS if launch in parse_rank_filter(text)] == chosen


@pytest.mark.parametrize(
    "text", ["", ",", "a", "1,", "1-", "-1", "%0", "%", "local", "node%", "1:", "0x1", "1--2", "１"]
)
def test_what_names_no_ranks_is_refused(text: str) -> None:
    with pytest.raises(CaptureError, match="names no ranks"):
        parse_rank_filter(text)


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("0", Launch(), "rank"),
        ("local0", Launch(rank=0), "local rank"),
        ("0,node%2", Launch(rank=0, local_rank=0), "number of the node"),
    ],
)
def test_what_no_launcher_tells_cannot_be_chosen(text: str, place: Launch, what: str) -> None:
    with pytest.raises(CaptureError, match=f"asks for the {what}, "):
        place in parse_rank_filter(text)  # noqa: B015 - asking is the test


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_list_of_ranks_is_that_set(ranks: set[int]) -> None:
    chosen = parse_rank_filter(",".join(map(str, ranks)))
    assert {r for r in range(50) if Launch(rank=r) in chosen} == ranks
