#!/usr/bin/env bash
# Benchmarks of the whole system beside Contour, on a real API server; about 20 minutes.
# env: CASES=ingress,endpoint (cold ingress endpoint burst churn memory fanout edit envoy request), SIZES=1k,10k, MAIN=10k, WHO=lockgate
#      (lockgate contour lockgate-sotw contour-delta), CLIENTS=100, ENVOYS=1, CHURN=5 (seconds), BUDGET=10 (seconds for a
#      series), QUICK=1 for a small run, OUTPUT=file. BENCHMARKS.md and its plots are written when everything is measured.
#      LOCKGATE, CONTOUR, ENVOY, BIN: programs that are there already.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
need cargo "" "https://rustup.rs"
need cc gcc
need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"
module=github.com/projectcontour/contour

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/release"
target=$(cd "$target" && pwd)
say "building ..."
programs=(--bin bench)
[[ -n ${LOCKGATE:-} ]] || programs+=(--bin lockgate)
[[ -n ${BENCH:-} ]] || cargo build --release --locked --workspace "${programs[@]}"
export LOCKGATE=${LOCKGATE:-$target/release/lockgate}
# The lab's programs, Envoy, Contour: quick when they are there.
export BIN=${BIN:-$PWD/e2e/lab/bin}
e2e/lab/build.sh etcd kube-apiserver kubectl | sed '/: up to date /d' >&2
[[ -n ${ENVOY:-} ]] || scripts/envoy.sh
if [[ -z ${CONTOUR:-} ]]; then
  CONTOUR=$target/release/contour
  (cd bench/contour && go build -mod=readonly -o "$CONTOUR" -ldflags "-s -w" $module/cmd/contour)
fi
types=$(cd bench/contour && go list -mod=readonly -m -f '{{.Dir}}' $module)/examples/contour/01-crds.yaml

arguments=(--contour "$CONTOUR" --contour-types "$types")
if [[ -n ${QUICK:-} ]]; then
  SIZES=${SIZES:-100,1k} CLIENTS=${CLIENTS:-20} ENVOYS=${ENVOYS:-1} CHURN=${CHURN:-5} BUDGET=${BUDGET:-3}
fi
option() { [[ -z $2 ]] || arguments+=("--$1" "$2"); }
option cases "${CASES:-}"
option sizes "${SIZES:-}"
option main "${MAIN:-}"
option who "${WHO:-}"
option clients "${CLIENTS:-}"
option envoys "${ENVOYS:-}"
option churn-seconds "${CHURN:-}"
option budget "${BUDGET:-}"
[[ -n ${OUTPUT:-}${CASES:-}${SIZES:-}${WHO:-}${QUICK:-} ]] || OUTPUT=BENCHMARKS.md
option output "${OUTPUT:-}"
exec "${BENCH:-$target/release/bench}" "${arguments[@]}"
