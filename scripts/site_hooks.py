"""What the site does with the pages of docs/ that MkDocs does not: links out of docs/, and two pages.

CONTRIBUTING.md and CHANGELOG.md are pages of the site, too. Links from docs/ to other files of the
repository lead nowhere on the site, whose readers may have no repository: their text stays, with the
path. Anchors are those that GitHub makes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
# Pages of the site that lie beside docs/, and their names there.
BESIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "README.md"}

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.M | re.S)
_AWAY = r"\"(?:https?:)?//[^\"]*\""
_LOADS = re.compile(
    rf"<(?:script|img|iframe|source)\b[^>]*\bsrc={_AWAY}"
    rf"|<link\b[^>]*\brel=\"(?:stylesheet|preconnect|preload)\"[^>]*{_AWAY}"
)


def on_config(config: MkDocsConfig) -> None:
    """Name the pages of a folder where the navigation names the folder, which ends in a slash."""
    config.nav = _with_pages(config.nav)


def _with_pages(nav: Any) -> Any:
    if isinstance(nav, dict):
        return {title: _with_pages(below) for title, below in nav.items()}
    if isinstance(nav, list):
        return [_with_pages(each) for each in nav]
    if not nav.endswith("/"):
        return nav
    names = sorted(page.name for page in (ROOT / "docs" / nav).glob("*.md"))
    # The contents come first.
    return [nav + name for name in sorted(names, key=lambda name: name != "README.md")]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie beside docs/."""
    for source, name in BESIDE.items():
        if name != "README.md":
            content = _from_docs((ROOT / source).read_text("utf-8"))
            files.append(File.generated(config, name, content=content))
    return files


def _from_docs(text: str) -> str:
    """Return a page of the root as if it lay in docs/."""
    return _outside_code(text, lambda found: f"[{found[1]}]({_moved(found[2])}{found[3] or ''})")


def _moved(link: str) -> str:
    if "://" in link:
        return link
    return link.removeprefix("docs/") if link.startswith("docs/") else f"../{link}"


def _outside_code(text: str, change: Callable[[re.Match[str]], str]) -> str:
    parts = _CODE.split(text)
    parts[::2] = (_LINK.sub(change, part) for part in parts[::2])
    return "".join(parts)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of a page within the site."""
    return led_within_site(markdown, page.file.src_uri)


def led_within_site(markdown: str, page: str) -> str:
    """Return the text of a page with links out of docs/ to pages of the site, or as text.

    The README of the project has no page of its own: the home of the site is in its place.
    """
    folder = posixpath.dirname(page)

    def change(found: re.Match[str]) -> str:
        text, link, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join("docs", folder, link))
        if "://" in link or (path.startswith("docs/") and not (ROOT / path).is_dir()):
            return found[0]
        if path in BESIDE:
            return f"[{text}]({posixpath.relpath(BESIDE[path], folder or '.')}{anchor})"
        name = f"`{path}`"
        return f"{text} ({name} in the repository)" if text.strip("`") != path else name

    return _outside_code(markdown, change)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site whose pages load something from a network."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        if found := _LOADS.search(page.read_text("utf-8")):
            raise PluginError(f"{page.name} loads something from a network: {found[0]}")
