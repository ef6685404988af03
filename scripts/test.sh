#!/usr/bin/env bash
# Runs all checks on a machine with Rust, Python 3, a C compiler, Go, and root. Prints one line per stage, with its duration.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
number=0 stages=12

# In GB. A full run needs 20: Go's cache 7, the Rust targets 10, the lab's programs and its pods 3.
disk=25 free=0
measure_disk() { free=$(df --output=avail --block-size=1G . | tail -n 1 | tr -dc 0-9); }
# stage NAME SECONDS COMMAND...: SECONDS is the duration in a fresh clone on two cores.
stage() {
  local name=$1 seconds=$2 start=$SECONDS; shift 2
  number=$((number + 1))
  say "== [$(clock $SECONDS)] $number/$stages $name ($(usual "test: $name" "$seconds")) ..."
  if ! "$@"; then
    measure_disk
    say "== [$(clock $SECONDS)] $number/$stages $name: FAILED after $((SECONDS - start)) s; $free GB of disk are free"
    exit 1
  fi
  say "== [$(clock $SECONDS)] $number/$stages $name: ok, $(clock $((SECONDS - start)))"
  took "test: $name" $((SECONDS - start))
}

tools() {
  measure_disk
  ((free >= disk)) || say "warning: $free GB of disk are free in $PWD; a full run needs up to $disk GB"
  need cargo "" "https://rustup.rs"
  need cc gcc
  need python3 python3
  need openssl openssl
  need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"
  cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
}
# The program and all tests are compiled first, once for all stages.
compile() { cargo build --workspace --bin lockgate && cargo test --workspace --no-run && scripts/example.sh; }
unit() {
  local failed=0
  cargo test --workspace --no-fail-fast --lib --bins || failed=$?
  cargo test --workspace --no-fail-fast --doc || failed=$?
  cargo test --workspace --no-fail-fast --test smoke --test system || failed=$?
  return "$failed"
}

stage "tools" 2 tools
stage "real Envoy" 15 scripts/envoy.sh
stage "real gRPC" 15 scripts/grpc.sh
stage "Kubernetes: the lab's programs" 170 scripts/lab.sh build
stage "compile" 260 compile
stage "lint" 60 make --no-print-directory lint
stage "dependencies, licenses and advisories" 70 scripts/deny.sh
stage "chart and manifests" 5 scripts/manifests.sh --check
stage "documentation, site and links" 120 scripts/docs.sh --check
stage "unit, golden and protocol tests" 120 unit
# The lab runs the debug program, which exists already. `make e2e` and `make conformance` build a release program, which takes 5 to 10
# minutes.
LOCKGATE=$(readlink -m "${CARGO_TARGET_DIR:-target}/debug/lockgate")
export LOCKGATE
stage "real Envoy, gRPC, API server and cluster" 1400 scripts/e2e.sh
stage "the official Gateway API conformance suite" 300 env REPORT="$PWD/.lockgate/conformance.yaml" scripts/conformance.sh
say "== [$(clock $SECONDS)] all $stages stages passed"
