"""Check all that a release needs, and prepare the commit that makes it, into dist/.

    python scripts/release_check.py              what `make release-check` runs
    python scripts/release_check.py --tag v0.1.0 in the release itself: nothing is left to prepare
    python scripts/release_check.py --notes      print the notes of the release

The wheel and the sdist are built twice and must be the same bytes; twine checks them; the wheel is
installed with the oldest and the newest Python, with the oldest and the newest releases of what it needs,
and answers a profile in each. dist/ then has both, the recipe for conda-forge, and release.patch.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import make_dist
import oldest_versions
from make_dist import DIST, ROOT, run, version

INSTALL = {
    "pipx run --spec . nsysconv train.nsys-rep  # in a checkout; leaves nothing installed":
        "pipx install nsysconv                      # installs the command",
    "pipx install .                             # installs the command":
        "pipx run nsysconv train.nsys-rep           # leaves nothing installed",
    "pip install '.[plot]'                      # in your own environment: the library, with plots":
        "pip install 'nsysconv[plot]'               # in your own environment: the library, with plots",
    "pipx install nsysconv                      # after the first release; not on PyPI yet":
        "pipx install .                             # in a checkout",
}  # fmt: skip
"""The lines of README that install, in a checkout and from the index."""
CONDA_NAMES = {"pyarrow": "pyarrow-core", "isal": "python-isal"}
PYTHONS = ("3.11", "3.13")


def prepared() -> dict[str, str]:
    """Return the texts of the release by file: README installs from the index, the version has a date."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    readme = _text("README.md")
    for before, after in INSTALL.items():
        readme = readme.replace(f"    {before}\n", f"    {after}\n")
    readme = re.sub(r"pip install '\.\[(\w+)\]'", r"pip install 'nsysconv[\1]'", readme)
    changelog = _text("CHANGELOG.md").replace(
        f"## Unreleased ({version()})\n", f"## {version()} ({today})\n"
    )
    citation = _text("CITATION.cff")
    if "date-released:" not in citation:
        line = f"version: {version()}\n"
        citation = citation.replace(line, f"{line}date-released: {today}\n")
    return {"README.md": readme, "CHANGELOG.md": changelog, "CITATION.cff": citation}


def patch() -> str:
    """Return the differences of these texts to those of the tree, as `git apply` takes them."""
    parts: list[str] = []
    for name, text in prepared().items():
        both = (_text(name).splitlines(True), text.splitlines(True))
        parts += difflib.unified_diff(*both, f"a/{name}", f"b/{name}")
    return "".join(parts)


def notes() -> str:
    """Return what the changelog says of this version."""
    heading = rf"(?m)^## .*\b{re.escape(version())}\b.*$"
    _, rest = re.split(heading, _text("CHANGELOG.md"), maxsplit=1)
    return rest.partition("\n## ")[0].strip() + "\n"


def wrong_in_versions(tag: str | None) -> Iterator[str]:
    """Yield where the version is another, and with a tag what was not prepared."""
    if f"version: {version()}\n" not in _text("CITATION.cff"):
        yield f"CITATION.cff does not have version {version()}"
    first = re.search(r"(?m)^## (.*)$", _text("CHANGELOG.md"))
    if first is None or version() not in first[1]:
        yield f"the first heading of CHANGELOG.md does not have {version()}"
    if tag is not None and tag != f"v{version()}":
        yield f"the tag is {tag}, the version {version()}"
    if tag is not None and patch():
        yield "dist/release.patch was not applied"


def recipe(sdist: Path) -> str:
    """Return the recipe for conda-forge; its names of packages are those of conda-forge."""
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    # One package serves all systems: what not all have, nsysconv does without.
    matches = (re.fullmatch(r"([\w-]+)([^;]*)", text) for text in project["dependencies"])
    needed = [f"    - {CONDA_NAMES.get(m[1], m[1])} {m[2]}" for m in matches if m]
    checksum = hashlib.sha256(sdist.read_bytes()).hexdigest()
    return f"""\
schema_version: 1
context:
  version: {version()}
package:
  name: nsysconv
  version: ${{{{ version }}}}
source:
  url: https://pypi.org/packages/source/n/nsysconv/nsysconv-${{{{ version }}}}.tar.gz
  sha256: {checksum}
build:
  noarch: python
  script: ${{{{ PYTHON }}}} -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
      - nsysconv = nsysconv.__main__:main
requirements:
  host:
    - python >={project["requires-python"].removeprefix(">=")}
    - pip
    - setuptools >=77
  run:
    - python >={project["requires-python"].removeprefix(">=")}
{chr(10).join(needed)}
tests:
  - python:
      imports: [nsysconv]
  - script: [nsysconv --version]
about:
  license: {project["license"]}
  license_file: LICENSE
  summary: {project["description"]}
"""


