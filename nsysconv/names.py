"""Names: API symbols' documented names and what such functions do, kernels' short forms, escaped text."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, TextIO

_STREAM_MODE = r"(?:_ptsz|_ptds)?"
# cudaLaunchKernel_v7000, cudaLaunchKernelExC_v11060. A `_v2` of the runtime is a function of its own.
_RUNTIME_SUFFIX = re.compile(rf"{_STREAM_MODE}(?:_v\d{{4,}})?{_STREAM_MODE}$")
# cuMemAlloc_v2, cuMemcpyHtoDAsync_v2_ptsz: the driver's versions of one documented function.
_DRIVER_SUFFIX = re.compile(rf"{_STREAM_MODE}(?:_v\d+)?{_STREAM_MODE}$")
# Functions of C++ have arguments, of their templates or their own.
_OF_CODE = re.compile(r"\w[<(]")
# Names that are cut alike may be alike again, so several rounds follow. So many characters are shown
# before the first that differs.
_ROUNDS, _CONTEXT = 6, 4
# At most so many unprintable characters are replaced at a time, because a damaged name can be as long
# as its file.
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]{1,4096}")
# Names of functions that compilers make have fewer characters.
_MARK = re.compile(r" (?:\[clone [^\]]*\]|\(\.kd\))$")

_BRACKET = re.compile("[<>()]")
_ARROW = " → "
_AND_MORE = re.compile(r" and \d+ more$")
# Refused by POSIX or Windows.
_NOT_IN_FILE_NAMES = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_LONGEST = 20_000
# What follows these folders is the path of a package, wherever it was installed.
_INSTALLED = re.compile(r"^.*[/\\](?:(?:site|dist)-packages|lib[/\\]python\d+\.\d+)[/\\]")
_ABSOLUTE = re.compile(r"^(?:[/\\~]|\w:|\.\.).*[/\\]")


def plain_api_name(symbol: str) -> str:
    """Return the documented name of an API function: its symbol without version and stream-mode suffixes.

    `cudaLaunchKernel_v7000` -> `cudaLaunchKernel`; `cuMemcpyHtoDAsync_v2_ptsz` -> `cuMemcpyHtoDAsync`.
    """
    suffix = _DRIVER_SUFFIX if symbol[2:3].isupper() else _RUNTIME_SUFFIX
    return suffix.sub("", symbol) or symbol


LAUNCHES = ("kernel_launch", "graph_launch", "host_launch")
"""The roles of API functions that launch something."""

WAITS = ("wait", "wait_event")
"""The roles of API functions that do nothing but wait."""

WORK = ("kernel_launch", "graph_launch", "copy", "set")
"""The roles of API functions that put work on a GPU."""


@cache
def called(*roles: str) -> Callable[[str], re.Match[str] | None]:
    """Return a function that says whether an API function's documented name has one of these roles.

    They are in api_roles.toml. Raises KeyError for what is no role.
    """
    table = api_roles()
    return re.compile("|".join(pattern for role in roles for pattern in table[role])).match


@cache
def api_roles() -> Mapping[str, Sequence[str]]:
    """Return by role of API functions the patterns of the beginnings of their documented names."""
    text = Path(__file__).with_name("api_roles.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@lru_cache(maxsize=4096)
def role_of(name: str) -> str | None:
    """Return the first role of an API function, by its documented name; None: it has none."""
    return next((role for role in api_roles() if called(role)(name)), None)


_AROUND_OS_NAME = re.compile(r"^_+(?:libc_|GI_)?|(?:_unlocked|_chk|64|_nocancel)+$|@.*$")


def os_role(name: str) -> str | None:
    """Return what a function of the OS's runtime libraries waits for, by os_roles.toml; None: nothing.

    A word before its name, as of other versions of it, and one behind it (`__open64`) do not count.
    """
    return _os_roles().get(_AROUND_OS_NAME.sub("", name))


@cache
def _os_roles() -> Mapping[str, str]:
    text = Path(__file__).with_name("os_roles.toml").read_text(encoding="utf-8")
    return {name: role for role, names in tomllib.loads(text).items() for name in names.split()}


WHOLE = 4000
"""Names of more characters are written as a whole at most once, however many rows or events have them."""


def shorten(text: str, width: int) -> str:
    """Return the text in at most `width` characters, its middle replaced by `…`."""
    if len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    head = (width - 1) * 2 // 3
    tail = width - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :] if tail else ''}"


def shorten_name(text: str, width: int) -> str:
    """Return a name in at most `width` characters: a kernel's as such, set in as far as it was."""
    before, arrow, after = text.partition(_ARROW)
    if arrow and len(text) > width > 3 * len(_ARROW):
        # What replaces what: both are named.
        room = width - len(_ARROW)
        before = _shorten_listed(before, max(room // 2, room - len(after)))
        return before + arrow + _shorten_listed(after, room - len(before))
    name = text.lstrip(" ")
    indent = text[: min(len(text) - len(name), width // 2)]
    cut = shorten_kernel if _OF_CODE.search(name) else shorten
    return indent + cut(name, width - len(indent))


def _shorten_listed(text: str, width: int) -> str:
    # How many more there are is no part of the name, and left out where there is little room.
    more = _AND_MORE.search(text)
    end = more.group() if more else ""
    room = width - len(end)
    name = text.removesuffix(end)
    return shorten_name(name, room) + end if room > len(end) else shorten_name(name, width)


def shorten_apart(names: Mapping[str, str], width: int) -> dict[str, str]:
    """Return texts of at most `width` characters for names: the given ones, others where these are equal.

    Of names that have one text the beginning is shown, and what follows from each place on where they
    begin to differ; without what is noise in kernels' names, if they differ there. Names that differ in
    more than fits are numbered.
    """
    result = dict(names)
    form_of: dict[str, str] = {}
    places: dict[str, list[int]] = {}
    for _ in range(_ROUNDS):
        alike = list(_alike(result))
        for group in alike:
            forms = {name: form_of.get(name) or _plain(name) for name in group}
            if len(set(forms.values())) < len(group):
                forms = {name: name for name in group}
                places.update((name, []) for name in group)
            form_of |= forms
            begin = _common_length(list(forms.values()))
            for name in group:
                places.setdefault(name, []).append(begin)
                result[name] = _parts(forms[name], places[name], width)
        if not alike:
            return result
    for group in _alike(result):
        for number, name in enumerate(group, 1):
            mark = f"#{number}"
            result[name] = cut_off(result[name], max(width - len(mark), 0)) + mark
    return result


def _plain(name: str) -> str:
    return plain_kernel(name) if _OF_CODE.search(name) else name


def _alike(shown: Mapping[str, str]) -> Iterator[list[str]]:
    groups: dict[str, list[str]] = {}
    for name, text in shown.items():
        groups.setdefault(text, []).append(name)
    return (sorted(names) for names in groups.values() if len(names) > 1)


def _common_length(texts: Sequence[str]) -> int:
    # All texts share what the first and the last in alphabetical order share.
    first, last = min(texts), max(texts)
    pairs = zip(first, last, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def _parts(name: str, places: Sequence[int], width: int) -> str:
    # The result is the beginning of a name and the text from each place on, with a few characters
    # before it. All parts have an equal share of the width.
    share = max(width // (len(places) + 1) - 1, 1)
    text, until = name[:share], share
    for number, place in enumerate(sorted(places), 1):
        start = max(place - min(_CONTEXT, share // 3), until)
        gap = "…" if start > until else ""
        is_last = number == len(places)
        until = len(name) if is_last else start + share
        text += gap + name[start:until]
    return cut_off(text, width)


def cut_off(text: str, width: int) -> str:
    """Return the text in at most `width` characters, its end replaced by `…`."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)].rstrip()}…"


def drop_clauses(text: str, width: int) -> str:
    """Return a sentence without its last clauses, if what remains has at most `width` characters.

    Else all of it. Brackets at its end stay.
    """
    *clauses, last = text.split("; ")
    end = last[last.rfind(" (") :] if last.endswith(")") and " (" in last else ""
    while len(text) > width and clauses:
        shorter = "; ".join(clauses) + end
        if len(shorter) <= width:
            return shorter
        clauses.pop()
    return text


def shorten_kernel(name: str, width: int) -> str:
    """Return a kernel's demangled name in at most `width` characters.

    The parts that distinguish kernels are the function's own name and its template arguments. So, in
    this order and only as far as needed: drop a compiler's mark (`[clone .kd]`), the parameter list, the
    return type, what names.toml calls noise, the namespaces; let the template arguments share what is
    left; cut the middle. A name longer than compilers make is cut before it is parsed.
    """
    return name if len(name) <= width else _shorten_kernel(shorten(name, _LONGEST), width)


@lru_cache(maxsize=1 << 10)
def _shorten_kernel(name: str, width: int) -> str:
    for step in (*_PLAIN, _without_namespaces):
        if len(name) <= width:
            break
        name = step(name)
    return shorten(_with_short_arguments(name, width), width)


@lru_cache(maxsize=1 << 10)
def plain_kernel(name: str) -> str:
    """Return a kernel's demangled name without mark, parameters, return type and noise."""
    name = shorten(name, _LONGEST)
    for step in _PLAIN:
        name = step(name)
    return name


def _depths(text: str) -> list[int]:
    # The result has, per character, the number of brackets `<(` that are open before it. `->`, `<<` and
    # `>=` count as brackets.
    depths, depth = [], 0
    for character in text:
        if character in ">)" and depth:
            depth -= 1
        depths.append(depth)
        if character in "<(":
            depth += 1
    return depths


def _places(text: str, mark: str) -> list[int]:
    # The result has the places of the mark that are outside of brackets.
    return [i for i, depth in enumerate(_depths(text)) if not depth and text.startswith(mark, i)]


def _without_mark(name: str) -> str:
    return _MARK.sub("", name) or name


def without_parameters(name: str) -> str:
    """Return a demangled name without the list of its parameters, with its template arguments."""
    if not name.endswith(")"):
        return name
    head, start, depth = name[: name.find("(")], 0, 0
    # In most names, the only `(` opens the list of parameters, and no `<` follows a `>`. Such names
    # need no scan.
    opened, closed = head.count("<"), head.count(">")
    if name.count("(") == 1 and opened == closed and head.rfind("<") <= head.find(">"):
        start = len(head)
    for bracket in () if start else _BRACKET.finditer(name):
        if bracket[0] in ">)":
            depth -= depth > 0
            continue
        if bracket[0] == "(" and not depth:
            start = bracket.start()
        depth += 1
    return name[:start] if start and not name[:start].endswith("operator") else name


def _without_return_type(name: str) -> str:
    spaces = _places(name, " ")
    # With a comma it is a list of words, no function.
    is_function = not _places(name, ",") and "operator" not in name
    return name[spaces[-1] + 1 :] if spaces and is_function else name


def _without_noise(name: str) -> str:
    for pattern in _noise():
        name = pattern.sub("", name)
    return name


@cache
def _noise() -> tuple[re.Pattern[str], ...]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(re.compile("|".join(each["patterns"])) for each in tomllib.loads(text)["noise"])


_PLAIN = (_without_mark, without_parameters, _without_return_type, _without_noise)


def _without_namespaces(name: str) -> str:
    cuts = _places(name, "::")
    return name[cuts[-1] + 2 :] if cuts else name


def _with_short_arguments(name: str, width: int) -> str:
    start = next(iter(_places(name, "<")), None)
    if len(name) <= width or not start or not name.endswith(">"):
        return name
    room = max(width - start - 2, 1)
    return f"{name[:start]}<{shorten(name[start + 1 : -1], room)}>"


def escaped(text: str) -> str:
    """Return the text with control characters escaped, so that a name cannot steer a terminal."""
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub(_escape_sequence, text)


def escaped_lines(text: str) -> str:
    """Return the text with control characters escaped, except line breaks."""
    return "\n".join(escaped(line) for line in text.split("\n"))


def _escape_sequence(match: re.Match[str]) -> str:
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in match[0]
    )


def demangler() -> Callable[[str], str] | None:
    """Return a function from a symbol to its demangled name, other texts unchanged; None without one.

    The C++ library of the machine demangles; the package `cxxfilt` (the extra `demangle`) calls it.
    """
    try:
        library = importlib.import_module("cxxfilt")
    except ImportError:
        return None
    try:
        library.demangle("_Z1fv")
    except (OSError, library.Error):
        return None

    def demangled(symbol: str) -> str:
        if not symbol.startswith("_Z"):
            return symbol
        try:
            return str(library.demangle(symbol))
        except (library.Error, ValueError):
            return symbol

    return demangled


def encodable(
    text: str, out: TextIO, errors: Literal["backslashreplace", "xmlcharrefreplace"]
) -> str:
    """Return the text with what the stream cannot encode spelled out, lone surrogates among them."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode(encoding, errors).decode(encoding)
    return text


def file_name(text: str) -> str:
    """Return a text as the name of a file, `_` for each sign that one cannot hold on every system."""
    return _NOT_IN_FILE_NAMES.sub("_", text)


def text_width(text: str) -> int:
    """Return how many cells of a terminal the text takes; East-Asian characters and emoji take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # other formats do without

    return cell_len(text)


def package_path(path: str) -> str:
    """Return the path of a file of an installed package without where that is installed."""
    return _INSTALLED.sub("", path)


def public_path(path: str) -> str:
    """Return a path without its folders if it is absolute; of an installed package, from there on."""
    return _ABSOLUTE.sub("", package_path(path))


_SIGNS_OF_LISTS = re.compile(r'^"|; |: |;$')
_NAMED = re.compile(
    r'(?:(?P<name>"(?:[^"\\]|\\.)*"|(?:(?!; ).)*?): )?(?P<text>[^;:]+)(?:; |$)', re.DOTALL
)


def quoted_apart(name: str) -> str:
    """Return a name for a list like `name: text; name: text`, as in JSON if it has such signs."""
    return json.dumps(name, ensure_ascii=False) if _SIGNS_OF_LISTS.search(name) else name


def named_texts(listed: str) -> list[tuple[str, str]]:
    """Return the names and texts of such a list, of texts without these signs; "" for no name."""
    found = ((each["name"] or "", each["text"]) for each in _NAMED.finditer(listed))
    return [(json.loads(name) if name[:1] == '"' else name, text) for name, text in found]
