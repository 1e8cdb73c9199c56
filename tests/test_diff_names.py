"""Keys of kernels' names: one for all spellings of a name, different ones for different names."""

from __future__ import annotations

import sqlite3
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from conftest import REAL, REAL_FILES, few, name_of, real
from hypothesis import assume, example, given
from hypothesis import strategies as st
from machine import APPLY, REDUCE, SAXPY, STENCIL, TRITON

from nsysconv.diff.names import MATCHES, Match, kernel_key
from nsysconv.names import demangler

KEYS: tuple[Match, ...] = ("signature", "name")

SPELLED = Path(__file__).with_name("kernel_names.toml").read_text(encoding="utf-8")
# (names with one key, that key, the key of the function alone): the workloads' kernels, as each tool
# spells them, and others by kinds of spelling.
SAME = [
    ([SAXPY.demangled, SAXPY.itanium,
      "void _GLOBAL__N__5c1d2f0e_8_train_cu_7d2c1a9b::saxpy<float, int=4>(int, float)"],
     "@::saxpy<float,4>", "@::saxpy"),
    ([REDUCE.demangled, REDUCE.itanium], "reduce_sum<double>", "reduce_sum"),
    ([APPLY.demangled, APPLY.itanium, "void apply<main::'lambda'(int)>(main::'lambda'(int), int)",
      "void apply<main::$_0>(main::$_0, int)"], "apply<main::{lambda#1}>", "apply"),
    ([STENCIL.demangled, "stencil(float *, int)", "stencil.kd", " stencil "], "stencil", "stencil"),
    ([TRITON.demangled], "triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    *((each["same"], each["key"], each.get("function", each["key"])) for each in
      tomllib.loads(SPELLED)["names"]),
]  # fmt: skip


@pytest.mark.parametrize(("names", "signature", "function"), SAME)
def test_spellings_of_one_name(names: list[str], signature: str, function: str) -> None:
    assert {name: kernel_key(name, "signature") for name in names} == dict.fromkeys(
        names, signature
    )
    assert {kernel_key(name, "name") for name in names} == {function}


@pytest.mark.parametrize(("one", "other"), [
    ("void f<4>()", "void f<5>()"), ("void f<4>()", "void f<-4>()"), ("f<int>", "g<int>"),
    ("f<float>", "f<float*>"), ("f<int>", "f<unsigned int>"), ("f<true>", "f<false>"),
    ("a::f<int>", "b::f<int>"), ("(anonymous namespace)::f()", "f()"), ("f<A<B>, C>", "f<A<B, C>>"),
    ("f<main::{lambda(int)#1}>", "f<main::{lambda(int)#2}>"), ("f<&g>", "f<&h>"),
    ("f<&(void g<int>())>", "f<&(void g<float>())>"), ("f<int (*)(int)>", "f<int>"),
    ("triton_poi_fused_add_0", "triton_poi_fused_add_1"), ("f<(8)-(1)>", "f<(8)-(2)>"),
    ("k_0d1d", "k_0d1"), ("operator<(A)", "operator>(A)"),
])  # fmt: skip
def test_different_names(one: str, other: str) -> None:
    assert kernel_key(one, "signature") != kernel_key(other, "signature")


@given(st.text("af<>():, \t\u00e4"))
@example("void f<int>(int) ")
def test_exact_is_the_name_itself(name: str) -> None:
    assert kernel_key(name, "exact") == name


def test_the_levels_are_all_there() -> None:
    assert MATCHES == ("exact", "signature", "name")


# Names as trees. What is left out of comparisons is what keys leave out.


@dataclass(frozen=True)
class Plain:
    """A type without arguments, or with: `unsigned int`, `ns::Box<...>`."""

    name: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class Pointer:
    to: Argument
    const: bool = field(compare=False)


@dataclass(frozen=True)
class Callback:
    """A pointer to a function."""

    result: Argument
    parameters: tuple[Argument, ...] = field(compare=False)


@dataclass(frozen=True)
class Number:
    value: int
    kind: str = field(compare=False)


@dataclass(frozen=True)
class Lambda:
    function: Function
    number: int
    parameters: tuple[Argument, ...] = field(compare=False)


Argument = Plain | Pointer | Callback | Number | Lambda


@dataclass(frozen=True)
class Function:
    spaces: tuple[str, ...]
    name: str
    arguments: tuple[Argument, ...]
    parameters: tuple[Argument, ...] = field(compare=False)
    result: str = field(compare=False, default="void")


