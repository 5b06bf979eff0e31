"""Check the built site: each internal link leads somewhere, and nothing is loaded from elsewhere.

python tools/docs_check.py site
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
FETCHING = {"mermaid", "glightbox", "pyodide"}
"""Classes whose elements the theme's script would draw with the help of a script from elsewhere."""
URL_IN_CSS = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])(?P<url>[^"')]+)""")


class Page(HTMLParser):
    """What one page links to, loads, and can be linked to by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}
        self.styles: list[str] = []
        self.fetching: set[str] = set()
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given.get("href", ""))
        elif LOADS.get(tag) in given:
            self.loads.append(given[LOADS[tag]])
        self.fetching |= FETCHING & set(given.get("class", "").split())
        self.styles.append(given.get("style", ""))
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        """Take note of a style sheet in the page."""
        if self._in_style:
            self.styles.append(data)


def faults(site: Path) -> list[str]:
    """Everything that is wrong with the site, a line each."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, page in pages.items():
        name = path.relative_to(site)
        styled = [match["url"] for style in page.styles for match in URL_IN_CSS.finditer(style)]
        for url in (*page.loads, *styled):
            if urlsplit(url).netloc:
                found.append(f"{name}: loads {url} from elsewhere")
            elif not url.startswith("data:") and not _target(path, url, site).exists():
                found.append(f"{name}: loads {url}, which is not there")
        found += [f"{name}: a block of class {kind} loads a script from elsewhere" for kind in sorted(page.fetching)]
        for link in page.links if path.name != "404.html" else ():
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = _target(path, link, site)
            if not target.exists():
                found.append(f"{name}: {link} leads nowhere")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {link} names a place that {target.relative_to(site)} does not have")
    for path in sorted(site.rglob("*.css")):
        found += [
            f"{path.relative_to(site)}: loads {match['url']} from elsewhere"
            for match in URL_IN_CSS.finditer(path.read_text())
            if urlsplit(match["url"]).netloc
        ]
    return found


def _target(page: Path, url: str, site: Path) -> Path:
    path = unquote(urlsplit(url).path)
    if not path:
        return page
    target = (site / path.lstrip("/") if path.startswith("/") else page.parent / path).resolve()
    return target / "index.html" if target.is_dir() else target


def main() -> int:
    """Check the site named on the command line."""
    site = Path(sys.argv[1]).resolve()
    found = faults(site)
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages, every internal link leads somewhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
