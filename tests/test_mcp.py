"""The tools for agents: what they declare, and that they read one folder and do nothing else."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import CHILD_ENVIRONMENT, by_turns
from golden_cases import run
from small_store import Kernel, Range, write

from nsysconv.cli import tools
from nsysconv.cli.mcp_server import _Worker, server
from nsysconv.cli.tools import TOOLS, answer_to, description, input_schema

ROWS = (Range(0, 100, "ProfilerStep#1"), Kernel(0, 40, name="gemm"), Kernel(50, 60, name="copy"))
ARGUMENTS = {
    "answer": {"target": "a.db"},
    "info": {"target": "a.db"},
    "report": {"target": "a.db", "reports": ["kernels", "steps"], "limit": 3, "devices": [0]},
    "why": {"target": "a.db", "event": "kernel:1"},
    "find": {"target": "a.db", "pattern": "gemm|copy"},
    "diff": {"base": "a.db", "other": "b.db", "reports": ["account"]},
    "sql": {"target": "a.db", "query": "select name from v_kernel"},
    "schema": {"report": "kernels"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stores in a folder, and outside of it one more, with links and pipes to try."""
    outside = tmp_path_factory.mktemp("outside")
    inside = outside / "inside"
    inside.mkdir()
    for path in (inside / "a.db", inside / "b.db", outside / "secret.db"):
        write(path, *ROWS)
    (inside / "link.db").symlink_to(outside / "secret.db")
    (inside / "own.db").symlink_to("a.db")
    (inside / "circle").symlink_to("circle")
    (inside / "up").symlink_to(outside)
    (inside / "linked").mkdir()
    (inside / "linked" / "link.db").symlink_to(outside / "secret.db")
    os.mkfifo(inside / "pipe")
    return inside


def call(folder: Path, tool: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    text, failed = answer_to(folder, tool, arguments)
    found: dict[str, Any] = json.loads(text)
    return found, failed


def test_a_client_lists_and_calls_the_tools(folder: Path) -> None:
    """By the official client over streams in memory."""
    anyio, mcp = pytest.importorskip("anyio"), pytest.importorskip("mcp")

    async def asked() -> None:
        async with mcp.Client(server(folder, partial(answer_to, folder))) as client:
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == list(TOOLS)
            for tool, arguments in ARGUMENTS.items():
                answer = await client.call_tool(tool, arguments)
                assert not answer.is_error, answer.content
                assert json.loads(answer.content[0].text)
            wrong = await client.call_tool("report", {"target": "nosuch.db"})
            assert wrong.is_error
            assert json.loads(wrong.content[0].text)["error"]["slug"] == "input"

    anyio.run(asked)


@pytest.mark.parametrize("tool", TOOLS)
def test_an_answer_is_that_of_the_command(tool: str, folder: Path) -> None:
    """Apart from the tool schema, whose command has one form, it is the brief JSON."""
    found, failed = call(folder, tool, ARGUMENTS[tool])
    assert not failed
    words = tools.command_line(tool, ARGUMENTS[tool])
    place = words.index("--")
    assert tool == "schema" or words[:2] == ["--format=json", "--brief"]
    command = [] if tool == "answer" else [tool]
    assert json.loads(run(*command, *words[place + 1 :], *words[:place], cwd=folder).out) == found


def test_at_most_eight_tools_as_they_are_declared() -> None:
    assert len(TOOLS) <= 8
    for tool, arguments in ARGUMENTS.items():
        schema = input_schema(tool)
        assert schema["properties"].keys() >= arguments.keys() >= {*schema["required"]}
        assert all(each["description"] for each in schema["properties"].values())
        assert description(tool)
    report = input_schema("report")["properties"]
    assert report["limit"]["type"] == report["skip_first"]["type"] == "integer"
    assert report["devices"]["items"] == {"type": "integer"}
    assert report["split"]["enum"] == ["device", "rank"]
    assert report["steady"]["type"] == "boolean"
    assert "idle_gaps" in description("report")


@pytest.mark.parametrize(("tool", "path"), by_turns([tool for tool in TOOLS if TOOLS[tool].paths], [
    "../secret.db", "/etc/passwd", "up/secret.db", "link.db", "linked", "linked/*.db", "up", "..", "pipe",
    "*/../../secret.db", "postgresql://host/name", "file:///etc/passwd", "a\0b", "link.db@secret",
    "circle",
], 3))  # fmt: skip
def test_paths_outside_of_the_folder_are_refused(tool: str, path: str, folder: Path) -> None:
    for name in TOOLS[tool].paths:
        found, failed = call(folder, tool, {**ARGUMENTS[tool], name: path})
        assert failed
        assert "outside of the folder" in found["error"]["text"]


def test_a_refused_address_keeps_its_password(folder: Path) -> None:
    found, failed = call(folder, "info", {"target": "postgresql://me:hidden@host/name"})
    assert failed
    assert "hidden" not in str(found)
    assert "postgresql://me:***@host/name" in str(found)


@pytest.mark.parametrize("spec", [
    "kernel_categories:rules=../secret.toml", "kernel_categories:rules=/etc/passwd",
    "kernel_categories:rules=link.db",
])  # fmt: skip
def test_files_of_options_are_refused_too(spec: str, folder: Path) -> None:
    for tool, name, value in (("report", "reports", [spec]), ("schema", "report", spec)):
        found, failed = call(folder, tool, {**ARGUMENTS[tool], name: value})
        assert failed
        assert "outside of the folder" in found["error"]["text"]


def test_a_whole_path_in_the_folder_is_read(folder: Path) -> None:
    asked = {"target": str(folder.resolve() / "a.db"), "reports": ["kernels"], "steady": False}
    found, failed = call(folder, "report", asked)
    assert (failed, found["reports"][0]["name"]) == (False, "kernels")
    # What lies elsewhere is not even known to be there.
    for name in ("secret.db", "nowhere.db"):
        found, _ = call(folder, "report", {**asked, "target": str(folder.resolve().parent / name)})
        assert "outside of the folder" in found["error"]["text"]


def test_links_within_the_folder_are_followed(folder: Path) -> None:
    assert call(folder, "report", {"target": "own.db", "reports": ["kernels"]})[1] is False


@pytest.mark.parametrize(("arguments", "what"), [
    ({"output": "x.json"}, "no argument 'output'"),
    ({"dask": "local"}, "no argument 'dask'"),
    ({"limit": "many"}, "not a valid int"),
    ({"split": "-o/tmp/x"}, "'device', 'rank'"),
    ({"reports": ["--output=x.csv"]}, "no report"),
    ({"name": "x" * 100_000}, "more than 10,000 characters"),
    ({"reports": ["nosuch"]}, "no report 'nosuch'"),
    ({"steady": "true"}, "steady is 'true'"),
    ({"steady": [True]}, "steady is [True]"),
    ({"reports": {"name": "kernels"}}, "reports is {'name'"),
    ({"reports": [["kernels"]]}, "reports is [['kernels']]"),
])  # fmt: skip
def test_wrong_arguments_are_errors_in_json(arguments: dict[str, Any], what: str, folder: Path) -> None:
    found, failed = call(folder, "report", {**ARGUMENTS["report"], **arguments})
    assert failed
    assert what in found["error"]["text"]


def test_queries_only_read_and_have_a_size(folder: Path) -> None:
    for query in ("delete from kernel", "attach '/etc/passwd' as x", f"select {'1+' * 50_000}1"):
        assert call(folder, "sql", {"target": "a.db", "query": query})[1]


def test_a_long_answer_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MOST_RETURNED", 100)
    found, failed = call(folder, "report", ARGUMENTS["report"])
    assert failed
    assert "more than 100" in found["error"]["text"]


def test_nothing_is_written_and_no_program_is_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def state() -> dict[str, tuple[int, int]]:
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}

    found: list[object] = []
    monkeypatch.setattr(tools, "_check_paths", lambda texts: found.append(shutil.which("sh")))
    before, path = state(), os.environ["PATH"]
    for tool, arguments in ARGUMENTS.items():
        assert not call(folder, tool, arguments)[1]
    assert state() == before
    assert found
    assert set(found) == {None}
    assert os.environ["PATH"] == path


