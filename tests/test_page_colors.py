"""The colors of the classes of time: apart for every eye, in light, dark and gray, and off the ground.

Distances are in OKLab, in which about 0.02 can just be noticed. How people without one of the three
kinds of cones see a color is after Machado, Oliveira and Fernandes (2009), at full severity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from conftest import ROOT

from nsysconv.codes import TIME_CLASSES
from nsysconv.render.page import colors

STYLE = (ROOT / "nsysconv" / "render" / "page" / "page.css").read_text()
GROUNDS = dict(zip(("light", "dark"), re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL), strict=True))
DRAWN = [name for name, color in colors.COLOURS.items() if color != colors.OUTSIDE]
WORK = [name for name in DRAWN if not name.startswith("idle_")]
IDLE = [name for name in DRAWN if name.startswith("idle_")]
SEEN_BY = {
    "all": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
_TO_LMS = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
])  # fmt: skip
_TO_LAB = np.array([
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
])  # fmt: skip


def linear(color: str) -> np.ndarray:
    """Red, green and blue of `#rrggbb` or `#rgb`, 0..1, as much light as they are."""
    digits = color[1:] if len(color) == 7 else "".join(c * 2 for c in color[1:])
    parts = np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(color: str) -> float:
    return float(linear(color) @ (0.2126, 0.7152, 0.0722))


def oklab(light: np.ndarray) -> np.ndarray:
    return _TO_LAB @ np.cbrt(_TO_LMS @ np.clip(light, 0, 1))


def distance(one: str, two: str, eye: str = "all") -> float:
    seen = [oklab(SEEN_BY[eye] @ linear(color)) for color in (one, two)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def contrast(one: str, two: str) -> float:
    """The contrast ratio of WCAG 2, 1..21."""
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def palette(ground: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6});", GROUNDS[ground]))


def least(names: Sequence[str], ground: str, eye: str) -> float:
    found = palette(ground)
    return min(distance(found[one], found[two], eye) for one, two in combinations(names, 2))


def test_distances_are_those_that_are_published() -> None:
    """OKLab of red is (0.628, 0.225, 0.126); white to black is 1; red and green are alike to some."""
    assert oklab(linear("#ff0000")) == pytest.approx((0.62796, 0.22486, 0.12585), abs=1e-4)
    assert distance("#ffffff", "#000000") == pytest.approx(1, abs=1e-4)
    assert distance("#b05000", "#687000", "protanopia") < distance("#b05000", "#687000") / 2
    assert contrast("#fff", "#000") == pytest.approx(21)


def test_every_class_has_a_color_and_no_two_the_same() -> None:
    assert set(colors.COLOURS) == set(TIME_CLASSES)
    for ground in GROUNDS:
        own = [palette(ground)[name] for name in DRAWN]
        assert len(set(own)) == len(own)
    assert all(f".{color} {{ background: " in STYLE for color in colors.COLOURS.values())


@pytest.mark.parametrize("eye", SEEN_BY)
@pytest.mark.parametrize("ground", GROUNDS)
def test_work_differs_from_work_to_every_eye(ground: str, eye: str) -> None:
    # Any two: where a class takes no time, those around it lie side by side.
    assert least(WORK, ground, eye) >= 0.09


@pytest.mark.parametrize("eye", SEEN_BY)
@pytest.mark.parametrize("ground", GROUNDS)
def test_idle_time_differs_from_idle_time_to_every_eye(ground: str, eye: str) -> None:
    assert least(IDLE, ground, eye) >= 0.06


@pytest.mark.parametrize("eye", SEEN_BY)
@pytest.mark.parametrize("ground", GROUNDS)
def test_work_and_idle_time_differ_in_color_besides_the_hatching(ground: str, eye: str) -> None:
    assert least(DRAWN, ground, eye) >= 0.05


def test_idle_time_is_hatched_and_each_other_than_its_neighbor() -> None:
    hatch = r"background: repeating-linear-gradient\((\d+)deg"
    angles = [re.search(rf"\.{name} {{ {hatch}", STYLE) for name in IDLE]
    found = [match[1] for match in angles if match]
    assert len(found) == len(IDLE)
    assert all(one != two for one, two in pairwise(found))
    assert not re.search(rf"\.({'|'.join(WORK)}) {{ background: repeating", STYLE)


def test_gray_print_distinguishes_work_that_follows_each_other() -> None:
    found = palette("light")
    gray = [np.cbrt(luminance(found[name])) for name in WORK]
    assert min(abs(one - two) for one, two in pairwise(gray)) >= 0.08


@pytest.mark.parametrize("ground", GROUNDS)
def test_classes_are_seen_on_the_ground(ground: str) -> None:
    """3:1, as WCAG 2 asks of what is no text; what is outside has a line around it."""
    found = palette(ground)
    for name in [*DRAWN, "quiet", *(f"s{i}" for i in range(9))]:
        for behind in ("bg", "card"):
            assert contrast(found[name], found[behind]) >= 3, (name, behind)
    assert ".outside { background: var(--bg); border: 1px solid var(--quiet); }" in STYLE


@pytest.mark.parametrize("ground", GROUNDS)
def test_what_is_no_class_has_the_color_of_none(ground: str) -> None:
    found = palette(ground)
    muted = [found[f"s{i}"] for i in range(9)]
    assert not set(muted) & {found[name] for name in DRAWN}
    assert all(np.hypot(*oklab(linear(color))[1:]) < 0.07 for color in muted)


def test_a_class_has_one_color_in_all_pictures() -> None:
    columns = ["kernel_ns", "memcpy_ns", "communication_ns", "runtime_ns", "other_ns", "cpu_ns"]
    found = colors.colors_of(columns)
    assert found[:4] == ["computation", "memcpy", "communication", "s7"]
    assert len(set(found)) == len(columns)
    assert colors.colors_of(["host_sum_ns", "idle_host_ns"]) == ["idle_host", "idle_host"]
    assert colors.class_words("host_sum_ns") == "idle, CPU-bound"
