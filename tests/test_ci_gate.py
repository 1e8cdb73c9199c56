"""The gate of ci/: what it says, stores and ends with, played as a job of GitHub and of GitLab does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import post_comment
import pytest
from conftest import ROOT
from diff_workloads import Launch, run_of
from docs_ci import BASE_NOISE, GATE, LIMITS, NEW_NOISE, SLOWER, record, run_gate, shown
from markdown_it import MarkdownIt
from workload import Function
from write_nsys import write_nsys

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
ACTION = ROOT / "ci" / "github" / "action.yml"
TEMPLATE = ROOT / "ci" / "gitlab" / "gate.yml"
BIN = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
NOISY = (-80, 90, -10, 70, -85)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recordings of the main branch, and of one that is slower."""
    folder = tmp_path_factory.mktemp("recorded")
    record(folder / "main", BASE_NOISE)
    record(folder / "slower", NEW_NOISE, SLOWER)
    return folder


@pytest.fixture(scope="module")
def baseline(recorded: Path) -> Path:
    """A baseline that the gate made of the main branch, and the folder that it is in."""
    work = recorded / "baseline"
    work.mkdir()
    profiles = str(recorded / "main/*.sqlite")
    done = run_gate(work, profiles=profiles, baseline="kept/main.db", update="passed")
    assert done.returncode == 0, done.stderr
    assert comment(work) == "### no baseline: `default` has none yet; these profiles are it from now on\n"
    return work / "kept" / "main.db"


def comment(work: Path) -> str:
    return (work / "nsysconv-comment.md").read_text(encoding="utf-8")


def visible(text: str) -> list[str]:
    """The lines of a comment before its fold is opened, the fold's own among them."""
    head, _, rest = text.partition("<details>")
    return (head + rest.partition("\n")[0]).splitlines()


# -- the answers


@pytest.mark.slow
def test_without_a_baseline_it_passes_and_says_who_makes_one(recorded: Path, tmp_path: Path) -> None:
    done = run_gate(tmp_path, profiles=str(recorded / "main/1.sqlite"), baseline="main.db", name="gpu 1")
    assert (done.returncode, done.stderr) == (0, "")
    assert comment(tmp_path).startswith("### no baseline: `gpu-1` has none yet; this run stores none")
    assert not (tmp_path / "main.db").exists()


def test_a_slower_kernel_fails_with_the_comment_of_the_page(
    recorded: Path, baseline: Path, tmp_path: Path
) -> None:
    actions = pytest.importorskip("actions")
    pull = actions.Action(ACTION, tmp_path, "pull_request")
    (pull.work / "limits.toml").write_text(LIMITS)
    # What the main branch had stored.
    (pull.cache / "nsysconv-baseline-gpu1-1-1").write_bytes(baseline.read_bytes())
    inputs = {"profiles": str(recorded / "slower/*.sqlite"), "limits": "limits.toml"}
    status, printed = pull.run(BIN, 2, {**inputs, "comment": "false"})
    assert status == 1, printed
    text = pull.summary.read_text(encoding="utf-8")
    assert len(visible(text)) <= 12
    block = "\n".join(["```markdown", *shown(text), "```"])
    assert f"{block}\n" in PAGE, f"run: make docs\n{block}"
    # The log has what can be seen, the cache what it had.
    assert "### FAIL: slower: " in printed
    assert "<details>" not in printed
    assert len([*pull.cache.iterdir()]) == 1
    assert (pull.work / "nsysconv-baseline.db").read_bytes() == baseline.read_bytes()


def test_a_damaged_file_ends_with_status_3_and_its_name(baseline: Path, tmp_path: Path) -> None:
    kept = baseline.read_bytes()
    (tmp_path / "new run.sqlite").write_bytes(b"SQLite format 3\0" + bytes(84))
    done = run_gate(tmp_path, profiles="new*.sqlite", baseline=str(baseline), update="always")
    assert done.returncode == 3
    text = comment(tmp_path)
    assert text.startswith("### no answer: nsysconv could not import the new profiles, status 3\n\n    ")
    assert "new run.sqlite" in text
    assert len(text.splitlines()) <= 12
    assert baseline.read_bytes() == kept


HOSTILE = "</details>`@all` <img src=x onerror=f()>|$(touch made)"


