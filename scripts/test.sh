#!/usr/bin/env bash
# Runs all checks on a machine with Rust, Python 3, a C compiler, Go, and root. Prints one line per stage, with its duration, and at the
# end a table of the stages and of the slowest tests.
# env: SEED   the seed of the property tests (1); SEED=random takes another one in each run
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
number=0 stages=15
table=() failed=()
# Whether the later stages need the current one.
needed=1

# In GB. A full run needs 15: Go's cache 5, the Rust targets 7, the lab's programs and its pods 3.
disk=20 free=0
measure_disk() { free=$(df --output=avail --block-size=1G . | tail -n 1 | tr -dc 0-9); }
# busy: the CPU time of all processes since the machine has started, in hundredths of a second.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
# stage NAME SECONDS COMMAND...: SECONDS is the duration in a fresh clone on two cores. After a stage that failed, the others still run,
# unless they need it.
stage() {
  local name=$1 seconds=$2 start=$SECONDS cpu; shift 2
  cpu=$(busy) number=$((number + 1))
  say "== [$(clock $SECONDS)] $number/$stages $name ($(usual "test: $name" "$seconds")) ..."
  if "$@"; then
    say "== [$(clock $SECONDS)] $number/$stages $name: ok, $(clock $((SECONDS - start)))"
  else
    measure_disk
    say "== [$(clock $SECONDS)] $number/$stages $name: FAILED after $((SECONDS - start)) s; $free GB of disk are free"
    failed+=("$name")
    [[ -z $needed ]] || exit 1
  fi
  table+=("| $name | $((SECONDS - start)) | $((($(busy) - cpu) / 100)) |")
  took "test: $name" $((SECONDS - start))
}

# beside NAME COMMAND...: starts a stage that mostly waits, beside the next ones. wait_beside prints the output of all of them.
declare -A pids=() starts=()
log_of() { echo ".lockgate/${1// /-}.log"; }
beside() {
  local name=$1; shift
  number=$((number + 1)) starts[$name]=$SECONDS
  say "== [$(clock $SECONDS)] $number/$stages $name, beside the next stages; its output: $(log_of "$name") ..."
  mkdir -p .lockgate
  setsid "$@" >"$(log_of "$name")" 2>&1 </dev/null &
  pids[$name]=$!
}
wait_beside() {
  local name result
  for name in "${!pids[@]}"; do
    result=ok
    say "== [$(clock $SECONDS)] waiting for: $name ..."
    wait "${pids[$name]}" || { result=FAILED && failed+=("$name"); }
    cat "$(log_of "$name")"
    say "== [$(clock $SECONDS)] $name: $result, $(clock $((SECONDS - starts[$name]))) at most"
    table+=("| $name, beside others | $((SECONDS - starts[$name])) | |")
    unset "pids[$name]"
  done
}
# What runs beside this script ends with it, and its labs are taken down.
finish() {
  local pid
  for pid in "${pids[@]}"; do kill -- "-$pid" 2>/dev/null && wait "$pid"; done
}
trap finish EXIT

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
unit() {
  local status=0
  say "the seed of the property tests: ${PROPTEST_RNG_SEED:-random}"
  # Some tests wait, so more tests than cores run at a time.
  run_tests --lib --bins -- --test-threads "$((2 * $(nproc)))" || status=$?
  cargo test --workspace --no-fail-fast --doc || status=$?
  return "$status"
}

export PROPTEST_RNG_SEED=${SEED:-1}
[[ $PROPTEST_RNG_SEED != random ]] || unset PROPTEST_RNG_SEED
failures=.lockgate/failures.txt
rm -f .lockgate/tests.tsv "$failures"

stage "tools" 2 tools
stage "real Envoy" 15 scripts/envoy.sh
stage "real gRPC" 15 scripts/grpc.sh
stage "Kubernetes: the lab's programs" 10 scripts/lab.sh build
stage "compile" 260 compile_tests
# The lab runs the debug program, which exists already. `make e2e` and `make conformance` build a release program, which takes 5 to 10
# minutes.
LOCKGATE=$(readlink -m "${CARGO_TARGET_DIR:-target}/debug/lockgate")
export LOCKGATE
needed=
# The benchmarks wait for the controller to rest, the specs for each other and for pods, and the suite for the status of objects. Beside
# the tests with a real Envoy, which take both cores, a Service that is replaced would be away for longer than it may be.
beside "small benchmarks" bash -c '. scripts/tools.sh && run_tests --test smoke --test system'
stage "lint" 60 make --no-print-directory lint
stage "dependencies, licenses and advisories" 70 scripts/deny.sh
stage "chart and manifests" 5 scripts/manifests.sh --check
stage "schemas of lockgate check" 5 scripts/schemas.sh --check
stage "documentation, site and links" 120 scripts/docs.sh --check
stage "unit, golden and protocol tests" 180 unit
wait_beside
stage "real Envoy, gRPC and API server" 540 scripts/e2e.sh outside
beside "specs in the lab" scripts/e2e.sh cluster
stage "the official Gateway API conformance suite" 300 env REPORT="$PWD/.lockgate/conformance.yaml" scripts/conformance.sh
wait_beside
printf '%s\n' "| stage | wall, s | CPU, s |" "| --- | ---: | ---: |" "${table[@]}" ""
scripts/tests.py --slowest 30
# Their whole output is thousands of lines above.
[[ ! -s $failures ]] || { say "" && say "failed tests:" && cat "$failures" >&2; }
((${#failed[@]} == 0)) || die "failed: $(printf '%s; ' "${failed[@]}" | sed 's/; $//')"
say "== [$(clock $SECONDS)] all $stages stages passed"
