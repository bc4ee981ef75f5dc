"""A hook of MkDocs: pages from outside docs/, and links that work on GitHub and on the site."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
# Files of the repository's root -> pages.
PAGES = {
    "README.md": "index.md",
    "README_zh.md": "README_zh.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s]+)\)")
BLOCK_OF_CODE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie at the repository's root."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Return a page whose relative links lead to pages of the site, or to the repository."""
    sources = {page: name for name, page in PAGES.items()}
    place = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    folder, own = posixpath.dirname(place), posixpath.dirname(page.file.src_uri)

    def lead(link: re.Match) -> str:
        mark, text, target = link.groups()
        name, hash_, anchor = target.partition("#")
        if not name or ":" in name:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, name))
        known = PAGES.get(path) or path.removeprefix("docs/")
        if (path in PAGES or path.startswith("docs/")) and files.get_file_from_path(known):
            return f"{mark}[{text}]({posixpath.relpath(known, own or '.')}{hash_}{anchor})"
        if not (ROOT / path).exists():
            return link[0]  # MkDocs reports it.
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        url = f"{(config.repo_url or '').rstrip('/')}/{kind}/main/{path}"
        return f"[{text}]({url}{hash_}{anchor})" if config.repo_url else text

    parts = BLOCK_OF_CODE.split(markdown)  # every second part is a block
    parts[::2] = (LINK.sub(lead, part) for part in parts[::2])
    return "".join(parts)
