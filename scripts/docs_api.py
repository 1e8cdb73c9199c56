"""docs/api.md: the library, from its signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, cast

from docs_markdown import markdown_table, sentence

import nsysconv
from nsysconv import errors
from nsysconv.api import capturing, options, profile_file, targets
from nsysconv.api.importing import RunResult
from nsysconv.api.inputs import MissingRank, SkippedFile
from nsysconv.capture.stage_out import CaptureOptions
from nsysconv.document import Picture, Printed, Section, Text
from nsysconv.export.contract import Written
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.record import Record
from nsysconv.report import Column, ProfileRef, Report, Unit
from nsysconv.store.location import Url
from nsysconv.store.runs import RankCoverage
from nsysconv.store.write import Imported
from nsysconv.timeline import slices
from nsysconv.timeline.slices import Slice

KEYWORDS = {
    options.SliceKeywords: Slice,
    options.PartKeywords: options.PartOptions,
    options.ProfileKeywords: options.ProfileOptions,
    options.ReportKeywords: options.ReportOptions,
    options.DiffKeywords: options.DiffOptions,
    profile_file.ImportKeywords: profile_file.ImportOptions,
    capturing.CaptureKeywords: CaptureOptions,
}
"""Sets of keywords that functions take, and the classes that have their defaults."""

PARTS = (
    Report, Section, Text, Column, Unit, Picture, Printed, ProfileRef, Note, Severity, Fact, Imported,
    SkippedFile,
    MissingRank, Record, RunResult, RankCoverage, Written, Url,
)  # fmt: skip
"""Classes that results are made of. Nobody makes them but nsysconv; their attributes are public."""

INSIDE = {"OpenProfile": {"timeline", "profile", "cut"}, "Record": {"read", "write"}}
"""Attributes that are nsysconv's own, though without an underscore."""

_ALIASES = (targets, slices, profile_file)
_NAMED = re.compile(r"StrPath|Target|Say|Words|Moment|Progress|Done")


def api_page() -> Iterator[str]:
    """Yield the lines of docs/api.md."""
    yield "# Python library"
    yield from _INTRODUCTION.splitlines()
    public = {name: getattr(nsysconv, name) for name in nsysconv.__all__}
    functions = {name: each for name, each in public.items() if inspect.isfunction(each)}
    classes = [each for each in public.values() if inspect.isclass(each)]
    yield from ("", "## Functions", "")
    yield from markdown_table(
        ("function", "what it does"),
        ((f"[{name}](#{name})", sentence(each.__doc__ or "")) for name, each in functions.items()),
    )
    for name, function in functions.items():
        yield from ("", f"### {name}")
        yield from _call(f"nsysconv.{name}", function)
    yield from ("", "## Sets of keywords")
    yield from ("", "Functions take them by name, as `**options`: `report_on(target, limit=5)`.")
    for keywords, value in KEYWORDS.items():
        yield from _keywords(keywords, value)
    yield from ("", "## Classes")
    yield from ("", "Names of `nsysconv`. `Slice` and `Percent` are made by you, the others are results.")
    for each in classes:
        yield from _class(each)
    yield from ("", "## What results are made of")
    yield from ("", "These are not names of `nsysconv`: they come with results.")
    for each in PARTS:
        yield from _class(each)
    yield from ("", "## Errors")
    yield from ("", *_ERRORS.splitlines(), "")
    yield from markdown_table(
        ("`nsysconv.errors.…`", "a kind of", "attributes", "means"), map(_error, _errors()))  # fmt: skip
    yield from ("", "## Types of arguments", "")
    yield from markdown_table(("name", "is", "meaning"), _aliases())


_INTRODUCTION = """
`import nsysconv` is the library that the commands are made of; it is typed (`py.typed`). The
[definitions](definitions/README.md) explain the numbers, [reports.md](reports.md) the columns of reports.

```pycon
>>> import nsysconv
>>> with nsysconv.open("report1.sqlite") as profile:
...     kernels = profile.report("kernels", limit=1)
>>> kernels
<ShownReport kernels, rows: 1 of 5, columns: 21>
>>> kernels.rows()[0]["kernel_sum_ns"]
15000
>>> try:
...     nsysconv.open("no-such-file.sqlite")
... except nsysconv.errors.InputError as error:
...     print(error.what)
no such file

```

**Public** is what is on this page: the names of `nsysconv` (`nsysconv.__all__`), the parameters of
its functions, the classes of `nsysconv.errors`, and the attributes of results that are listed here. So
are names and units of columns ([reports.md](reports.md)), tables and views of a store
([schema.md](schema.md)), and exit statuses and formats of output ([cli.md](cli.md)). Everything else
may change at any time: other modules and what is imported from them, names that begin with `_`, and
attributes that are not listed.

**Stable** means, by the numbers of a version such as 0.1.2:

* With the third number nothing public changes but what was wrong.
* With the second number there may be more: functions, parameters with a default that leaves all as it
  was, attributes, reports, columns, notes, kinds of an error that there is. What is public is taken away
  or renamed only after a version that warns of it (`DeprecationWarning`, and a line in the changelog).
* The first number says that more than that has changed.

Not promised: words of messages, titles and notes, what text and pages look like, the order of rows
where a report does not state one, and making results oneself: their attributes are read by name.
Parameters behind `*` are given by name.

Paths are `str` or `os.PathLike`. Times are integers of ns, sizes integers of bytes; null (`None` in
rows, `pd.NA` in frames) is *not recorded*. Functions may be called from any thread (but `profile`,
which handles signals) and in a running event loop, which they block; an open profile is for one thread
at a time. Nothing is printed: what a person may want to read meanwhile is passed to `say`.
"""
_ERRORS = """What a user can cause or meet is an `nsysconv.errors.NsysconvError`. `str(error)` is all of
it; `what` is wrong, `where` (file, and line, table or byte), and `hint` says what next. Other exceptions
are defects, or those of the system, such as `MemoryError`, `OSError` and `KeyboardInterrupt`."""


