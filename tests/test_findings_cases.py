"""The made-up cases are written as they should be: three for each rule, one of them in the docs."""

import re
import tomllib
from pathlib import Path

import findings_cases

HERE = Path(__file__).parent
DEFINITIONS = (HERE.parent / "docs" / "definitions" / "findings.md").read_text(encoding="utf-8")
EXAMPLES = [
    block for block in re.findall(r"(?:^    .*\n)+", DEFINITIONS, re.MULTILINE)
    if re.search(r"^    → \w+ (?:saves|costs|warns) \d+$", block, re.MULTILINE)
]  # fmt: skip
CASES = tomllib.loads((HERE / "findings" / "cases.toml").read_text(encoding="utf-8"))["case"]
LABELS, RECORDED = (
    tomllib.loads((HERE / "findings" / name).read_text(encoding="utf-8"))["file"]
    for name in ("labels.toml", "recorded.toml")
)
RULES = {findings_cases.parse(block).rule for block in EXAMPLES}


def test_each_rule_has_an_example_and_cases_that_nearly_have_it_and_that_cannot_be_seen():
    verbs = {"nearly": ("says",), "cannot": ("cannot", "says")}
    parsed = [(findings_cases.parse(case["lines"]), case) for case in CASES]
    assert [case["name"] for found, case in parsed
            if found.verb not in verbs[case["kind"]] or not case["why"]] == []  # fmt: skip
    assert {(found.rule, case["kind"]) for found, case in parsed} == {
        (rule, kind) for rule in RULES for kind in ("nearly", "cannot")}  # fmt: skip


def test_labels_name_rules():
    for label in (*LABELS, *RECORDED):
        named = {*label["expected"], *label["forbidden"], *label.get("first", ())}
        assert named <= RULES
        assert not {*label["expected"], *label.get("first", ())} & {*label["forbidden"]}
        assert {*label.get("first", ())} & {*label["expected"]} or "first" not in label
    assert len(LABELS) >= 25
