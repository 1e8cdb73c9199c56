"""Help with options in groups, and examples at its end."""

from __future__ import annotations

from typing import Any

import typer.core

WHAT, NAMED, PART = "What", "What it is called", "Which part"
SHOWN, RUN = "How it is shown", "How it runs"
GROUPS = (WHAT, NAMED, PART, SHOWN, RUN)
"""What options are about, in the order of a command's help; those of no group stand last."""


class GroupedCommand(typer.core.TyperCommand):
    """A command of many options: an option's `rich_help_panel` is the group that it stands in."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, then the options group by group."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        groups |= {group: [] for group in (*GROUPS, "Options")}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_option = param.param_type_name == "option"
                groups[group_of(param) if is_option else "Arguments"].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def group_of(option: Any) -> str:
    """The group that an option stands in."""
    return getattr(option, "rich_help_panel", None) or "Options"


def examples(*lines: tuple[str, str]) -> str:
    """What stands at the end of a help: commands, and what each is for."""
    shown = "\n".join(f"  {command}\n      {what}" for command, what in lines)
    # The sign keeps the lines as they are.
    return f"\b\nExamples:\n{shown}"
