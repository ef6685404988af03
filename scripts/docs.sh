#!/usr/bin/env bash
# The site of the documentation, in .lockgate/book: builds it and checks its links. Before that, it rewrites what is made
# from the code and from text: the pages of docs/reference and others, and the diagrams.
# usage: docs.sh [--check]     (--check: rewrites nothing; a unit test fails if a page or diagram is not up to date)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
wanted=0.5.4
root=.lockgate/cargo
book=.lockgate/book

if [[ ${1:-} != --check ]]; then
  need cargo "" "https://rustup.rs"
  BLESS=1 cargo test --quiet --workspace --lib -- tidy::annotations tidy::cases tidy::generated reference translate::foreign \
    check::tests::the_documentation explain::tests::the_documentation
  need dot graphviz
  for source in docs/diagrams/*.dot; do
    # The source is part of the picture, so that a test can tell whether the picture is up to date.
    dot -Tsvg "$source" | sed -e '/^<?xml/d; /^<!DOCTYPE/d; /^ "http/d; /^<!-- /d; /^ -->$/d' \
      -e '/^<\/svg>$/d' >"${source%.dot}.svg"
    { echo "<metadata><![CDATA["; cat "$source"; echo "]]></metadata>"; echo "</svg>"; } >>"${source%.dot}.svg"
  done
fi

# mdBook is used as it is found; else it is built once, without optimization and without its web server.
if ! command -v mdbook >/dev/null; then
  PATH=$PWD/$root/bin:$PATH
  if [[ $(mdbook --version 2>/dev/null) != "mdbook v$wanted" ]]; then
    need cargo "" "https://rustup.rs"
    say "mdBook $wanted: from crates.io into $root, once; this takes some minutes ..."
    start=$SECONDS
    cargo install --quiet --locked --debug --no-default-features --features search --root "$root" \
      --target-dir "$root/target" "mdbook@$wanted"
    rm -rf "$root/target"
    say "mdBook $wanted: built in $((SECONDS - start)) s"
  fi
fi
need python3 python3
rm -rf "$book"
(cd docs && mdbook build 2>&1 | sed '/INFO/d' >&2)
scripts/book.py check "$book"
say "the site: $book/index.html"