def weights(environment: Path) -> dict[str, int]:
    """Return the bytes of each package that was installed into an environment, the largest first."""
    (site,) = environment.glob("lib/python3*/site-packages")
    found: dict[str, int] = {}
    for record in site.glob("*.dist-info/RECORD"):
        name = record.parent.name.partition("-")[0]
        if name not in ("pip", "setuptools"):
            files = (site / line.partition(",")[0] for line in record.read_text("utf-8").splitlines())
            found[name] = sum(file.stat().st_size for file in files if file.is_file())
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _pythons() -> list[Path]:
    # Those at hand: on the path, and those of pyenv.
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    found = []
    for minor in PYTHONS:
        places = [folder / f"python{minor}" for folder in folders if "shims" not in folder.parts]
        places += sorted(root.glob(f"versions/{minor}.*/bin/python3"))
        found += [place for place in places if place.exists()][:1]
    return found


def wrong_when_installed(wheel: Path, folder: Path) -> Iterator[str]:
    """Yield what is wrong in environments of each Python, with the oldest and the newest packages."""
    oldest = folder / "oldest.txt"
    oldest.write_text("\n".join(oldest_versions.constraints()), encoding="utf-8")
    pythons = _pythons()
    if len(pythons) < len(PYTHONS):
        yield f"not every Python of {', '.join(PYTHONS)} is here: {', '.join(map(str, pythons))}"
    cases = [(python, which) for python in pythons for which in ("newest", "oldest")]
    for number, (python, which) in enumerate(cases):
        environment = folder / f"env{number}"
        run(python, "-m", "venv", environment, cwd=folder)
        chosen = ("-c", oldest) if which == "oldest" else ()
        run(environment / "bin" / "pip", "install", "-q", *chosen, wheel, cwd=folder)
        command = environment / "bin" / "nsysconv"
        name = f"{python.name} with the {which} releases"
        wrong = [f"{name}: {line}" for line in make_dist.wrong_when_installed(command, folder)]
        sizes = weights(environment)
        print(f"{name}: {'; '.join(wrong) or 'answers'}; {sum(sizes.values()) / 1e6:.0f} MB installed")
        yield from wrong
    if cases:
        largest = list(weights(folder / "env0").items())[:8]
        print("largest: " + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in largest))


def main() -> int:
    """Check and prepare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", help="the tag that is released: nothing may be left to prepare")
    parser.add_argument("--notes", action="store_true", help="print the notes of the release")
    options = parser.parse_args()
    if options.notes:
        print(notes(), end="")
        return 0
    wrong = list(wrong_in_versions(options.tag))
    with TemporaryDirectory(prefix="nsysconv-release-") as name:
        folder = Path(name)
        built = [make_dist.build(folder / f"build{number}") for number in (1, 2)]
        for first, second in zip(*built, strict=True):
            if first.read_bytes() != second.read_bytes():
                wrong.append(f"{first.name} is not the same when it is built again")
        wheel, sdist = built[0]
        wrong += [*make_dist.wrong_in_wheel(wheel), *make_dist.wrong_in_sdist(sdist)]
        print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=folder).strip())
        wrong += wrong_when_installed(wheel, folder)
        DIST.mkdir(exist_ok=True)
        for path in (wheel, sdist):
            (DIST / path.name).write_bytes(path.read_bytes())
        (DIST / "recipe.yaml").write_text(recipe(sdist), encoding="utf-8")
        (DIST / "release.patch").write_text(patch(), encoding="utf-8")
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong and options.tag is None:
        print(f"ready: git apply dist/release.patch; commit; git tag v{version()}; push the tag")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
