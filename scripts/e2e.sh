#!/usr/bin/env bash
# The tests on real Envoy and API server. usage: e2e.sh [FILE [FILTER]]   (FILE: a name in e2e/tests, without .rs)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
need cargo "" "https://rustup.rs"
cargo build --workspace --bin lockgate --example xds_server
# --nocapture: the figures are a part of the result.
exec cargo test --workspace --test "${1:-*}" -- --nocapture ${2:+"$2"}
