#!/usr/bin/env bash
# Benchmarks of the whole system beside Contour and Envoy Gateway, on a real API server; about 40 minutes without the case propagation,
# which takes two hours more.
# env: CASES=ingress,endpoint (cold ingress endpoint burst churn memory fanout tls envoy request routes proxies policies gateways shared propagation),
#      SIZES=1k,10k, MAIN=10k, WHO=lockgate (lockgate contour envoy-gateway lockgate-sotw contour-delta), CLIENTS=100, ENVOYS=1, CHURN=5 (seconds),
#      BUDGET=10 (seconds for a series), ROUNDS=1, QUICK=1 for a small run, OUTPUT=file. BENCHMARKS.md and its plots are written
#      when everything is measured.
#      The case propagation, the public Gateway API benchmark, installs each controller in a lab, and needs root: ROUTES=1k,3k,10k
#      (numbers of routes; 1k alone takes 15 minutes), PROBE=PROGRAM (runs the original program probe instead), LAB=bench and
#      DIR=/tmp/$LAB (name and state of the lab).
#      AGAINST=PROGRAM compares this build with another one of lockgate, by turns, three rounds each: sizes 1k and 10k, the cases
#      cold, ingress, endpoint, fanout, tls; about 15 minutes. CASES=envoy,request compares them through real Envoys.
#      LOCKGATE, CONTOUR, ENVOY_GATEWAY, NGINX, SHARED_HOST, BENCH, ENVOY, BIN: programs that exist already.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
need cargo "" "https://rustup.rs"
need cc gcc
need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"

# An empty list is all of them.
measures() { [[ -z $1 || ",$1," == *",$2,"* ]]; }

if [[ -n ${AGAINST:-} ]]; then
  [[ -x $AGAINST ]] || die "AGAINST: \"$AGAINST\" is not a program"
  AGAINST=$(realpath "$AGAINST")
  CASES=${CASES:-cold,ingress,endpoint,fanout,tls} SIZES=${SIZES:-1k,10k} CLIENTS=${CLIENTS:-100}
fi
if [[ -n ${QUICK:-} ]]; then
  ROUTES=${ROUTES:-100} SIZES=${SIZES:-100,1k} CLIENTS=${CLIENTS:-20} ENVOYS=${ENVOYS:-1} CHURN=${CHURN:-5} BUDGET=${BUDGET:-3}
fi
cases=${CASES:-} who=${WHO:-}
[[ -z ${AGAINST:-} ]] || who=${WHO:-lockgate}

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/peers"
target=$(cd "$target" && pwd)
say "building ..."
programs=(--bin bench)
[[ -n ${LOCKGATE:-} ]] || programs+=(--bin lockgate)
[[ -n ${BENCH:-} ]] || cargo build --release --locked --workspace --features jemalloc "${programs[@]}"
export LOCKGATE=${LOCKGATE:-$target/release/lockgate}
# The lab's programs and Envoy: quick when they exist.
export BIN=${BIN:-$PWD/e2e/lab/bin}
if measures "$cases" propagation; then
  scripts/lab.sh build
else
  e2e/lab/build.sh etcd kube-apiserver kubectl helm | sed -u '/: up to date /d' >&2
fi
[[ -n ${ENVOY:-} ]] || scripts/envoy.sh

# go_program MODULE_DIRECTORY PACKAGE NAME: builds a Go program of a pinned module.
go_program() { (cd "$1" && go build -mod=readonly -o "$target/peers/$3" -ldflags "-s -w" "$2"); }
# go_files MODULE_DIRECTORY MODULE: where the files of a module are.
go_files() { (cd "$1" && go mod download "$2" && go list -mod=readonly -m -f '{{.Dir}}' "$2"); }

arguments=()
contour=github.com/projectcontour/contour
if measures "$who" contour || measures "$who" contour-delta; then
  [[ -n ${CONTOUR:-} ]] || go_program bench/contour $contour/cmd/contour contour
  arguments+=(--contour "${CONTOUR:-$target/peers/contour}")
fi
if measures "$who" contour || measures "$who" contour-delta || measures "$cases" proxies; then
  arguments+=(--contour-types "$(go_files bench/contour $contour)/examples/contour/01-crds.yaml")
fi
if measures "$cases" routes || measures "$cases" policies || measures "$cases" gateways || measures "$cases" propagation; then
  gateway=github.com/envoyproxy/gateway
  types=$(go_files bench/envoy-gateway sigs.k8s.io/gateway-api)/config/crd/experimental
  if measures "$who" envoy-gateway; then
    [[ -n ${ENVOY_GATEWAY:-} ]] || go_program bench/envoy-gateway $gateway/cmd/envoy-gateway envoy-gateway
    arguments+=(--envoy-gateway "${ENVOY_GATEWAY:-$target/peers/envoy-gateway}")
    types+=,$(go_files bench/envoy-gateway $gateway)/charts/gateway-helm/charts/crds/crds/generated
  fi
  arguments+=(--gateway-types "$types")
fi
if measures "$cases" policies; then
  arguments+=(--own-types crds)
fi
if measures "$cases" request; then
  if [[ -z ${NGINX:-} ]]; then
    # The package is unpacked, not installed: an installation would start a server on port 80.
    NGINX=$(command -v nginx || echo "$target/peers/nginx/usr/sbin/nginx")
    if [[ ! -x $NGINX ]]; then
      say "unpacking the package nginx ..."
      mkdir -p "$target/peers/nginx"
      (cd "$target/peers/nginx" && { apt-get download nginx || { apt-get update && apt-get download nginx; }; } >/dev/null 2>&1 &&
        dpkg -x nginx_*.deb .) || die "nginx is missing (Debian package nginx)"
    fi
  fi
  arguments+=(--nginx "$NGINX")
fi
if measures "$cases" shared; then
  if [[ -z ${SHARED_HOST:-} ]]; then
    built=$(cargo bench --locked -p lockgate-route --features testing --bench shared_host --no-run --message-format=json)
    SHARED_HOST=$(sed -n 's/.*"executable":"\([^"]*shared_host[^"]*\)".*/\1/p' <<<"$built")
  fi
  arguments+=(--shared-host "$SHARED_HOST")
fi
option() { [[ -z $2 ]] || arguments+=("--$1" "$2"); }
option against "${AGAINST:-}"
option cases "$cases"
option sizes "${SIZES:-}"
option main "${MAIN:-}"
option who "${WHO:-}"
option clients "${CLIENTS:-}"
option envoys "${ENVOYS:-}"
option churn-seconds "${CHURN:-}"
option budget "${BUDGET:-}"
option rounds "${ROUNDS:-}"
option routes "${ROUTES:-}"
option probe "${PROBE:-}"
[[ -n ${OUTPUT:-}${CASES:-}${SIZES:-}${WHO:-}${QUICK:-} ]] || OUTPUT=BENCHMARKS.md
option output "${OUTPUT:-}"
program=${BENCH:-$target/release/bench}
if measures "$cases" propagation; then
  export LAB=${LAB:-bench}
  export DIR=${DIR:-/tmp/$LAB}
  [[ ! -e $DIR ]] || die "$DIR exists: make lab-down LAB=$LAB removes the lab of another run"
  # A run that is interrupted leaves no lab.
  trap 'e2e/lab/cluster.sh down || true' EXIT
  trap 'exit 130' INT TERM HUP
  "$program" "${arguments[@]}"
else
  exec "$program" "${arguments[@]}"
fi
