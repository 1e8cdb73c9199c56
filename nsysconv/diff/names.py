"""Keys under which two profiles' names are matched, however their tools spell them.

The demanglers of NVIDIA, GNU and LLVM, and that of an old profiler, write one C++ name in different
ways. The key keeps what they agree on (docs/definitions, "Names and the name key"): qualified names and
template arguments. It is made in one pass over the tokens of a name, with a stack of open brackets and
no recursion: names come from files of others, and may be long, deep, cut or no C++ at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Literal, cast, get_args

from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, Report, report_table
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.host_activity import OF_SYSTEM, OUTSIDE
from nsysconv.timeline.timeline import Timeline

Match = Literal["exact", "signature", "name"]
MATCHES: tuple[Match, ...] = get_args(Match)

NameKey = Callable[[str], str]
"""Returns the key of a name: names with one key are the same to a comparison."""

# Names without brackets and spaces: symbols, extern "C", and what compilers other than C++'s generate.
_PLAIN = re.compile(r"[\w.$@~-]*")
_TOKEN = re.compile(
    r"""
    (?P<space> \s+ | \[clone\s*\.[^][]*\] )
  | (?P<anonymous> \(anonymous\ ?namespace\) | <unnamed> | \{anonymous\}
                 | (?: _GLOBAL__N_\w* | _NV_ANON_NAMESPACE ) (?![\w$]) )
  | (?P<closure> '(?:lambda|unnamed)[0-9]{0,9}' | \$_[0-9]{1,9}(?![\w$]) )
  | (?P<instance> \(\s*instance\s*[0-9]+\s*\) )
  | (?P<address> __operator_&__ (?=\s*\() )
  | (?P<operator> operator\s* (?: \(\s*\) | \[\s*\] | ->\*? | <=> | <<= | >>=
        | <<(?=[<(\s]|$) | >>(?=[<(\s]|$) | && | \|\| | \+\+ | -- | [<>=!+*/%^&|-]=? | [~,] ) )
  | (?P<number> [0-9][\w.]* )
  | (?P<word> ~?[^\W0-9][\w$]* | \$[\w$]* )
  | (?P<scope> :: )
  | (?P<mark> && | ->\*? | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_SUFFIXED_NUMBER = re.compile(r"([0-9]+)[uUlL]+")
_DIGITS = re.compile(r"[0-9]+")
_HASH = re.compile(r"[0-9a-f]{16,}")
_SPECIALISATION = re.compile(r"0[cde]{1,2}1[0-9cde]*")

_CLOSES = {">": "<", ")": "(", "]": "[", "}": "{"}
_DROPPED = frozenset({"const", "volatile", "noexcept"})
_TRUTH = {"true": "1", "false": "0"}
# What an old profiler calls `long long`.
_RENAMED = {"__int64": "longlong"}
_POINTERS = frozenset({"*", "&", "&&"})


# This is the latest kept token of an argument, on which the meaning of a following bracket or word
# depends.
_Last = Enum(
    "_Last", "NOTHING NAME SCOPE PARAMETERS DECLARATOR POINTER ADDRESS VALUE OTHER"
)  # fmt: skip
# After these a `(` opens a list of parameters (or a declarator such as `(*)`), not an expression.
_CALLABLE = frozenset({_Last.NAME, _Last.PARAMETERS, _Last.DECLARATOR, _Last.POINTER})


@dataclass(slots=True)
class _Level:
    # An open bracket, or the whole name. All positions are indices into the kept pieces.
    opener: str
    start: int
    argument: int
    listing: bool = False  # of parameters, or a declarator
    name: int = -1  # where the latest qualified name of the current argument begins, -1 for nowhere
    last: _Last = _Last.NOTHING
    cut: tuple[int, int] | None = None  # goes if a number follows: a cast, an old profiler's `int=`
    conversion: bool = False  # the type of a conversion operator is being read
    function: bool = False  # a function's brackets were at this level


class _Unbalanced(Exception):  # noqa: N818 - no error: it ends the reading of a name
    pass


def kernel_key(name: str, match: Match) -> str:
    """Return the key of a kernel's name: names with one key are one kernel. Any text has one.

    `exact`: the name itself. `signature`: the spelling that all demanglers share, with template
    arguments and without parameters, return type, qualifiers, casts, hashes and spaces. `name`: the
    qualified function alone. Symbols (`_Z...`) are not demangled; text that is not a C++ name is kept but
    for its spaces. The key of a key of a demangled name is that key.
    """
    if match == "exact":
        return name
    text = name.strip()
    while text.endswith(".kd") and text != ".kd":
        text = text[:-3].rstrip()
    arguments = match == "signature"
    if _PLAIN.fullmatch(text):
        return text if text.startswith("_Z") else _without_hashes(text, arguments)
    squeezed = "".join(text.split())
    for attempt in (text, squeezed):
        try:
            # Without spaces the brackets of damaged text may match: its key then is that of its key.
            return _Reader(arguments).key(attempt) or squeezed
        except _Unbalanced:
            continue
    return squeezed


def _without_hashes(word: str, arguments: bool) -> str:
    # Hashes at the end of an identifier are dropped. `_0d1d2de` says for which arguments Triton
    # specialized a kernel; it counts as template arguments.
    parts = word.split("_")
    while len(parts) > 1 and (
        _is_hash(parts[-1]) or (not arguments and _is_specialization(parts[-1]))
    ):
        parts.pop()
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
    return "_".join(parts) or word


def _is_hash(part: str) -> bool:
    return bool(_HASH.fullmatch(part)) and not part.isdecimal() and not _is_specialization(part)


def _is_specialization(part: str) -> bool:
    # Triton's suffix numbers the arguments 0, 1, 2, ..., each with letters.
    if not _SPECIALISATION.fullmatch(part):
        return False
    position = number = 0
    while part.startswith(str(number), position):
        position += len(str(number))
        number += 1
        while part[position : position + 1] in ("c", "d", "e"):
            position += 1
    return position == len(part)


class _Reader:
    # Reads one name. Pieces of text are kept in order; what turns out to be superfluous is cut out.
    def __init__(self, arguments: bool) -> None:
        self._arguments = arguments
        self._kept: list[str] = []
        self._levels = [_Level("", 0, 0)]
        self._readers: dict[str, Callable[[str], None]] = {
            "anonymous": lambda text: self._name("@"),
            "closure": lambda text: self._name(_closure(text)),
            "operator": lambda text: self._name("".join(text.split())),
            "instance": self._instance,
            "address": lambda text: self._mark("&"),
            "number": self._number,
            "word": self._word,
            "scope": self._scope,
            "mark": self._mark,
        }

    def key(self, text: str) -> str:
        for token in _TOKEN.finditer(text):
            kind = cast(str, token.lastgroup)  # every alternative is a group
            if kind != "space":
                self._readers[kind](token.group())
        if len(self._levels) > 1:
            raise _Unbalanced
        self._end_argument(self._levels[0])
        self._drop_return_type()
        return "".join(self._kept)

    def _drop_return_type(self) -> None:
        whole = self._levels[0]
        # If there are no brackets of a function, several words are free text, which is kept whole.
        function = whole.function or self._kept[:1] == ["void"]
        if function and whole.argument == 0 and whole.last in (_Last.NAME, _Last.PARAMETERS):
            del self._kept[: max(whole.name, 0)]

    def _name(self, text: str) -> None:
        level = self._levels[-1]
        if level.last is not _Last.SCOPE and not level.conversion:
            level.name = len(self._kept)
        self._keep(text, _Last.NAME)

    def _keep(self, text: str, last: _Last, cut: tuple[int, int] | None = None) -> None:
        self._kept.append(text)
        self._levels[-1].last = last
        self._levels[-1].cut = cut

    def _word(self, text: str) -> None:
        if text in _DROPPED:
            return
        if text in _TRUTH:
            self._number(_TRUTH[text])
            return
        text = _RENAMED.get(text, text)
        if len(self._levels) == 1:
            text = _without_hashes(text, self._arguments)
        self._name(text)
        if text == "operator":
            # This is a conversion: the type that follows is the function's name, up to its parameters.
            self._levels[-1].conversion = True

    def _number(self, text: str) -> None:
        level = self._levels[-1]
        if level.cut:
            del self._kept[slice(*level.cut)]
        level.name = -1
        suffixed = _SUFFIXED_NUMBER.fullmatch(text)
        self._keep(suffixed[1] if suffixed else text, _Last.VALUE)

    def _instance(self, text: str) -> None:
        self._keep("#", _Last.OTHER)
        self._keep(_DIGITS.findall(text)[0], _Last.VALUE)

    def _scope(self, text: str) -> None:
        level = self._levels[-1]
        if level.last in (_Last.NOTHING, _Last.ADDRESS):
            return  # The global namespace, which only some demanglers write.
        if level.last is _Last.PARAMETERS and level.name > level.argument:
            # The name is that of an entity inside a function. NVIDIA's demangler writes the return type
            # of that function, others do not.
            del self._kept[level.argument : level.name]
            level.name = level.argument
        self._keep(text, _Last.SCOPE)

    def _mark(self, text: str) -> None:
        level = self._levels[-1]
        if text in ("(", "[", "{") or (text == "<" and level.last is _Last.NAME):
            self._open(text)
        elif text in _CLOSES and (text != ">" or level.opener in ("<", "")):
            if level.opener != _CLOSES[text]:
                raise _Unbalanced
            self._close(text)
        elif text == ",":
            self._end_argument(level)
            self._keep(text, _Last.NOTHING)
            level.argument, level.name, level.conversion = len(self._kept), -1, False
        elif text == "=" and level.opener == "<" and level.last in (_Last.NAME, _Last.POINTER):
            self._keep(text, _Last.OTHER, (level.argument, len(self._kept) + 1))
        elif text == "-":
            self._keep(text, _Last.OTHER, level.cut)
        elif text in _POINTERS:
            unary = text == "&" and level.last is _Last.NOTHING
            pointer = level.conversion or level.last not in (_Last.VALUE, _Last.OTHER)
            self._keep(text, _Last.ADDRESS if unary else _Last.POINTER if pointer else _Last.OTHER)
        else:
            self._keep(text, _Last.OTHER)

    def _end_argument(self, level: _Level) -> None:
        first = self._kept[level.argument : level.argument + 1]
        if first == ["&"] and level.last in (_Last.NAME, _Last.PARAMETERS):
            del self._kept[level.argument + 1 : max(level.name, 0)]

    def _open(self, opener: str) -> None:
        level = self._levels[-1]
        listing = opener == "(" and (level.conversion or level.last in _CALLABLE)
        if listing:
            level.conversion = False
        start = len(self._kept)
        self._kept.append(opener)
        self._levels.append(_Level(opener, start, start + 1, listing))

    def _close(self, closer: str) -> None:
        inner = self._levels.pop()
        self._end_argument(inner)
        outer = self._levels[-1]
        outer.cut = None
        if closer == ">":
            self._close_template(inner, outer)
        elif closer != ")":
            self._close_closure(closer, inner, outer)
        elif inner.listing:
            self._close_list(inner, outer)
        else:
            self._close_expression(inner, outer)

    def _close_template(self, inner: _Level, outer: _Level) -> None:
        if len(self._levels) == 1 and not self._arguments:
            del self._kept[inner.start :]
        else:
            self._kept.append(">")
        outer.last = _Last.NAME
        outer.function = True

    def _close_list(self, inner: _Level, outer: _Level) -> None:
        kept = self._kept
        first = kept[inner.start + 1 : inner.start + 2]
        # The bracket is `(*)`, `(&)`, or the `(Class::*)` of a pointer to a member.
        if (first and first[0] in _POINTERS) or kept[-2:] == ["::", "*"]:
            kept.append(")")
            outer.last = _Last.DECLARATOR
        else:
            del kept[inner.start :]
            outer.last = _Last.PARAMETERS
            outer.function = True

    def _close_expression(self, inner: _Level, outer: _Level) -> None:
        kept = self._kept
        first = "".join(kept[inner.start + 1 : inner.start + 2])
        if outer.last is _Last.ADDRESS and inner.name > inner.start:
            # `&(float f<int>(float))` of c++filt is `&f<int>`.
            del kept[inner.start : inner.name]
            outer.last, outer.name = _Last.NAME, inner.start
        elif first == "&" and outer.last is _Last.NOTHING and inner.name > inner.start:
            del kept[inner.start]
            outer.last, outer.name = _Last.NAME, inner.start + 1
        else:
            kept.append(")")
            outer.last = _Last.VALUE
            if first[:1].isalpha() or first[:1] in ("_", "@"):
                outer.cut = inner.start, len(kept)

    def _close_closure(self, closer: str, inner: _Level, outer: _Level) -> None:
        kept, start = self._kept, inner.start
        numbered = len(kept) > start + 2 and kept[-2] == "#"
        if kept[start + 1 : start + 2] == ["lambda"]:
            kept[start:] = ["{lambda#" + (kept[-1] if numbered else "1") + "}"]
        elif numbered:
            kept[start] = "{"
            kept.append("}")
        else:
            kept.append(closer)
            if closer == "]":
                # The bracket holds an array's length, or a tag such as [abi:v1], and belongs to the
                # token before it.
                outer.last = _Last.NAME if outer.last is _Last.NOTHING else outer.last
                return
        if outer.last not in (_Last.SCOPE, _Last.NAME):
            outer.name = start
        outer.last = _Last.NAME


def _closure(text: str) -> str:
    # LLVM writes `'lambda'`, `'lambda0'`, ..., and clang `$_0`, ...; both are numbered from 1, as
    # others do.
    digits = _DIGITS.findall(text)
    if text.startswith("$"):
        return f"{{lambda#{int(digits[0]) + 1}}}"
    word = "lambda" if text.startswith("'lambda") else "unnamedtype"
    return f"{{{word}#{int(digits[0]) + 2 if digits else 1}}}"


_SYMBOLS_ONLY = "symbols-only"
_HIP = re.compile(r"^hip(?=[A-Z])")


def call_name_key() -> NameKey:
    """Return a key that maps HIP's functions to CUDA's: `hipMemcpyAsync` to `cudaMemcpyAsync`."""
    return lambda name: _HIP.sub("cuda", name)


def kernel_name_key(names_by_symbol: Mapping[str, str], match: Match) -> NameKey:
    """Return the key of kernels' names; a symbol gets the key of the name that a side has for it."""
    return cache(lambda text: kernel_key(names_by_symbol.get(text, text), match))


def symbols_only_notes(base: Iterable[Timeline], other: Iterable[Timeline]) -> list[Note]:
    """Return the note that one side's kernels have only symbols, and the other's have names."""
    notes = {
        name: note
        for name, side in (("base", base), ("other", other))
        for timeline in side
        for note in timeline.profile.notes
        if note.slug == _SYMBOLS_ONLY
    }
    if len(notes) != 1:
        return []
    ((name, note),) = notes.items()
    text = f"{name}: {note.text}; kernels without a symbol on the other side have rows of their own"
    return [Note(_SYMBOLS_ONLY, Severity.INFO, text, note.count, facts=note.facts)]


def names_by_symbol(timeline: Timeline) -> dict[str, str]:
    """Return the names of kernels by their symbols, where a profile has both."""
    profile = timeline.profile
    columns = profile.columns("kernel", ("name_id", "mangled_name_id"))
    _, (ids, symbols) = factorize(columns["name_id"], columns["mangled_name_id"])
    pairs = [(i, s) for i, s in zip(ids.tolist(), symbols.tolist(), strict=True)
             if i != s and MISSING not in (i, s)]  # fmt: skip
    texts = profile.names(each for pair in pairs for each in pair)
    return {texts[s]: texts[i] for i, s in pairs}


# PyTorch numbers the operators of a run: `aten::mm, seq = 47588, op_id = 999618`.
_OPERATOR_NUMBERS = re.compile(
    r",? (?:stashed )?(?:seq|op_id|seqid|input_op_ids) = (?:\[[^\]]*\]|[^,]*)"
)


def range_key(name: str) -> str:
    """Return the name of a range without the numbers that a framework gives its operators."""
    return _OPERATOR_NUMBERS.sub("", name)


def without_operator_numbers(report: Report) -> Report:
    """Return the report with `range_key` applied to its names."""
    if report.table is None:
        return report
    place = report.table.column_names.index("name")
    names = [range_key(name) for name in report.table.column(place).to_pylist()]
    renamed = report_table([report.columns[place]], {"name": names})
    return replace(report, table=report.table.set_column(place, "name", renamed.column(0)))


def without_system(report: Report) -> Report:
    """Return idle time by activity as if the operating system had said nothing of threads."""
    if report.table is None:
        return report
    table = report.table
    seen = table.column("activity").to_pylist()
    for name, instead in zip(("activity", "name"), OUTSIDE, strict=True):
        place = table.column_names.index(name)
        cells = table.column(place).to_pylist()
        cells = [
            instead if kind in OF_SYSTEM else cell for kind, cell in zip(seen, cells, strict=True)
        ]
        table = table.set_column(
            place, name, report_table([report.columns[place]], {name: cells}).column(0)
        )
    return replace(report, table=table)
