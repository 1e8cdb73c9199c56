"""Names: an API symbol's documented form, a kernel's short form, control characters made visible."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine import APPLY, REDUCE, SAXPY, STENCIL, TRITON

from nsysconv.names import (
    drop_clauses,
    escaped,
    plain_api_name,
    shorten,
    shorten_kernel,
    shorten_name,
)

API_NAMES = tomllib.loads(Path(__file__).with_name("api_names.toml").read_text(encoding="utf-8"))
PLAIN: dict[str, str] = API_NAMES["plain"]


@pytest.mark.parametrize("symbol", PLAIN)
def test_api_symbols_lose_version_suffixes(symbol: str) -> None:
    assert plain_api_name(symbol) == PLAIN[symbol]


@given(st.text(alphabet="cudaCuLx_v0123ptsz", max_size=30))
def test_a_plain_name_is_a_prefix_and_stays_plain(symbol: str) -> None:
    plain = plain_api_name(symbol)
    assert symbol.startswith(plain)
    assert bool(plain) == bool(symbol)


# (name, width, short form): what goes first is the parameter list, then the return type, then
# namespaces; the template's arguments and the middle of the name come last.
SHORT = [
    (REDUCE.demangled, 60, REDUCE.demangled),
    (REDUCE.demangled, 55, "void reduce_sum<double>"),
    (REDUCE.demangled, 22, "reduce_sum<double>"),
    (REDUCE.demangled, 18, "reduce_sum<double>"),
    (SAXPY.demangled, 30, "saxpy<float, 4>"),
    (SAXPY.demangled, 20, "saxpy<float, 4>"),
    (APPLY.demangled, 50, "void apply<main::[lambda(int) (instance 1)]>"),
    (APPLY.demangled, 40, "apply<main::[lambda(int) (instance 1)]>"),
    (STENCIL.demangled, 7, "stencil"),
    ("at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int, int)", 75,
     "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>"),
    ("at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int, int)", 70,
     "vectorized_elementwise_kernel<4, FillFunctor<int>>"),
    ("operator()(int)", 12, "operator()"),
    ("f(void (*)(int))", 15, "f"),
    ("void add<float>(float*, int) [clone .kd]", 30, "void add<float>(float*, int)"),
    ("void add<float>(float*, int) [clone .kd]", 20, "void add<float>"),
    ("void add<float>(float*, int) (.kd)", 12, "add<float>"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "width", "short"), SHORT)
def test_kernels_are_shortened_step_by_step(name: str, width: int, short: str) -> None:
    assert shorten_kernel(name, width) == short


@pytest.mark.parametrize(("name", "head"), [
    (REDUCE.demangled, "reduce_sum<"), (SAXPY.demangled, "saxpy<"), (APPLY.demangled, "apply<"),
])  # fmt: skip
def test_arguments_are_shortened_after_all_else(name: str, head: str) -> None:
    """The function's own name stays whole as long as there is room for it."""
    for width in range(len(head) + 2, 60):
        short = shorten_kernel(name, width)
        assert head in short
        assert len(short) <= width


@pytest.mark.parametrize("name", [STENCIL.demangled, TRITON.demangled])
def test_names_without_parts_lose_their_middle(name: str) -> None:
    for width in range(3, len(name)):
        assert len(shorten_kernel(name, width)) == width
        assert shorten_kernel(name, width)[0] == name[0]
        assert shorten_kernel(name, width)[-1] == name[-1]


kernel_like = st.text(alphabet="abT <>(),:*&[]{}~0_\N{HORIZONTAL ELLIPSIS}", max_size=60)


@given(st.one_of(st.text(max_size=80), kernel_like), st.integers(0, 90))
def test_a_shortened_name_fits_the_width(name: str, width: int) -> None:
    assert len(shorten_kernel(name, width)) <= width
    assert len(shorten(name, width)) <= width


@given(st.one_of(st.text(max_size=80), kernel_like))
def test_a_name_that_fits_is_unchanged(name: str) -> None:
    assert shorten_kernel(name, len(name)) == name
    assert shorten(name, len(name)) == name


def test_of_what_replaces_what_both_are_named() -> None:
    text = f"void {'a' * 50}<int>(float) → void {'b' * 50}<int>(float) and 3 more"
    assert shorten_name(text, 200) == text
    shown = shorten_name(text, 60)
    before, after = shown.split(" → ")
    assert len(shown) <= 60
    assert (before[0], after[0], after[-10:]) == ("a", "b", "and 3 more")
    assert "more" not in shorten_name(text, 30)


@given(st.text(min_size=4, max_size=80), st.integers(3, 80))
def test_shortening_keeps_both_ends(text: str, width: int) -> None:
    short = shorten(text, width)
    assert (short[0], short[-1]) == (text[0], text[-1])
    assert ("…" in short) or short == text


@pytest.mark.parametrize(("text", "shown"), [
    ("plain", "plain"), ("日本 ü", "日本 ü"), ("a\x1b[31mred", "a\\x1b[31mred"),
    ("two\nlines\t", "two\\nlines\\t"), ("bell\a\0", "bell\\x07\\x00"),
    ("right-to-left \N{RIGHT-TO-LEFT OVERRIDE}", "right-to-left \\u202e"),
    ("half \ud800", "half \\ud800"),
])  # fmt: skip
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_a_name_as_long_as_a_file_is_shortened_by_its_ends() -> None:
    name = "void kernel<" + "float, " * 1_000_000 + "int>(float*)"
    begun = time.process_time()
    short = {shorten_kernel(name, 60) for _ in range(20)}
    assert time.process_time() - begun < 2
    assert short == {"kernel<float, float, float, float, float,…float, float, int>"}


@pytest.mark.parametrize(
    ("width", "short"),
    [
        (99, "lost: 15 of 20 A; 3 of 4 B; 2 of 5 C (20 of 29, first at a:1)"),
        (60, "lost: 15 of 20 A; 3 of 4 B (20 of 29, first at a:1)"),
        (50, "lost: 15 of 20 A (20 of 29, first at a:1)"),
        (20, "lost: 15 of 20 A; 3 of 4 B; 2 of 5 C (20 of 29, first at a:1)"),
    ],
)
def test_a_sentence_loses_whole_clauses(width: int, short: str) -> None:
    """What is in brackets at its end counts all of them; where even the first is too long, all stay."""
    text = "lost: 15 of 20 A; 3 of 4 B; 2 of 5 C (20 of 29, first at a:1)"
    assert drop_clauses(text, width) == short
