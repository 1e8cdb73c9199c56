"""Print how often the rules of `findings` are right on labeled real profiles, by rule.

    python scripts/score_findings.py [--real FOLDER] [-v]

tests/findings/labels.toml says of each real file what has to be found (`expected`), and what must not be
(`forbidden`); recorded.toml beside it says so of the traces in tests/recorded. Precision is expected /
(expected + forbidden) of what was found; what has no label counts for neither. Exits with 1 if a
forbidden finding was made, an expected one was missed, another one came first, or a rule that no file
is labeled with is on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nsysconv
from nsysconv.queries.findings.contract import is_minor, words

HERE = Path(__file__).resolve().parent.parent
LABELS = HERE / "tests" / "findings"
RECORDED = HERE / "tests" / "recorded"
REAL = HERE.parent / "shared" / "real"


def labels(name: str) -> list[Mapping[str, Any]]:
    """Return the labels that a file of them holds."""
    text = (LABELS / name).read_text(encoding="utf-8")
    found: list[Mapping[str, Any]] = tomllib.loads(text)["file"]
    return found


def found_in(label: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the rules with a finding of 1 % or more in a labeled file, in their order.

    Several files are imported as the ranks of one run; of a file with several runs the first counts.
    """
    paths = [label["path"]] if isinstance(label["path"], str) else label["path"]
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(temporary) / "labeled.db"
        nsysconv.import_files([folder / path for path in paths], store)
        runs = dict.fromkeys(row["run"] for row in nsysconv.runs(store).rows())
        target = store if len(runs) == 1 else f"{store}@{next(iter(runs))}"
        (report,) = nsysconv.report_on(target, "findings")
        return [row["rule"] for row in report.rows() if not is_minor(row)]


def main() -> int:
    """Print the scores; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", type=Path, default=REAL, help="The folder of the real files.")
    parser.add_argument("-v", action="store_true", help="Print what each file has, too.")
    arguments = parser.parse_args()
    right, wrong, missed, neutral, labeled = (Counter[str]() for _ in range(5))
    misplaced = []
    labeled_files = [(label, arguments.real) for label in labels("labels.toml")]
    labeled_files += [(label, RECORDED) for label in labels("recorded.toml")]
    for label, folder in labeled_files:
        rules = found_in(label, folder)
        expected, forbidden = set(label["expected"]), set(label["forbidden"])
        labeled.update(expected)
        right.update(expected & set(rules))
        wrong.update(forbidden & set(rules))
        missed.update(expected - set(rules))
        neutral.update(set(rules) - expected - forbidden)
        first = label.get("first", [])
        is_misplaced = bool(first) and (not rules or rules[0] not in first)
        if is_misplaced:
            misplaced.append(str(label["path"]))
        if arguments.v:
            print(label["path"])
            print("   ", ", ".join(rules))
            for what, names in (
                ("MISSED", expected - set(rules)), ("FORBIDDEN", forbidden & set(rules)),
                ("FIRST SHOULD BE", first if is_misplaced else ()),
            ):  # fmt: skip
                if names:
                    print("   ", what, ", ".join(sorted(names)))
    head = ("expected", 9), ("found", 7), ("missed", 8), ("forbidden", 11), ("no label", 10)
    print(f"{'rule':24}{''.join(f'{word:>{width}}' for word, width in head)}  precision")
    for rule, each in words().items():
        judged = right[rule] + wrong[rule]
        precision = f"{100 * right[rule] / judged:.0f} %" if judged else "-"
        print(
            f"{rule:24}{labeled[rule]:>9}{right[rule]:>7}{missed[rule]:>8}{wrong[rule]:>11}"
            f"{neutral[rule]:>10}  {precision}{'' if each.on else '  (off)'}"
        )
    unshown = [rule for rule, each in words().items() if each.on and not labeled[rule]]
    if unshown:
        print(f"on, and no file is labeled with them: {', '.join(unshown)}")
    if misplaced:
        print(f"another finding first: {', '.join(misplaced)}")
    return int(bool(wrong or missed or unshown or misplaced))


if __name__ == "__main__":
    sys.exit(main())
