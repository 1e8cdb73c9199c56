"""Draw the pictures of docs/: reports of the examples, and the page as a browser shows it.

    python scripts/docs_pictures.py                  draw the reports
    python scripts/docs_pictures.py --screenshots    and photograph the pages, with Chromium
    python scripts/docs_pictures.py --check          exit 1, and name the pictures that are out of date

`docs/images/pictures.json` keeps for each picture a digest of what it was made from: the rows of the
report, or the HTML of the page. `--check` makes those anew and compares; it needs no browser. Where
matplotlib is of the release that drew a report, the drawing is compared, too.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from docs_console import examples
from run_command import run

import nsysconv

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parent.parent / "docs" / "images"
MANIFEST = IMAGES / "pictures.json"

# Reports of the gallery, and the example that each is drawn of.
DRAWN: dict[str, tuple[str, str]] = {
    "overview": ("train.sqlite", "overview"),
    "api_vs_kernel": ("train.sqlite", "api_vs_kernel"),
    "kernels": ("train.sqlite", "kernels"),
    "transfers": ("train.sqlite", "transfers"),
    "transfer_sizes": ("train.sqlite", "transfer_sizes"),
    "idle_summary": ("train.sqlite", "idle_summary"),
    "idle_host": ("train.sqlite", "idle_host"),
    "utilization_over_time": ("train.sqlite", "utilization_over_time:bins=160"),
    "steps": ("train.pt.trace.json.gz", "steps"),
    "ranges": ("train.sqlite", "ranges"),
    "operators": ("train.pt.trace.json.gz", "operators"),
    "kernel_categories": ("train.pt.trace.json.gz", "kernel_categories"),
    "comm_overlap": ("ranks/rank0.sqlite", "comm_overlap"),
    "launch_stats": ("train.sqlite", "launch_stats"),
}


@dataclass(frozen=True)
class Photograph:
    """A page to be photographed: the command that writes it, and what of it is shown."""

    command: tuple[str, ...]
    dark: bool = False
    # The section whose top is the picture's; None: the page's top.
    section: str | None = None
    # The row of a table whose place in the time line is gone to first, by a selector.
    follow: str | None = None
    width: int = 1200
    height: int = 800


_PAGE = ("report", "train.sqlite", "-o", "page.html")
_DIFF = ("diff", "train.sqlite", "faster.sqlite", "--step-range", "step *", "-o", "page.html")
PHOTOGRAPHS: dict[str, Photograph] = {
    "page-light": Photograph(_PAGE),
    "page-dark": Photograph(_PAGE, dark=True),
    "page-timeline": Photograph(
        _PAGE, section="#lanes", follow="#t-idle-gaps tr[data-to]", height=620
    ),
    "page-ranks": Photograph(("report", "ranks.db", "-o", "page.html")),
    "page-diff": Photograph(_DIFF),
}


def digest(data: bytes) -> str:
    """Return a digest to be compared."""
    return hashlib.sha256(data).hexdigest()


def drawings(files: Path) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield the name of each drawing, the digest of its rows, and what draws it as SVG."""
    for name, (target, report) in DRAWN.items():
        with nsysconv.open(files / target) as profile:
            shown = profile.report(report)
            rows = json.dumps([list(shown.rows()), [c.name for c in shown.columns]], default=str)

            def draw(shown: nsysconv.ShownReport = shown) -> bytes:
                return svg(shown)

            yield f"gallery-{name}.svg", digest(rows.encode()), draw


def svg(shown: nsysconv.ShownReport) -> bytes:
    """Return the picture of a report as SVG: the same rows give the same bytes."""
    mpl.use("svg")
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "nsysconv", "svg.fonttype": "none", "font.size": 9}):
        shown.plot().savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return out.getvalue()


def pages(files: Path) -> Iterator[tuple[str, Photograph, bytes]]:
    """Yield the name of each photograph, how it is taken, and the HTML of its page."""
    run("import", "ranks", "-o", "ranks.db", cwd=files)
    written: dict[tuple[str, ...], bytes] = {}
    for name, photograph in PHOTOGRAPHS.items():
        if photograph.command not in written:
            page = files / photograph.command[-1]
            outcome = run(*photograph.command, cwd=files)
            if outcome.status:
                raise ValueError(outcome.err)
            written[photograph.command] = page.read_bytes()
            page.unlink()
        yield f"{name}.png", photograph, written[photograph.command]


def draw(files: Path, manifest: dict[str, dict[str, str]]) -> None:
    """Draw the reports, and write down what they were made from."""
    for name, rows, make in drawings(files):
        (IMAGES / name).write_bytes(make())
        manifest[name] = {"rows": rows, "matplotlib": mpl.__version__}


def photograph_all(files: Path, manifest: dict[str, dict[str, str]]) -> None:
    """Photograph the pages, and write down what they were."""
    # Needed here alone; the reports are drawn without it.
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        # As root Chromium starts without its sandbox only; no name is looked up.
        arguments = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for name, how, html in pages(files):
            page = files / "photographed.html"
            page.write_bytes(html)
            (IMAGES / name).write_bytes(_few_colors(_photograph(browser, page, how)))
            manifest[name] = {"html": digest(html)}
        browser.close()


def _photograph(browser: Browser, path: Path, how: Photograph) -> bytes:
    page = browser.new_page(
        viewport={"width": how.width, "height": how.height},
        color_scheme="dark" if how.dark else "light",
    )
    page.goto(path.as_uri())
    page.wait_for_timeout(800)
    if how.follow:
        page.locator(how.follow).first.evaluate("row => { location.hash = row.dataset.to }")
        page.wait_for_timeout(400)
    if how.section:
        page.locator(how.section).evaluate("element => element.scrollIntoView()")
        page.wait_for_timeout(400)
    taken: bytes = page.screenshot()
    page.close()
    return taken


def _few_colors(png: bytes) -> bytes:
    """Return a picture with 256 colors at most: a third of the bytes, and no difference to see."""
    from PIL import Image

    out = io.BytesIO()
    # The usual way merges colors of few pixels, such as those of a legend.
    rare_too = Image.Quantize.MAXCOVERAGE
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(256, rare_too, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def stale(files: Path, manifest: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a line for each picture that is not what would be made now."""
    for name, rows, make in drawings(files):
        known = manifest.get(name, {})
        same_release = known.get("matplotlib") == mpl.__version__
        path = IMAGES / name
        if known.get("rows") != rows or not path.exists() or (
            same_release and path.read_bytes() != make()
        ):  # fmt: skip
            yield f"docs/images/{name} is of other rows; run: make docs"
    for name, _, html in pages(files):
        if manifest.get(name, {}).get("html") != digest(html) or not (IMAGES / name).exists():
            yield f"docs/images/{name} is of another page; run: make screenshots"
    known_names = {f"gallery-{name}.svg" for name in DRAWN} | {f"{name}.png" for name in PHOTOGRAPHS}
    for name in sorted(set(manifest) - known_names):
        yield f"docs/images/{name} is no picture of the docs any more; run: make docs"


def main() -> int:
    """Draw or check; returns the exit status."""
    parser = argparse.ArgumentParser(description="draw the pictures of docs/")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    parser.add_argument("--screenshots", action="store_true", help="photograph the pages, too")
    asked = parser.parse_args()
    manifest = json.loads(MANIFEST.read_text("utf-8")) if MANIFEST.exists() else {}
    with examples() as files:
        if asked.check:
            found = list(stale(files, manifest))
            print("\n".join(found) if found else "all pictures are up to date")
            return 1 if found else 0
        draw(files, manifest)
        if asked.screenshots:
            photograph_all(files, manifest)
    MANIFEST.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