@dataclass(frozen=True)
class Spelling:
    """How a tool writes the parts of a name."""

    anonymous: str
    number: Callable[[str, int], str]
    pointer: Callable[[str, bool], str]
    closure: str
    call: str
    closing: str
    repeats_types: bool
    local_results: bool

    def argument(self, it: Argument) -> str:
        match it:
            case Plain():
                return it.name + self.arguments(it.arguments)
            case Pointer():
                return self.pointer(self.argument(it.to), it.const)
            case Callback():
                return f"{self.argument(it.result)} (*)({self.all(it.parameters)})"
            case Number():
                return self.number(it.kind, it.value)
            case Lambda():
                written = self.closure.format(self.all(it.parameters), it.number)
                return f"{self.function(it.function, self.local_results)}::{written}"

    def all(self, arguments: tuple[Argument, ...]) -> str:
        return ", ".join(map(self.argument, arguments))

    def arguments(self, arguments: tuple[Argument, ...]) -> str:
        if not arguments:
            return ""
        inside = self.all(arguments)
        return f"<{inside}{self.closing if inside.endswith('>') else '>'}"

    def function(self, it: Function, result: bool = True) -> str:
        parts = [self.anonymous if part == "@" else part for part in it.spaces]
        parts.append(self.call if it.name == "operator()" else it.name)
        returned = ""
        if result and it.arguments:  # Only templates have a return type in their names.
            yes = self.number("bool", 1)
            returned = "void " if it.result == "void" else f"std::enable_if<{yes}, void>::type "
        parameters = self.all(it.parameters)
        if self.repeats_types and it.arguments:
            parameters = "T1, const T1 *" if it.parameters else ""
        return f"{returned}{'::'.join(parts)}{self.arguments(it.arguments)}({parameters})"


def nvidia_pointer(to: str, const: bool) -> str:
    if not const:
        return f"{to} *"
    return f"{to}const *" if to.endswith("*") else f"const {to} *"


SUFFIXES = {"unsigned int": "u", "unsigned long": "ul", "int": ""}


def itanium_number(kind: str, value: int) -> str:
    if kind == "bool":
        return "true" if value else "false"
    return f"{value}{SUFFIXES[kind]}" if kind in SUFFIXES else f"({kind}){value}"


NVIDIA = Spelling(
    anonymous="<unnamed>", number="({}){}".format, pointer=nvidia_pointer, closing=">",
    closure="[lambda({}) (instance {})]", call="operator ()", repeats_types=True, local_results=True,
)  # fmt: skip
CXXFILT = Spelling(
    anonymous="(anonymous namespace)", number=itanium_number, closing=" >",
    pointer=lambda to, const: f"{to}{' const' if const else ''}*",
    closure="{{lambda({})#{}}}", call="operator()", repeats_types=False, local_results=False,
)  # fmt: skip
NVPROF = Spelling(
    anonymous="_GLOBAL__N__69_tmpxft_0000578e_00000000_6_a_cpp1_ii_97ebdcc0", number="{}={}".format,
    pointer=lambda to, const: f"{to} const *" if const else f"{to}*", closing=">",
    closure="[lambda({}) (instance {})]", call="operator()", repeats_types=False, local_results=True,
)  # fmt: skip

words = st.sampled_from(["f", "reduce", "Box", "constant", "truest", "T1x", "lambda_like", "operators",
                         "voidless", "k_0", "add_1d", "_Reduce", "at", "unnamed"])  # fmt: skip
numbers = st.one_of(
    st.builds(Number, st.integers(-9, 300), st.sampled_from(["int", "ns::Kind", "short"])),
    st.builds(
        Number, st.integers(0, 9), st.sampled_from(["unsigned int", "unsigned long", "char"])
    ),
    st.builds(Number, st.integers(0, 1), st.just("bool")),
)
builtins = st.builds(
    Plain, st.sampled_from(["int", "float", "unsigned int", "long long", "at::Half"])
)


def no_function(it: Argument) -> Argument:
    """What pointers and results may be without more brackets: pointers to functions are not."""
    return it.result if isinstance(it, Callback) else it


def larger(types: st.SearchStrategy[Argument]) -> st.SearchStrategy[Argument]:
    few = st.lists(types | numbers, max_size=3).map(tuple)
    parameters = st.lists(types, max_size=2).map(tuple)
    return st.one_of(
        st.builds(Plain, words.map("ns::{}".format), few),
        st.builds(Pointer, types.map(no_function), st.booleans()),
        st.builds(Callback, types.map(no_function), parameters),
        st.builds(Lambda, functions(types), st.integers(1, 12), parameters),
    )


def functions(types: st.SearchStrategy[Argument]) -> st.SearchStrategy[Function]:
    return st.builds(
        Function,
        st.lists(words | st.just("@"), max_size=3).map(tuple),
        words | st.just("operator()"),
        st.lists(types | numbers, max_size=3).map(tuple),
        st.lists(types, max_size=2).map(tuple),
        st.sampled_from(["void", "enable_if"]),
    )


types = st.recursive(builtins, larger, max_leaves=12)
arguments = types | numbers
kernels = functions(types)


@given(kernels)
def test_all_spellings_have_one_key(kernel: Function) -> None:
    spelled = [spelling.function(kernel) for spelling in (NVIDIA, CXXFILT, NVPROF)]
    (key,) = {kernel_key(name, "signature") for name in spelled}
    (function,) = {kernel_key(name, "name") for name in spelled}
    assert function == "::".join([*kernel.spaces, kernel.name])
    assert key.startswith(function)
    assert " " not in key
    # A key is its own key, and what is known of the function is in the signature.
    assert kernel_key(key, "signature") == key
    assert kernel_key(key, "name") == kernel_key(function, "name") == function


