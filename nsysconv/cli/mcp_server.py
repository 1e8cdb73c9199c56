"""`nsysconv mcp`: the tools for agents over the Model Context Protocol, on stdin and stdout.

What takes too long is killed with the process that it runs in.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysconv import __version__
from nsysconv.cli import json_errors
from nsysconv.cli.tools import TOOLS, answer_to, description, input_schema
from nsysconv.errors import UsageError
from nsysconv.launch import limit_memory
from nsysconv.processes import ProcessDiedError, Processes

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


def serve(folder: Path, seconds: int) -> int:
    """Answer a client on stdin and stdout until it goes; `seconds` is the most time for one answer.

    Raises UsageError for what is no folder, and without the package mcp.
    """
    if not folder.is_dir():
        raise UsageError("not a folder", where=str(folder), hint="nsysconv mcp FOLDER")
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError as error:
        hint = "pip install 'nsysconv[mcp]'"
        raise UsageError("the package mcp is not installed", hint=hint) from error

    async def run(made: Server[Any]) -> None:
        async with stdio_server() as (incoming, outgoing):
            await made.run(incoming, outgoing, made.create_initialization_options())

    with contextlib.closing(_Worker(folder.resolve(), seconds)) as worker:
        anyio.run(run, server(folder, worker, worker.close))
    return 0


_MOST_LISTED = 40

Run = Callable[[str, Mapping[str, Any]], tuple[str, bool]]
"""Calls a tool by its name with arguments; returns the answer, and whether it is an error."""


def server(folder: Path, run: Run, stop: Callable[[], None] = lambda: None) -> Server[Any]:
    """Return a server of the tools; calls run one at a time, each in a thread.

    `stop` ends a call that the client cancelled, so that others need not wait for it.
    """
    import anyio
    from mcp import types
    from mcp.server.lowlevel import Server

    turn = anyio.Lock()

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(name=name, description=description(name), input_schema=input_schema(name))
            for name in TOOLS
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        async with turn:
            asked = params.name, params.arguments or {}
            try:
                text, failed = await anyio.to_thread.run_sync(run, *asked, abandon_on_cancel=True)
            except anyio.get_cancelled_exc_class():
                stop()
                raise
        content = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=[*content], is_error=failed)

    return Server(
        "nsysconv",
        version=__version__,
        instructions=_instructions(folder),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _instructions(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return (
        "Numbers from GPU profiles, in ns and bytes. Begin with `answer`; `diff` BASE OTHER with the "
        "report `account` says what changed; ids such as kernel:5 are for `why`. What was not "
        "recorded is named or missing, never zero. "
        f"Targets are paths in the folder: {', '.join(names[:_MOST_LISTED])}{more}."
    )


# -- a process for calls


class _Worker:
    """Calls tools in a process of its own, which is killed where an answer takes too long."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._process: Processes[Any, tuple[str, bool]] | None = None

    def __call__(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        process = self._process = self._process or Processes(1, _work, self._folder)
        timer = threading.Timer(self._seconds, self.close)
        timer.start()
        try:
            return next(process.map([(tool, arguments)]))
        except ProcessDiedError:
            is_late = self._process is None
            what = f"no answer in {self._seconds} s" if is_late else "the process was killed"
            error = UsageError(what, hint="Ask for a part: step, time, limit.")
            return json_errors.line(error, str(error), error.exit_status), True
        finally:
            timer.cancel()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.__exit__()


def _work(folder: Path) -> Callable[[tuple[str, Mapping[str, Any]]], tuple[str, bool]]:
    # A query without an end must not take the machine's memory.
    limit_memory(0.5)
    return lambda call: answer_to(folder, *call)
