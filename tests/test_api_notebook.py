"""nsysconv as somebody uses it in a notebook: in a process of its own, by its public names only."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import CHILD_ENVIRONMENT, NSYS, ROOT, Shelf
from small_store import Kernel, opened

import nsysconv
from nsysconv.api.shown_report import ShownReport

BASIC = NSYS / "basic-3.25.0.sqlite"
NO_GPU = NSYS / "no_gpu-3.25.0.sqlite"
OTHER = NSYS / "ranges-3.28.1.sqlite"
PLAIN = {name: value for name, value in CHILD_ENVIRONMENT.items() if name != "MPLBACKEND"}


def fresh(code: str, folder: Path) -> str:
    """What this code prints in a new interpreter that stands in another folder, warnings being errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), str(BASIC), str(NO_GPU)],
        cwd=folder, env=PLAIN, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a new interpreter says of the library: before it is used, what a star brings, and after."""
    out = fresh(
        """
        import contextlib, io, json, pathlib, sys
        import nsysconv
        names = dir(nsysconv)
        large = [name for name in ("numpy", "pyarrow", "sqlalchemy") if name in sys.modules]
        star = {}
        exec("from nsysconv import *", star)
        basic, no_gpu = map(pathlib.Path, sys.argv[1:])
        with contextlib.redirect_stdout(io.StringIO()) as frame:
            result = nsysconv.import_files(basic, "job.db")
            print(result.store, result.errors, result.files[0].imported[0].row_counts["kernel"])
            with nsysconv.open(pathlib.Path("job.db")) as profile:
                print(profile.report("kernels").to_pandas()["kernel_count"].sum())
            report = nsysconv.report_on("job.db", "kernels")[0]
            print(repr(report), report.to_arrow().num_rows)
            try:
                nsysconv.open(no_gpu).report("kernels")
            except nsysconv.errors.NotRecorded as error:
                print(error.words, bool(error.advice))
            try:
                nsysconv.open("nowhere.sqlite")
            except nsysconv.errors.NsysconvError as error:
                print(type(error).__name__, error.what, error.where)
        with contextlib.redirect_stdout(io.StringIO()) as help_text:
            help(nsysconv.open)
            help(nsysconv.errors.NotRecorded)
        print(json.dumps({"names": names, "large": large, "star": [*star], "after": dir(nsysconv),
                          "help": help_text.getvalue(), "frame": frame.getvalue().splitlines()}))
        """,
        tmp_path_factory.mktemp("told"),
    )
    found: dict[str, Any] = json.loads(out)
    return found


def test_names_are_found_before_anything_is_loaded(told: dict[str, Any]) -> None:
    assert set(nsysconv.__all__) <= set(told["names"])
    assert told["large"] == [], "a notebook waits for what it uses only"


@pytest.mark.parametrize("when", ["names", "after"], ids=["before it was used", "after it was used"])
def test_nothing_but_public_names_is_offered(told: dict[str, Any], when: str) -> None:
    assert [name for name in told[when] if name[:2] != "__"] == sorted(nsysconv.__all__)


def test_a_star_brings_the_public_names_only(told: dict[str, Any]) -> None:
    assert sorted(name for name in told["star"] if name[0] != "_") == sorted(nsysconv.__all__)


def test_help_says_what_a_function_takes(told: dict[str, Any]) -> None:
    # Some Pythons write long signatures on several lines.
    assert "open(target:'Target',*,include:" in "".join(told["help"].split())
    words = " ".join(told["help"].replace("|", " ").split())
    assert "Raises UsageError where there are several" in words
    assert "`advice` is how to record them" in words


@pytest.mark.parametrize("name", nsysconv.__all__)
def test_each_public_name_says_what_it_is(name: str) -> None:
    assert (getattr(nsysconv, name).__doc__ or "").strip()


def test_from_a_file_to_a_frame(told: dict[str, Any]) -> None:
    assert told["frame"] == [
        "job.db () 8",
        "8",
        "<ShownReport kernels, rows: 5 of 5, columns: 21> 5",
        "('kernel events',) True",
        "InputError no such file nowhere.sqlite",
    ]


def test_in_a_running_event_loop(tmp_path: Path) -> None:
    """As in Jupyter, whose cells run in one."""

    async def cell() -> list[str]:
        nsysconv.import_files([BASIC], tmp_path / "job.db")
        return [report.name for report in nsysconv.report_on(tmp_path / "job.db")]

    assert "kernels" in asyncio.run(cell())


def test_in_threads(tmp_path: Path) -> None:
    def rows(number: int) -> list[dict[str, object]]:
        store = tmp_path / f"{number}.db"
        nsysconv.import_files([BASIC], store)
        return nsysconv.report_on(store, ["kernels"])[0].rows()

    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(rows, range(4))
    assert first
    assert all(other == first for other in others)


def test_ipython_completes_and_shows(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    out = fresh(
        """
        import sys
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell("import nsysconv, sys")
        print(shell.complete("nsysconv.rep")[1])
        shell.run_cell("report = nsysconv.report_on(sys.argv[1], 'kernels')[0]")
        formats, _ = shell.display_formatter.format(shell.user_ns["report"])
        print(sorted(formats))
        """,
        tmp_path,
    )
    assert "nsysconv.report_on" in out
    assert "['text/html', 'text/plain']" in out


# -- what results show


ANSWERS: dict[str, Callable[[Path], object]] = {
    "report_on": lambda store: nsysconv.report_on(store)[0],
    "info": lambda store: nsysconv.info(store)[0],
    "runs": nsysconv.runs,
    "history": lambda store: nsysconv.history(store)[0],
    "forget": lambda store: nsysconv.forget(store, keep=0, dry_run=True),
    "sql": lambda store: nsysconv.sql(store, "select 1 as one"),
    "reports": lambda store: nsysconv.reports(),
    "page": lambda store: nsysconv.page(store, "kernels")[0],
    "compare": lambda store: nsysconv.compare(store, OTHER, "overview").reports[0],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_report_is_shown(name: str, shelf: Shelf) -> None:
    report = ANSWERS[name](shelf.store(BASIC))
    assert isinstance(report, ShownReport)
    assert ("<li>" if report.texts else "<table") in report._repr_html_()
    assert report.columns[0].name in str(report).replace(" ", "_") or report.title in str(report)
    assert len(repr(report)) < 100


@pytest.mark.parametrize("width", [60, 100])
def test_a_printed_report_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::Functor<float>>(int, {})"
    with opened(*(Kernel(i, i + 1, i, name=name.format(i)) for i in range(1, 31))) as profile:
        report = profile.report("kernels")
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= width
    assert sum("at::native" in line for line in lines) == 20
    assert any("20 of 30 rows" in line for line in lines)
    assert report.to_arrow().num_rows == 30
    monkeypatch.delenv("COLUMNS")
    assert width < max(map(len, str(report).splitlines())) <= 120


def test_a_closed_profile_says_so() -> None:
    with nsysconv.open(BASIC) as profile:
        report = profile.report("kernels")
        assert repr(profile) == f"<OpenProfile basic-3.25.0 of {BASIC} (nsys_sqlite)>"
    assert len(report.rows()) == 5, "a report is whole when its profile is closed"
    assert "closed" in repr(profile)
    profile.close()
    for ask in (lambda: profile.report("kernels"), profile.reports,
                lambda: profile.events("kernel"), lambda: profile.sql("select 1")):  # fmt: skip
        with pytest.raises(nsysconv.errors.UsageError, match="the profile is closed"):
            ask()


# -- a word where several may stand


def test_one_path_is_not_its_letters(tmp_path: Path) -> None:
    for given in (str(BASIC), BASIC, [BASIC]):
        result = nsysconv.import_files(given, tmp_path / f"{type(given).__name__}.db")
        assert [file.path for file in result.files] == [BASIC]


def test_one_word_is_not_its_letters() -> None:
    with nsysconv.open(BASIC) as profile:
        assert [report.name for report in profile.reports("kernels")] == ["kernels"]
        kinds = profile.report("idle_summary", idle="stream").rows()
        assert {row["kind"] for row in kinds} == {"stream"}
    assert nsysconv.reports(names="kernels").row_count == 1
    found = nsysconv.compare(BASIC, BASIC, "overview", fail_on="overview.kernel_sum_ns:9%")
    assert (found.reports[0].name, found.exit_status) == ("diff_overview", 0)
    assert repr(found) == f"<DiffResult {found.answer}>"
    with pytest.raises(nsysconv.errors.CaptureError, match="the line is a text"):
        nsysconv.profile("nsys profile -o report true")
    with pytest.raises(nsysconv.errors.CaptureError, match="'letters'"):
        nsysconv.profile(["nsys", "profile", "true"], keep="letters")


def test_a_negative_limit_is_refused() -> None:
    with nsysconv.open(BASIC) as profile, pytest.raises(nsysconv.errors.UsageError, match="limit -1"):
        profile.report("kernels", limit=-1)
    for wrong in (lambda: nsysconv.report_on(BASIC, limit=-1),
                  lambda: nsysconv.compare(BASIC, BASIC, limit=-1)):  # fmt: skip
        with pytest.raises(nsysconv.errors.UsageError, match="limit -1"):
            wrong()


# -- types

SCRIPT = """
from pathlib import Path

