"""Write the gate's comment to a pull request (GitHub) or merge request (GitLab), in place of the last.

    python3 post_comment.py nsysconv-comment.md

It needs Python 3.8 and nothing else. GATE_TOKEN is the token, GATE_NAME what the baseline is of: each
name has a comment of its own. On GitHub it reads GITHUB_API_URL, GITHUB_REPOSITORY and GATE_PULL_REQUEST
(the number); on GitLab CI_API_V4_URL, CI_PROJECT_ID and CI_MERGE_REQUEST_IID. The exit status is 0, and 1
where the comment could not be written, as with the token of a pull request from a fork.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_PAGE, _MOST_PAGES = 100, 30
_SECONDS = 30


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    # The token is for this server, and no other.
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect."""


class Host:
    """The API of GitHub or GitLab: where comments are, and how a token is shown."""

    def __init__(self, environment: dict[str, str]) -> None:
        """Take addresses and the token from these variables; raise KeyError where one is missing."""
        token = environment["GATE_TOKEN"]
        self.headers = {"Content-Type": "application/json", "User-Agent": "nsysconv-gate"}
        if "GITHUB_REPOSITORY" in environment:
            api = environment.get("GITHUB_API_URL", "https://api.github.com")
            issues = f"{api}/repos/{environment['GITHUB_REPOSITORY']}/issues"
            self.comments = f"{issues}/{environment['GATE_PULL_REQUEST']}/comments"
            self._one, self.method = f"{issues}/comments", "PATCH"
            self.headers["Authorization"] = f"Bearer {token}"
        else:
            api, project = environment["CI_API_V4_URL"], environment["CI_PROJECT_ID"]
            request = environment["CI_MERGE_REQUEST_IID"]
            self.comments = f"{api}/projects/{project}/merge_requests/{request}/notes"
            self._one, self.method = self.comments, "PUT"
            self.headers["PRIVATE-TOKEN"] = token

    def ask(self, method: str, url: str, body: str | None = None) -> Any:
        """Return the JSON of an answer; raise OSError."""
        data = None if body is None else json.dumps({"body": body}).encode()
        request = urllib.request.Request(url, data, self.headers, method=method)
        opener = urllib.request.build_opener(_NoRedirects)
        with opener.open(request, timeout=_SECONDS) as answer:
            return json.load(answer)

    def last(self, mark: str) -> str | None:
        """Return the address of the last comment that begins with the mark."""
        found = None
        for page in range(1, _MOST_PAGES + 1):
            comments = self.ask("GET", f"{self.comments}?per_page={_PAGE}&page={page}")
            # GitLab's newest are first, GitHub's last: the greatest number is the newest.
            marked = [each["id"] for each in comments if str(each["body"]).startswith(mark)]
            found = max([*marked, *([found] if found is not None else [])], default=None)
            if len(comments) < _PAGE:
                break
        return None if found is None else f"{self._one}/{found}"

    def write(self, mark: str, text: str) -> None:
        """Replace the comment with the mark, or write a new one; raise OSError."""
        body = f"{mark}\n{text}"
        place = self.last(mark)
        if place is not None:
            try:
                self.ask(self.method, place, body)
                return
            except urllib.error.HTTPError as error:
                # Somebody else's comment may begin like ours.
                if error.code not in (403, 404):
                    raise
        self.ask("POST", self.comments, body)


def main(arguments: list[str]) -> int:
    """Write the comment in the file that is named; return the exit status."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 1
    name = re.sub(r"[^A-Za-z0-9_-]", "-", os.environ.get("GATE_NAME") or "default")
    try:
        text = Path(arguments[0]).read_text(encoding="utf-8", errors="replace")
        Host(dict(os.environ)).write(f"<!-- nsysconv gate: {name} -->", text)
    except KeyError as missing:
        print(f"no comment is written: {missing.args[0]} is not set", file=sys.stderr)
    except urllib.error.HTTPError as error:
        print(f"no comment is written: the server answers {error.code}", file=sys.stderr)
    except (OSError, ValueError) as error:
        print(f"no comment is written: {type(error).__name__}: {error}", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
