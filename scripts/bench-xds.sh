#!/usr/bin/env bash
# Runs the benchmarks of the xDS server beside go-control-plane. ONLY=B2,B3 runs some, QUICK=1 small sizes, FULL=1 also the
# largest sizes. A run of all benchmarks at the usual sizes or more writes docs/benchmarks-xds.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
need cargo "" "https://rustup.rs"
need cc gcc
need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"

target=${CARGO_TARGET_DIR:-target}
say "building ..."
cargo build --release --workspace --bin bench-xds --bin lockgate-xds-bench-server
mkdir -p "$target/release"
target=$(cd "$target" && pwd)
(cd bench/go-control-plane && go build -mod=readonly -o "$target/release/go-control-plane-bench-server" .)

arguments=(--go-control-plane "$target/release/go-control-plane-bench-server")
[[ -z ${ONLY:-} ]] || arguments+=(--only "$ONLY")
[[ -z ${QUICK:-} ]] || arguments+=(--quick)
[[ -z ${FULL:-} ]] || arguments+=(--full)
[[ -n ${ONLY:-}${QUICK:-} ]] || arguments+=(--output docs/benchmarks-xds.md)
exec "$target/release/bench-xds" "${arguments[@]}"