@pytest.mark.slow
@pytest.mark.parametrize("update", ["passed", "always"])
def test_a_damaged_baseline_is_replaced_where_that_was_asked_for(
    update: str, recorded: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "baseline.db"
    damaged.write_bytes(b"not a store")
    asked = {"profiles": str(recorded / "main/1.sqlite"), "baseline": str(damaged), "update": update}
    assert run_gate(tmp_path, **asked).returncode == 3
    assert comment(tmp_path).startswith("### no answer: nsysconv could not compare with the baseline")
    assert "baseline.db: a text file, but not a profile" in comment(tmp_path)
    assert run_gate(tmp_path, **asked).returncode == (0 if update == "always" else 3)


@pytest.mark.slow
def test_what_cannot_be_stored_is_no_exceeded_limit(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    asked = {"profiles": str(recorded / "main/1.sqlite"), "baseline": "file/main.db"}
    done = run_gate(tmp_path, **asked, update="passed")
    assert done.returncode == 2
    assert "could not store the new profiles as the baseline, status 2\n\n    mk" in comment(tmp_path)


def test_what_another_job_is_storing_is_left_alone(recorded: Path, tmp_path: Path) -> None:
    profiles = str(recorded / "main/*.sqlite")
    (tmp_path / "main.db.new").mkdir()  # as a file of this name is in the other job's hands
    done = run_gate(tmp_path, profiles=profiles, baseline="main.db", update="passed")
    assert (done.returncode, (tmp_path / "main.db").is_file()) == (0, True)
    assert [path.name for path in tmp_path.glob("main.db*")] == ["main.db", "main.db.new"]


def test_without_nsysconv_that_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", str(GATE)], cwd=tmp_path, check=False, capture_output=True,
        env={"PATH": os.defpath, "GATE_PROFILES": "a.sqlite", "GATE_BASELINE": "b.db"},
    )  # fmt: skip
    assert done.returncode == 127
    assert "nsysconv" in comment(tmp_path).splitlines()[2]


@pytest.mark.slow
def test_hostile_names_are_neither_shell_nor_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run, length in (("base", 200_000), ("new", 400_000)):
        steps = [[Launch(Function(*[HOSTILE] * 4), length)]] * 10
        (tmp_path / run).mkdir()
        write_nsys(run_of(steps), tmp_path / run / "$(touch made) '`touch made`.sqlite", "3.25.0")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    asked = {"baseline": "it's $(touch made).db", "name": "$(touch made)'; select 1 --"}
    run_gate(tmp_path, profiles="base/*.sqlite", update="passed", **asked)
    limit = "kernels.per_step_ns:5%"
    done = run_gate(tmp_path, profiles="new/*", fail_on=f"{limit}\n$(touch made)", **asked)
    assert done.returncode == 2
    assert "$(touch made)" in comment(tmp_path)
    done = run_gate(tmp_path, profiles="new/*", fail_on=limit, **asked)
    assert done.returncode == 1, done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.name == "made"]
    # Whatever is printed lies between two marks that nobody can guess.
    lines = done.stdout.splitlines()
    marks = [line for line in lines if line.startswith("::")]
    assert len(marks) % 2 == 0
    for begin, end in zip(marks[::2], marks[1::2], strict=True):
        assert re.fullmatch(r"::stop-commands::[0-9a-f]{32}", begin)
        assert end == f"::{begin.rpartition('::')[2]}::"
    assert HOSTILE in comment(tmp_path)
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(comment(tmp_path))
    fold = re.compile(r"<details><summary>[^<]+</summary>\n|</details>\n")
    assert all(fold.fullmatch(token.content) for token in tokens if token.type == "html_block")
    inline = [child for t in tokens for child in t.children or ()]
    assert not [child for child in inline if child.type == "html_inline"]
    assert not [child for child in inline if child.type == "text" and "@all" in child.content]


@pytest.mark.parametrize(
    ("variables", "said"),
    [({"profiles": ""}, "GATE_PROFILES names no profile"), ({"baseline": ""}, "GATE_BASELINE names no"),
     ({"update": "yes"}, "GATE_UPDATE is never, passed or always"),
     ({"comment": "a\nb"}, "GATE_COMMENT has more than one line")],
)  # fmt: skip
def test_a_mistake_in_the_call_is_named(variables: dict[str, str], said: str, tmp_path: Path) -> None:
    done = run_gate(tmp_path, **{"profiles": "a.sqlite", "baseline": "b.db", **variables})
    assert done.returncode == 2
    assert said in comment(tmp_path)