import nsysconv
from nsysconv.errors import NotRecorded


def kernels(path: Path) -> int:
    with nsysconv.open(path) as profile:
        reveal_type(profile)
        try:
            report = profile.report("kernels", slice=nsysconv.Slice(time=(0, 1000)))
        except NotRecorded as error:
            reveal_type(error.advice)
            return 0
    reveal_type(report)
    reveal_type(report.to_pandas())
    reveal_type(report.rows())
    return len(report.rows())


def store(path: str) -> nsysconv.ImportResult:
    result = nsysconv.import_files(path, "job.db")
    reveal_type(result.errors)
    reveal_type(nsysconv.compare(path, "job.db"))
    reveal_type(nsysconv.export_profiles("job.db", "parquet").written.counts)
    return result
"""
REVEALED = [
    "nsysconv.api.open_profile.OpenProfile",
    "tuple[str, ...]",
    "nsysconv.api.shown_report.ShownReport",
    "pandas.DataFrame",
    "list[dict[str, Any]]",
    "tuple[nsysconv.errors.NsysconvError, ...]",
    "nsysconv.api.diffing.DiffResult",
    "dict[str, int]",
]


WRONG = """
import nsysconv

nsysconv.open(3)
nsysconv.runs("a").to_panda()
nsysconv.nothing
"""


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What strict mypy says of a user's scripts, in a folder without configuration."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("typed")
    (folder / "right.py").write_text(SCRIPT, encoding="utf-8")
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--no-pretty",
         "--cache-dir", str(folder / "cache"), "right.py", "wrong.py"],
        cwd=folder, env={**CHILD_ENVIRONMENT, "MYPYPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.slow
def test_types_reach_a_user_s_script(typed: list[str]) -> None:
    lines = [line for line in typed if line.startswith("right.py")]
    assert not [line for line in lines if ": error:" in line]
    revealed = [re.sub(r"builtins\.|(?<=pandas\.)core\.frame\.", "", text)
                for text in re.findall('Revealed type is "(.*)"', "\n".join(lines))]  # fmt: skip
    assert revealed == REVEALED


@pytest.mark.slow
def test_a_wrong_use_is_told(typed: list[str]) -> None:
    assert sum(line.startswith("wrong.py") and ": error:" in line for line in typed) == 3


# -- the page is the record


def test_the_page_names_all_that_is_public() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in set(nsysconv.__all__) - {"errors"}:
        assert f"\n### {name}\n" in page, name
    for name in vars(nsysconv.errors):
        if name.endswith("Error"):
            assert f"| `{name}` |" in page, name


