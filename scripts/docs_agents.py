"""docs/SKILL.md and docs/llms.txt: for agents, how to ask, what to trust, and what goes wrong by hand."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from nsysconv.cli.app import app
from nsysconv.cli.flags import ANSWER
from nsysconv.cli.tools import TOOLS

DOCS = Path(__file__).parent.parent / "docs"


@dataclass(frozen=True)
class Mistake:
    """A question asked by SQL of an export as Nsight Systems makes it, and the command to ask.

    `gives` is what the query returns, `right` what the command does: the value at `at` in its brief JSON.
    """

    title: str
    sql: str
    gives: str
    command: str
    at: str
    right: str
    why: str


MISTAKES = tuple(
    Mistake(**each)
    for each in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["mistake"]
)

FILES = {
    "report1.sqlite": "nsys/basic-3.25.0.sqlite",
    "two.sqlite": "nsys/two_processes_two_gpus-3.24.7.sqlite",
    "cpu.sqlite": "nsys/no_gpu-3.25.0.sqlite",
    "other.sqlite": "nsys/two_processes_one_gpu-3.24.14.sqlite",
}
"""The fixtures that the commands read, by the names they have there."""

_ASK = (
    ("what limits it, where the time went", "nsysconv FILE -f json --brief"),
    ("what changed between two runs", "nsysconv diff BASE OTHER account -f json --brief"),
    ("a table, such as kernels, steps, operators, transfers, idle_gaps, memory",
     "nsysconv report FILE kernels -f json --brief"),
    ("an event by name, with ids", "nsysconv find FILE 'REGEX' -f json --brief"),
    ("why an event or a gap came when it did", "nsysconv why FILE kernel:5 -f json --brief"),
    ("what is recorded, and how to record the rest", "nsysconv info FILE -f json --brief"),
    ("a part: a step, a phase, a time, a device", "nsysconv report FILE kernels --step 5"),
    ("what a column means", "nsysconv schema kernels"),
    ("anything else, read-only", "nsysconv sql FILE 'select step, name, dur_ns from v_gpu_op limit 5'"),
    ("which reports there are", "nsysconv report --list"),
)  # fmt: skip


def skill_page() -> Iterator[str]:
    """Yield the lines of docs/SKILL.md."""
    yield from (
        "---",
        "name: nsysconv",
        "description: Answer questions about GPU profiles (Nsight Systems .nsys-rep and .sqlite, PyTorch "
        "profiler traces, nvprof, ROCm, JAX, Nsight Compute) with correct numbers. Use it in place of "
        "SQL on raw exports.",
        "---",
        "",
        "# Numbers from GPU profiles",
        "",
        "`nsysconv` reads a profile file in place; nothing is written. `-f json --brief` gives one line "
        "of at most 4 kB (the answer 2 kB): leading columns, first rows, `rows_total`, what was cut. "
        "`--limit N` asks for more.",
        "",
        "## How to ask",
        "",
    )
    yield from (f"* {what}: `{command}`" for what, command in _ASK)
    yield ""
    yield (
        f"Over MCP: `nsysconv mcp FOLDER` (`pip install 'nsysconv[mcp]'`) has the tools "
        f"{', '.join(TOOLS)}, with the same arguments and answers. It reads that folder and nothing else."
    )
    yield from (
        "",
        "## What to trust",
        "",
        "* Times are ns, sizes bytes, unrounded in rows. Times of the GPU are unions where the name says "
        "`union` or `busy`; a `sum` may overlap itself.",
        "* `not_recorded` and a missing value mean *not recorded*, never zero. Zero is zero.",
        "* A finding is an upper bound: findings overlap, so do not add them. `found_nothing` lists "
        "checks that ran (value of threshold), `could_not_run` those that lack data.",
        "* `diff` says faster, slower, same or inconclusive. Inconclusive is an answer: say that more "
        "runs are needed, and give no percentage.",
        "* With notes of severity `dropped` or `approximated`, repeat them with the number.",
        "* Exit status: 0 done, 1 a limit of `diff` exceeded, 2 wrong call, 3 unreadable input, 4 not "
        "recorded or undecided. Errors with `-f json` are one line of JSON on stderr: `slug`, `text`, "
        "`hint`, and `next`, commands to try.",
        "* Quote ids (`kernel:5`, `gap:3`) so that a person can ask `why`.",
        "",
        "## Ten ways to get it wrong with raw SQL",
        "",
        "Each query runs on an export as nsys makes it, without an error, and is wrong.",
        "",
    )
    for number, each in enumerate(MISTAKES, 1):
        yield f"{number}. **{each.title}** `{each.sql}` gives {each.gives}."
        yield f"   `nsysconv {each.command}` gives {each.right}: {each.why}."


def llms_page() -> Iterator[str]:
    """Yield the lines of docs/llms.txt: what there is to read, and each command."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    yield "# nsysconv"
    yield ""
    yield (
        "> Where did the time of a GPU program go, what limits it, and why did it get slower? Reads "
        "Nsight Systems, PyTorch, nvprof, ROCm, JAX and Nsight Compute files, as a command, a Python "
        "library and an MCP server."
    )
    yield ""
    yield "## How to ask"
    yield ""
    yield "- [SKILL.md](SKILL.md): how to ask, what to trust, ten mistakes of raw SQL"
    yield from (f"- {what}: `{command}`" for what, command in _ASK)
    yield ""
    yield "## Commands"
    yield ""
    for name, command in commands.items():
        typed = "nsysconv TARGET" if name == ANSWER else f"nsysconv {name}"
        yield f"- `{typed}`: {command.help.splitlines()[0]}"
    yield ""
    yield "## Pages"
    yield ""
    index = (DOCS / "README.md").read_text("utf-8").partition("**Using it**")[2]
    for line in index.partition("**For developers**")[0].splitlines():
        if found := re.match(r"\* \[([^]]+)\]\(([^)]+)\): (.*)", line):
            yield f"- [{found[1]}]({found[2]}): {found[3].rstrip(':')}"


WHOLE = {"SKILL.md": skill_page, "llms.txt": llms_page}
"""Files that are generated as they stand, by name."""
