"""docs/cli.md: commands, options, exit statuses."""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterator
from typing import Any

import typer
from docs_markdown import markdown_table

from nsysconv.cli.app import app
from nsysconv.cli.flags import ANSWER, GROUPS, group_of

EXIT_STATUSES = {
    0: "Done; also where a report has no rows, where reports that you did not name are not recorded, and "
    "where `nsysconv TARGET` names the runs to choose from (in other formats than text that is 2).",
    1: "`diff`: a limit is exceeded.",
    2: "The command cannot be carried out as given: an unknown option or report, a file "
    "in the way, a store of several profiles and none chosen. Also where the system refuses: a full disk "
    "or a full stdout, too little memory, too few open files.",
    3: "An input, or a profile in a folder, is not there or could not be read (the others are still "
    "done, and all are named; files of a folder that are not profiles are skipped), or `--strict` met "
    "something dropped or approximated.",
    4: "A report that you named is not recorded in this profile. `diff`: no limit is exceeded, and at "
    "least one is undecided (0 with `--inconclusive pass`).",
    70: "An internal error, with a traceback: a defect of nsysconv. A file that shows one while it "
    "is read is refused with it, in words and with status 3; the others are read.",
    125: "`nsysconv profile` did not start the program. Once it has, the status is the program's; 126 "
    "and 127, as of a shell: a program that is not profiled cannot be run, or is not there.",
    129: "Interrupted: the terminal was closed.",
    130: "Interrupted (Ctrl-C).",
    143: "Interrupted (SIGTERM, as of `timeout` or a batch system).",
}


def cli_page() -> Iterator[str]:
    """Yield the lines of docs/cli.md."""
    root: Any = typer.main.get_command(app)  # typer's commands have no public type
    yield "# Command line"
    yield ""
    yield "Results go to stdout, everything else to stderr. Nothing ever uses the network."
    yield ""
    yield from markdown_table(
        ("command", "what it does"),
        ((f"[{name}](#nsysconv-{name.lower()})", c.help) for name, c in root.commands.items()),
    )
    yield ""
    yield from markdown_table(("option of nsysconv itself", "what it does"), _options(root, {}))
    for name, command in root.commands.items():
        yield ""
        yield f"## nsysconv {name}"
        yield ""
        yield from _command(name, command)
    yield ""
    yield "## Targets"
    yield ""
    yield "A target is a profile file or a profile in a store:"
    yield ""
    yield from markdown_table(
        ("target", "means"),
        (
            ("`report1.sqlite`", "a profile file, read in place; nothing is left behind"),
            ("`ranks.json@ranks-pid7`", "of a file of several profiles that one, as in a store"),
            ("`job.db`", "the profile of a store that holds one"),
            ("`job.db@report1`", "the profile of that label; `nsysconv runs job.db` lists them"),
            ("`job.db@2`", "the profile of that number"),
            ("`job.db@rank=3`", "the profile that holds the process of that rank"),
            ("`job.db@last:20`", "the newest 20 runs; as the base of `diff` without the other side's"),
            ("`job.db@best:steps.period_ns`", "base of `diff`: the runs in which a metric was best"),
            ("`job.db@commit=1f3a9c`", "the profiles with that tag (`import --tag commit=1f3a9c`)"),
        ),
    )
    yield ""
    yield "An existing file wins over a reading of `@`."
    yield ""
    yield "## Exit status"
    yield ""
    yield from markdown_table(("status", "means"), EXIT_STATUSES.items())


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [
        p for p in command.params
        if not p.opts[0].startswith("-") and not getattr(p, "hidden", False)
    ]  # fmt: skip
    usage = [p.metavar or p.name.upper() for p in arguments]
    # The name of the command that answers is not typed.
    typed = usage if name == ANSWER else [name, *usage]
    yield f"    nsysconv {' '.join(typed)} [OPTIONS]"
    yield ""
    yield command.help
    yield ""
    yield from markdown_table(
        ("argument", "what it is"),
        ((f"`{word}`", p.help) for word, p in zip(usage, arguments, strict=True)),
    )
    choices = _choices(name)
    if any(p.opts[0].startswith("-") for p in command.params):
        yield ""
        yield from markdown_table(("option", "what it does"), _options(command, choices))
    if command.epilog:
        title, *lines = command.epilog.removeprefix("\b\n").splitlines()
        yield from ("", title, "", *(f"  {line}" for line in lines))


def _options(command: Any, choices: dict[str, str]) -> Iterator[tuple[str, str]]:
    # In the order of the command's help.
    for option in sorted(command.params, key=lambda each: _place(group_of(each))):
        if not option.opts[0].startswith("-"):
            continue
        value = option.metavar or choices.get(option.name, "")
        if not value and not getattr(option, "is_flag", False):
            value = option.name.upper()
        # What switches off is of interest where it is on by default.
        flags = (*option.opts, *(option.secondary_opts if option.default is True else ()))
        spelled = ", ".join(f"`{flag}`" for flag in flags)
        yield f"{spelled} {value}".strip(), option.help


def _place(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


def _choices(name: str) -> dict[str, str]:
    for registered in app.registered_commands:
        callback = registered.callback
        if callback is not None and (registered.name or callback.__name__) == name:
            hints = typing.get_type_hints(callback)
            return {key: words for key, hint in hints.items() if (words := _words(hint))}
    raise AssertionError(f"no command {name}")


def _words(hint: object) -> str:
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return " · ".join(str(member.value) for member in hint)
    return next(filter(None, map(_words, typing.get_args(hint))), "")
