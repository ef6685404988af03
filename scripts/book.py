#!/usr/bin/env python3
"""The links of the site.

book.py                 a preprocessor of mdBook: links to files outside of docs/ lead to the repository, and each design
                        decision is a page
book.py check DIR       checks each link and anchor between the built pages in DIR; external links are not requested
"""
import json
import os
import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

REPOSITORY = "https://github.com/lockgate/lockgate"


def rewritten(content, path, root):
    """The text of the page docs/PATH, with links to files outside of docs/ replaced."""
    def link(match):
        target = match.group(1)
        if "://" in target or target.startswith("#"):
            return match.group(0)
        file, _, anchor = target.partition("#")
        place = os.path.normpath(os.path.join("docs", os.path.dirname(path), file))
        if place.startswith("docs/") and not os.path.isdir(os.path.join(root, place)):
            # mdBook makes an index of each README.
            return match.group(0).replace("README.md", "index.md")
        form = "tree" if os.path.isdir(os.path.join(root, place)) else "blob"
        return f"]({REPOSITORY}/{form}/main/{place}{'#' + anchor if anchor else ''})"
    return re.sub(r"\]\(([^)\s]+)\)", link, content)


def chapters(items):
    """All chapters, at any depth."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            yield chapter
            yield from chapters(chapter["sub_items"])


def decisions(root, above):
    """The chapters of docs/decisions, which SUMMARY.md does not list one by one."""
    for name in sorted(os.listdir(os.path.join(root, "docs/decisions"))):
        if name[0].isdigit():
            path = f"decisions/{name}"
            with open(os.path.join(root, "docs", path), encoding="utf-8") as file:
                content = file.read()
            title = content.split("\n", 1)[0].lstrip("# ")
            yield {"Chapter": {"name": title, "content": content, "number": None, "sub_items": [], "path": path,
                               "source_path": path, "parent_names": above}}


def preprocess():
    context, book = json.load(sys.stdin)
    root = os.path.dirname(os.path.abspath(context["root"]))
    items = book.get("items") or book["sections"]
    for chapter in chapters(items):
        if chapter.get("source_path") == "decisions/README.md":
            chapter["sub_items"] = list(decisions(root, [chapter["name"]]))
    for chapter in chapters(items):
        if chapter.get("source_path"):
            chapter["content"] = rewritten(chapter["content"], chapter["source_path"], root)
    json.dump(book, sys.stdout)


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
            elif (tag, name) in {("a", "href"), ("img", "src")} and value:
                self.links.append(value)


def check(directory):
    # print.html repeats all pages; 404.html has absolute links.
    names = [os.path.relpath(os.path.join(at, name), directory) for at, _, files in os.walk(directory)
             for name in files if name.endswith(".html") and name not in {"print.html", "404.html", "toc.html"}]
    pages = {name: Page(os.path.join(directory, name)) for name in sorted(names)}
    faults, count = [], 0
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            path, anchor = unquote(parts.path), unquote(parts.fragment)
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if target.endswith("print.html") or link.startswith("/"):
                continue
            if not os.path.exists(os.path.join(directory, target)):
                faults.append(f"{name}: {link}: no such page")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                faults.append(f"{name}: {link}: no such heading")
    print("\n".join(faults + [f"{count} links in {len(pages)} pages, {len(faults)} broken"]), file=sys.stderr)
    return 1 if faults or not count else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0)
    sys.exit(check(sys.argv[2]) if sys.argv[1:2] == ["check"] else preprocess())
