#!/usr/bin/env bash
# Checks all dependencies with cargo-deny and deny.toml: licenses, sources, and bans; also advisories if the database of
# RustSec can be fetched or is cached.
# env: ADVISORIES=required fails without the database (for a CI with network access)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
database=https://github.com/RustSec/advisory-db

cargo_tool cargo-deny 0.20.2

cargo-deny --workspace check --hide-inclusion-graph licenses sources bans

databases=${CARGO_HOME:-$HOME/.cargo}/advisory-dbs
if why=$(GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote --exit-code "$database" HEAD 2>&1 >/dev/null); then
  cargo-deny --workspace check advisories
elif compgen -G "$databases/*/crates" >/dev/null || compgen -G "$databases/*/.git" >/dev/null; then
  say "advisories: $database cannot be reached; checking with the copy of it in $databases"
  cargo-deny --workspace check --disable-fetch advisories
elif [[ ${ADVISORIES:-} == required ]]; then
  die "advisories: not checked, and ADVISORIES=required: $database cannot be fetched ($(tail -n 1 <<<"$why"))"
else
  say "advisories: NOT CHECKED: $database cannot be fetched ($(tail -n 1 <<<"${why:-no answer in 20 s}"))"
  say "advisories: run \`make deny\` where it can be, or put a copy of it into $databases"
fi