@given(kernels, kernels)
def test_different_names_have_different_keys(one: Function, other: Function) -> None:
    assume(one != other)
    assert kernel_key(NVIDIA.function(one), "signature") != kernel_key(
        CXXFILT.function(other), "signature"
    )


@given(kernels, arguments, arguments, st.integers(0, 3))
def test_a_different_argument_makes_a_different_key(
    kernel: Function, one: Argument, other: Argument, place: int
) -> None:
    assume(one != other)
    before, after = kernel.arguments[:place], kernel.arguments[place:]
    first = NVIDIA.function(replace(kernel, arguments=(*before, one, *after)))
    second = NVPROF.function(replace(kernel, arguments=(*before, other, *after)))
    assert kernel_key(first, "signature") != kernel_key(second, "signature")
    assert kernel_key(first, "name") == kernel_key(second, "name")


pieces = st.sampled_from(["a", "void ", "const", "<", ">", "(", ")", "[", "]", "{", "}", "::", ",", "*",
                          "&", "-", "1", "4u", "=", " ", "lambda", "#", "operator", "$_0", "true", "_",
                          "0123456789abcdef", "(int)", "<unnamed>", "(instance 2)", "'lambda7'", "~",
                          "__operator_&__", "\x00", "\n", "\ud800", "٣"])  # fmt: skip


@given(st.one_of(st.text(max_size=80), st.lists(pieces, max_size=30).map("".join)))
def test_any_text_has_keys(text: str) -> None:
    for match in KEYS:
        assert bool(kernel_key(text, match)) == bool(text.strip())


@given(kernels, st.data())
def test_cut_names_have_keys(kernel: Function, data: st.DataObject) -> None:
    """Tools cut long names: a name with an open bracket is its own text."""
    name = NVIDIA.function(kernel)
    cut = name[: data.draw(st.integers(0, len(name)))]
    for match in KEYS:
        key = kernel_key(cut, match)
        assert len(key) <= len(cut)
        assert kernel_key(key, match) == key


LARGE = 100_000
REPEATED = [
    "(&a", "a<", "f()::", "x f()::", "&(", "[clone ", "[clone .a]", "_", "operator", "operator ",
    "(instance ", "'lambda", "{lambda(", "[lambda(", "(int)", "(int)-", "a=", "a<b=1>", "$_0", "_0d1d",
    "_0123456789abcdef", "<", ">", "(", ")", "f(", "&(a b(", "void f<", "a::", "a<b<c,", "{", "{#1", "::",
    "x&", " ", "const ", "~", "__operator_&__(", "operator<<\n", "1", "9u", ".kd", "\x00",
]  # fmt: skip
CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


@pytest.mark.parametrize("unit", few(REPEATED, 2))
def test_large_names_have_keys(unit: str) -> None:
    """What takes time in proportion takes a blink here; what is quadratic would take minutes."""
    opened = unit * (LARGE // len(unit))
    closed = "".join(CLOSING.get(c, "") for c in reversed(opened))
    assert bool(kernel_key(opened, "name")) == bool(opened.strip())
    assert kernel_key(f"f<{opened}1{closed}>()", "signature")


def test_deep_templates_are_read() -> None:
    depth = 20_000
    name = f"void f<{'A<' * depth}(int)4{' >' * depth}>(int)"
    assert kernel_key(name, "signature") == f"f<{'A<' * depth}4{'>' * depth}>"
    assert kernel_key(name, "name") == "f"


def named_kernels(file: Path) -> list[tuple[str, str, str]]:
    """NVIDIA's demangled, mangled and short name of each kernel of a file of nsys; none without them."""
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        columns = connection.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")
        if "mangledName" not in {column[1] for column in columns}:
            return []
        return connection.execute(
            "SELECT DISTINCT d.value, m.value, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
            " JOIN StringIds d ON d.id = k.demangledName JOIN StringIds m ON m.id = k.mangledName"
            " JOIN StringIds s ON s.id = k.shortName"
        ).fetchall()
    finally:
        connection.close()


@real
@pytest.mark.parametrize("file", REAL_FILES, ids=name_of)
def test_real_names_match_what_the_machine_makes_of_the_symbol(file: Path) -> None:
    demangled = demangler()
    if demangled is None:
        pytest.skip("cxxfilt is not installed")
    for name, symbol, short in named_kernels(file):
        assert kernel_key(name, "signature") == kernel_key(demangled(symbol), "signature")
        # Between namespaces and template arguments stands what NVIDIA calls the short name.
        assert kernel_key(name, "name").split("::")[-1] == short
        for match in KEYS:
            key = kernel_key(name, match)
            assert kernel_key(key, match) == key


@real
def test_the_real_names_are_there() -> None:
    found = {names for file in REAL_FILES for names in named_kernels(file)}
    assert len({symbol for _, symbol, _ in found if symbol.startswith("_Z")}) > 150
    assert (REAL / "nsys_sqlite").is_dir()
