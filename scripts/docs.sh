#!/usr/bin/env bash
# The site of the documentation, in .lockgate/book: builds it and checks its links. Before that, it rewrites what is made
# from the code and from text: the pages of docs/reference and others, and the diagrams.
# usage: docs.sh [--check]     (--check: rewrites nothing; a unit test fails if a page or diagram is not up to date)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
book=.lockgate/book

if [[ ${1:-} != --check ]]; then
  need cargo "" "https://rustup.rs"
  BLESS=1 cargo test --quiet --workspace --lib -- tidy::annotations tidy::cases tidy::generated reference crds::fields crds::pages translate::foreign \
    check::tests::the_documentation explain::tests::the_documentation
  need dot graphviz
  for source in docs/diagrams/*.dot; do
    # The source is part of the picture, so that a test can tell whether the picture is up to date.
    dot -Tsvg "$source" | sed -e '/^<?xml/d; /^<!DOCTYPE/d; /^ "http/d; /^<!-- /d; /^ -->$/d' \
      -e '/^<\/svg>$/d' >"${source%.dot}.svg"
    { echo "<metadata><![CDATA["; cat "$source"; echo "]]></metadata>"; echo "</svg>"; } >>"${source%.dot}.svg"
  done
fi

# Without its web server.
cargo_tool mdbook 0.5.4 --no-default-features --features search
need python3 python3
rm -rf "$book"
(cd docs && mdbook build 2>&1 | sed '/INFO/d' >&2)
scripts/book.py check "$book"
say "the site: $book/index.html"