def _call(name: str, function: Any) -> Iterator[str]:
    yield from ("", "```python", *_signature(name, function), "```", "")
    yield from _prose(function.__doc__)


def _prose(text: str | None) -> Iterator[str]:
    yield from inspect.cleandoc(text or "").splitlines()


def _signature(name: str, function: Any) -> Iterator[str]:
    signature = inspect.signature(function)
    parameters, named = [], False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not named:
            parameters.append("*")
            named = True
        stars = "**" if each.kind is each.VAR_KEYWORD else ""
        text = f"{stars}{each.name}: {each.annotation}"
        parameters.append(text if each.default is each.empty else f"{text} = {_default(each.default)}")
    whole = f"{name}({', '.join(parameters)}) -> {signature.return_annotation}"
    if len(whole) <= 90:
        yield whole
        return
    yield f"{name}("
    yield from (f"    {each}," for each in parameters)
    yield f") -> {signature.return_annotation}"


def _keywords(keywords: Any, value: type) -> Iterator[str]:
    yield from ("", f"### {keywords.__name__}", "")
    yield from _prose(keywords.__doc__)
    fields = {field.name: field for field in dataclasses.fields(value)}
    inherited = {name for each in KEYWORDS if each is not keywords and _is_subset(each, keywords)
                 for name in each.__annotations__}  # fmt: skip
    yield ""
    yield from markdown_table(
        ("keyword", "type", "default"),
        ((f"`{name}`", f"`{kind.__forward_arg__}`", f"`{_default_of(fields[name])}`")
         for name, kind in keywords.__annotations__.items() if name not in inherited),
    )  # fmt: skip


def _is_subset(one: Any, other: Any) -> bool:
    return set(one.__annotations__) <= set(other.__annotations__)


def _default_of(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return _default(cast(Callable[[], object], field.default_factory)())
    return _default(field.default)


def _default(value: object) -> str:
    return value.__name__ if isinstance(value, types.FunctionType) else repr(value)


def _class(each: type) -> Iterator[str]:
    yield from ("", f"### {each.__name__}", "")
    yield from _prose(each.__doc__)
    if issubclass(each, Enum):
        yield from ("", "One of " + ", ".join(f"`{member.value}`" for member in each) + ".")
        return
    hidden = INSIDE.get(each.__name__, set())
    own = [(name, value) for name, value in vars(each).items()
           if not name.startswith("_") and name not in hidden]  # fmt: skip
    fields = _fields(each)
    attributes = [(f"`{name}`", f"`{kind}`", "") for name, kind in fields]
    attributes += [
        (f"`{name}`", f"`{inspect.get_annotations(value.fget)['return']}`", sentence(value.__doc__ or ""))
        for name, value in own if isinstance(value, property) and value.fget is not None
    ]  # fmt: skip
    if attributes:
        yield ""
        yield from markdown_table(("attribute", "type", ""), attributes)
    for name, value in own:
        if inspect.isfunction(value):
            yield from _call(name, value)


def _fields(each: type) -> list[tuple[str, str]]:
    if not dataclasses.is_dataclass(each):
        return []
    own = inspect.get_annotations(each)
    return [(field.name, str(field.type)) for field in dataclasses.fields(each) if field.name in own]


def _errors() -> list[type[errors.NsysconvError]]:
    return [each for each in vars(errors).values()
            if inspect.isclass(each) and issubclass(each, errors.NsysconvError)]  # fmt: skip


def _error(each: type[errors.NsysconvError]) -> tuple[str, str, str, str]:
    own = {"NsysconvError": "what, where, hint", "NotRecorded": "report, missing, advice, words"}
    kind = each.__bases__[0].__name__
    return f"`{each.__name__}`", f"`{kind}`", own.get(each.__name__, ""), sentence(each.__doc__ or "")


def _aliases() -> Iterator[tuple[str, str, str]]:
    for module in _ALIASES:
        body = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")).body
        for i, each in enumerate(body):
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                name = each.targets[0].id
                if _NAMED.fullmatch(name):
                    behind = body[i + 1] if i + 1 < len(body) else None
                    text = ast.get_docstring(ast.Module([behind], [])) if behind is not None else None
                    yield f"`{name}`", f"`{ast.unparse(each.value)}`", " ".join((text or "").split())
