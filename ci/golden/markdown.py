"""Shows Markdown of `clawrl ci` to cmark-gfm, the parser that GitHub reads pull requests with, and looks at what became of it.

Reads the snapshots harness/regression/tests/it/snapshots/*markdown_*.snap, which a test holds against what is written, and
writes harness/regression/tests/golden/markdown.json: versions, and the SHA-256 of each text in which nothing but its own tables and
folds is structure. The test fails for a text that is not listed there. Other files can be named to be shown instead.

    python3 -m venv /tmp/gfm && /tmp/gfm/bin/pip install cmarkgfm==2025.10.22
    /tmp/gfm/bin/python ci/golden/markdown.py                # writes markdown.json
    /tmp/gfm/bin/python ci/golden/markdown.py FILE...        # only looks
"""

import html.parser
import pathlib

import cmarkgfm
from cmarkgfm.cmark import Options

import committed

TESTS = pathlib.Path(__file__).resolve().parents[2] / "harness/regression/tests"
ALLOWED = set("h2 h3 p ul li strong code table thead tbody tr th td details summary".split())
# What GitHub takes as a comment.
MOST_CHARACTERS = 65_536


class Reader(html.parser.HTMLParser):
    """Raises for a tag that is none of ours, for an attribute other than an alignment, and for what is closed out of order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ALLOWED or any(name != "align" for name, _ in attrs):
            raise ValueError(f"<{tag} {attrs}> is none of ours")
        self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes something else")

    def handle_data(self, data):
        # Where GitHub looks for mentions: in all text but code.
        if "@" in data and "code" not in self.open:
            raise ValueError(f"{data!r} may mention a user")


def accept(text):
    """Raises where GitHub would make something else of it than text in tables, lists and folds."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"{len(text)} characters are too many")
    reader = Reader()
    reader.feed(cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE))
    reader.close()
    if reader.open:
        raise ValueError(f"{reader.open} are not closed")


if __name__ == "__main__":
    committed.judge(accept, TESTS, "markdown", ("cmarkgfm",))
