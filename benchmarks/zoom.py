"""Measure how long a page's time line takes to zoom and move: `python benchmarks/zoom.py page.html`.

Chromium's own trace says it: per step, how long the page's main thread ran the script, laid out and
painted; and beside that all of its tasks. Prints the median, the 95th percentile and the greatest,
and the most rectangles drawn.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import sync_playwright

STEPS = 80
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


# In the page, so that nothing else runs in it.
WALK = """async (keys) => {
  const canvas = document.getElementById("lanes-canvas"), drawn = [];
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  canvas.focus();
  for (const key of keys) {
    performance.mark("step");
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
    await wait(80);
    drawn.push(+canvas.dataset.drawn);
  }
  performance.mark("step");
  return drawn;
}"""


def keys(seed: int) -> list[str]:
    """Return keys by which a reader zooms and moves about."""
    chance = random.Random(seed)
    return [chance.choice(["w"] * 5 + ["a", "d", "w", "s", "0", "n", "f"]) for _ in range(STEPS)]


# What a step has the page's main thread do: run the script, lay out, and paint. Its tasks are all of
# that and what the browser does besides, such as the drawing of rectangles where there is no GPU.
SCRIPT_AND_PAINT = {"EventDispatch", "FireAnimationFrame", "UpdateLayoutTree", "Layout", "PrePaint",
                    "Paint", "Layerize", "MinorGC", "MajorGC"}  # fmt: skip
TASKS = {"ThreadControllerImpl::RunTask"}


def step_times(trace: list[dict[str, Any]], names: set[str]) -> list[float]:
    """Return the time in ms the page's main thread spent on these after each step, an instant once."""
    marks = sorted(e["ts"] for e in trace if e.get("name") == "step")
    (main,) = {(e["pid"], e["tid"]) for e in trace if e.get("name") == "step"}
    spent = sorted((e["ts"], e["ts"] + e["dur"]) for e in trace
                   if e.get("name") in names and (e["pid"], e["tid"]) == main and "dur" in e)  # fmt: skip
    # The task that a step is in begins before its mark.
    return [covered([each for each in spent if low - 1000 < each[0] < high - 1000]) / 1000
            for low, high in pairwise(marks)]  # fmt: skip


def covered(intervals: list[tuple[int, int]]) -> int:
    """Return how long any of these intervals, which are in order, runs."""
    total, reach = 0, 0
    for low, high in intervals:
        total += max(high - max(low, reach), 0)
        reach = max(reach, high)
    return total


def main() -> None:
    """Measure the page that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with sync_playwright() as started, tempfile.TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(asked.page.absolute().as_uri())
        page.locator("#lanes").scroll_into_view_if_needed()
        page.wait_for_timeout(1000)
        path = Path(folder) / "trace.json"
        browser.start_tracing(page=page, path=path, categories=["toplevel", "blink.user_timing",
                                                                "devtools.timeline"])  # fmt: skip
        drawn = page.evaluate(WALK, keys(asked.seed))
        browser.stop_tracing()
        trace = msgspec.json.decode(path.read_bytes())["traceEvents"]
        browser.close()
    print(f"{STEPS} steps, {max(drawn):,} rectangles at most")
    for title, names in (("script and paint", SCRIPT_AND_PAINT), ("all tasks of the thread", TASKS)):
        times = step_times(trace, names)
        most = statistics.quantiles(times, n=20)[-1]
        print(f"{title}: median {statistics.median(times):.1f} ms, 95 % {most:.1f} ms, "
              f"greatest {max(times):.1f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