def test_without_the_package_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    done = run("mcp", cwd=tmp_path)
    assert (done.status, "pip install 'nsysconv[mcp]'" in done.err) == (2, True)
    assert run("mcp", "nosuch", cwd=tmp_path).status == 2


@pytest.mark.system
def test_a_process_answers_over_pipes_and_is_killed_when_late(folder: Path) -> None:
    """The command, started by the official client; a query without an end, and then another."""
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    anyio, mcp = pytest.importorskip("anyio"), pytest.importorskip("mcp")
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "nsysconv", "mcp", str(folder), "--timeout", "8"],
        env=CHILD_ENVIRONMENT,
    )  # fmt: skip

    async def asked() -> None:
        async with mcp.Client(mcp.stdio_client(parameters)) as client:
            assert "a.db" in client.instructions
            begun = time.monotonic()
            late = await client.call_tool("sql", {"target": "a.db", "query": endless})
            assert late.is_error
            assert "no answer in 8 s" in late.content[0].text
            assert time.monotonic() - begun < 20
            # What the client cancels ends, and others need not wait for it.
            begun = time.monotonic()
            with anyio.move_on_after(1):
                await client.call_tool("sql", {"target": "a.db", "query": endless})
            again = await client.call_tool("sql", ARGUMENTS["sql"])
            assert time.monotonic() - begun < 8
            assert json.loads(again.content[0].text)["reports"][0]["rows_total"] == 2

    anyio.run(asked)


@pytest.mark.system
def test_a_killed_process_is_an_error_and_the_next_call_is_answered(folder: Path) -> None:
    with closing(_Worker(folder, 60)) as worker:
        assert not worker("schema", {"report": "kernels"})[1]
        for process in worker._process._processes:
            process.kill()
        text, failed = worker("schema", {"report": "kernels"})
        assert failed
        assert "was killed" in json.loads(text)["error"]["text"]
        assert not worker("schema", {"report": "kernels"})[1]