@pytest.mark.slow
def test_the_main_branch_keeps_what_passed(recorded: Path, baseline: Path, tmp_path: Path) -> None:
    actions = pytest.importorskip("actions")
    main = actions.Action(ACTION, tmp_path, "push")
    (main.work / "limits.toml").write_text(LIMITS)
    inputs = {"profiles": str(recorded / "main/*.sqlite"), "limits": "limits.toml"}
    assert main.run(BIN, 1, inputs)[0] == 0
    (first,) = main.cache.iterdir()
    record(tmp_path / "same", NEW_NOISE)
    status, printed = main.run(BIN, 2, {**inputs, "profiles": str(tmp_path / "same/*.sqlite")})
    assert status == 0, printed
    assert "### PASS: same: " in printed
    assert len([*main.cache.iterdir()]) == 2
    second = max(main.cache.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert second.read_bytes() != first.read_bytes()
    # What is slower fails and is not kept, unless it is accepted.
    slower = {**inputs, "profiles": str(recorded / "slower/*.sqlite")}
    assert main.run(BIN, 3, slower)[0] == 1
    assert len([*main.cache.iterdir()]) == 2
    assert main.run(BIN, 4, {**slower, "update": "always"})[0] == 1
    assert len([*main.cache.iterdir()]) == 3
    assert main.run(BIN, 5, slower)[0] == 0


@pytest.mark.slow
def test_what_cannot_be_compared_is_undecided(baseline: Path, tmp_path: Path) -> None:
    other = Function(*["another_program"] * 4)
    (tmp_path / "limits.toml").write_text(LIMITS)
    run = run_of([[Launch(other, 900_000)] * 3] * 7, annotated=False)
    write_nsys(run, tmp_path / "new.sqlite", "3.25.0")
    asked = {"profiles": "new.sqlite", "baseline": str(baseline), "limits": "limits.toml"}
    done = run_gate(tmp_path, **asked)
    assert done.returncode == 4, done.stderr
    assert comment(tmp_path).startswith("### INCONCLUSIVE: different workloads")
    assert len(visible(comment(tmp_path))) <= 12


@pytest.mark.slow
def test_noise_is_undecided_and_may_pass(baseline: Path, tmp_path: Path) -> None:
    record(tmp_path / "new", NOISY)
    (tmp_path / "limits.toml").write_text(LIMITS)
    asked = {"profiles": "new/*.sqlite", "baseline": str(baseline), "limits": "limits.toml"}
    done = run_gate(tmp_path, **asked)
    assert done.returncode == 4, done.stderr
    assert "**inconclusive**: `steps.period_ns:3%`" in comment(tmp_path)
    assert len(visible(comment(tmp_path))) <= 12
    assert run_gate(tmp_path, **asked, inconclusive="pass").returncode == 0


# -- the files of ci/


def test_the_shell_of_the_gate_is_plain() -> None:
    for shell in ("sh", "bash"):
        subprocess.run([shell, "-n", str(GATE)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-s", "sh", str(GATE)], check=True)


def test_every_variable_of_the_action_and_the_template_is_explained() -> None:
    explained = set(re.findall(r"\bGATE_[A-Z_]+", GATE.read_text().partition("set -u")[0]))
    explained |= set(re.findall(r"\bGATE_[A-Z_]+", post_comment.__doc__ or ""))
    # Of the template alone.
    explained |= {"GATE_FOLDER", "GATE_CACHE"}
    for path in (ACTION, TEMPLATE):
        used = set(re.findall(r"\bGATE_[A-Z_]+", path.read_text()))
        assert used <= explained, path
    read = set(re.findall(r"\$\{(GATE_[A-Z_]+)", GATE.read_text()))
    assert read <= explained


def test_inputs_of_the_action_that_are_used_are_declared() -> None:
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load(ACTION.read_text())
    used = set(re.findall(r"\binputs\.([a-z-]+)", ACTION.read_text()))
    assert used == set(action["inputs"])
    assert not [step["name"] for step in action["runs"]["steps"] if "${{" in step.get("run", "")]


@pytest.mark.slow
def test_the_template_of_gitlab_plays_as_the_page_uses_it(recorded: Path, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    (block,) = re.findall(r"^```yaml\n(# \.gitlab-ci.*?)^```$", PAGE, re.M | re.S)
    # The recordings call their steps as PyTorch does.
    job = yaml.safe_load(block.replace("step *", "ProfilerStep#*"))["gpu-speed"]
    template = yaml.safe_load(TEMPLATE.read_text())[job["extends"]]
    (tmp_path / "ci").symlink_to(ROOT / "ci")
    (tmp_path / "limits.toml").write_text(LIMITS)
    for branch, runs, expected in (("main", "main", 0), ("merge", "slower", 1)):
        rule = template["rules"][0 if branch == "merge" else 1]
        variables = {**template["variables"], **job["variables"], **rule["variables"]}
        variables |= {"GATE_NAME": "7", "GATE_COMMIT": "1f3a9c"}  # what GitLab would fill in
        new = tmp_path / "new"
        new.unlink(missing_ok=True)
        new.symlink_to(recorded / runs)
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", "\n".join(template["script"])], cwd=tmp_path, text=True,
            env={**os.environ, "PATH": BIN, **variables}, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == expected, done.stderr
        assert (tmp_path / template["artifacts"]["paths"][0]).exists()
        assert (tmp_path / template["cache"]["paths"][0]).exists()


# -- the comment on the server


class Server:
    """Comments as GitHub's or GitLab's API keeps them; what is `foreign` cannot be changed."""

    def __init__(self) -> None:
        self.comments: dict[int, str] = {}
        self.foreign: set[int] = set()
        self.tokens: set[str] = set()
        self.moved = ""
        self.url = ""

    def answer(self, method: str, path: str, body: str | None) -> tuple[int, Any]:
        number = re.search(r"/(\d+)$", path.partition("?")[0].replace("/pulls/5", ""))
        if method == "GET":
            return 200, [{"id": key, "body": text} for key, text in self.comments.items()]
        assert body is not None
        if method == "POST":
            self.comments[max(self.comments, default=0) + 1] = body
            return 201, {}
        assert number is not None
        assert method in ("PATCH", "PUT")
        if int(number[1]) in self.foreign:
            return 403, {}
        self.comments[int(number[1])] = body
        return 200, {}


@contextmanager
def serving() -> Iterator[Server]:
    kept = Server()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            kept.tokens.add(self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or "")
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length))["body"] if length else None
            status, document = (302, {}) if kept.moved else kept.answer(self.command, self.path, body)
            self.send_response(status)
            if kept.moved:
                self.send_header("Location", kept.moved)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        do_GET = do_POST = do_PATCH = do_PUT = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        kept.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()


def place_of(server: Server, host: str) -> dict[str, str]:
    if host == "github":
        return {"GITHUB_API_URL": server.url, "GITHUB_REPOSITORY": "a/b", "GATE_PULL_REQUEST": "5"}
    return {"CI_API_V4_URL": server.url, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "5"}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "comment.md").write_text("### slower: …\n", encoding="utf-8")
    return tmp_path / "comment.md"


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_a_comment_takes_the_place_of_the_last(
    host: str, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    with serving() as server:
        variables = {**place_of(server, host), "GATE_TOKEN": "s3cret", "GATE_NAME": "gpu 1"}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        server.comments = {1: "looks good", 2: "<!-- nsysconv gate: gpu-1 -->\nolder"}
        assert post_comment.main([str(written)]) == 0
        assert server.comments == {1: "looks good", 2: "<!-- nsysconv gate: gpu-1 -->\n### slower: …\n"}
        # Another name has another comment; one that is not ours is left, and a new one written.
        server.foreign = {2}
        assert post_comment.main([str(written)]) == 0
        monkeypatch.setenv("GATE_NAME", "")
        assert post_comment.main([str(written)]) == 0
        assert [text.partition("\n")[0] for text in server.comments.values()][2:] == [
            "<!-- nsysconv gate: gpu-1 -->", "<!-- nsysconv gate: default -->"
        ]  # fmt: skip
    assert server.tokens == {"Bearer s3cret" if host == "github" else "s3cret"}


def test_a_comment_that_is_refused_is_named_without_the_token(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GATE_TOKEN", raising=False)
    assert post_comment.main([str(written)]) == 1
    assert "GATE_TOKEN is not set" in capsys.readouterr().err
    with serving() as server, serving() as elsewhere:
        for name, value in {**place_of(server, "github"), "GATE_TOKEN": "s3cret"}.items():
            monkeypatch.setenv(name, value)
        server.moved = elsewhere.url
        assert post_comment.main([str(written)]) == 1
        assert elsewhere.tokens == set()
        server.moved, server.foreign = "", {1}
        monkeypatch.setenv("GITHUB_API_URL", server.url.replace("http://", "http://nobody.invalid:1/"))
        assert post_comment.main([str(written)]) == 1
    said = capsys.readouterr().err
    assert "the server answers 302" in said
    assert "s3cret" not in said
