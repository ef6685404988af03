#!/usr/bin/env bash
# Runs Contour's own end-to-end suites, unmodified, against this program in a lab, and removes the lab.
# usage: contour-conformance.sh [FLAG...]    FLAGs go to Ginkgo, for example --ginkgo.fail-fast
# env:
#   FOCUS      a regular expression: only tests whose full text matches, for example header-condition
#   SKIP       a regular expression: without these tests
#   SUITES     "httpproxy ingress infra"
#   OBJECT     1 configures Contour by ContourConfigurations, which `lockgate migrate contour` translates, instead of files
#   KEEP       1 keeps the lab; the next run reuses it
#   LAB, BIN, DIR   name, programs, and state of the lab (contour, e2e/lab/bin, /tmp/$LAB)
#   LOCKGATE   the program (a release build)
#
# e2e/contour has what stands in for Contour and for the other parts of its test environment.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
case ${1:-} in -h | --help | help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit ;; esac

export LAB=${LAB:-contour} BIN=${BIN:-$PWD/e2e/lab/bin}
export DIR=${DIR:-/tmp/$LAB}
suites=${SUITES:-httpproxy ingress infra}
results=$PWD/.lockgate/contour-conformance
[[ $LAB == contour ]] || results+=-$LAB
stand_ins=$PWD/e2e/contour
# An address that the load balancer of the lab assigns on request: the suites need to know it before they start.
address=10.245.255.1

[[ $EUID == 0 ]] || die "the lab needs root, for network namespaces"
need openssl openssl
need python3 python3
need ip iproute2
need nft nftables
need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"
reused=
if [[ -e /run/netns/$LAB || -e $DIR ]]; then
  [[ -e /run/netns/$LAB && -e $DIR/contour-conformance ]] ||
    die "$LAB is another lab, or the rest of one: make lab-down LAB=$LAB removes it, LAB=mine chooses another name"
  reused=1
fi

e2e/lab/build.sh etcd kube-apiserver kube-controller-manager kube-proxy kubectl coredns echo-basic venv envoy contour-e2e | sed -u '/: up to date /d' >&2
BIN=$(readlink -f "$BIN") programs=$(readlink -f "$BIN/contour-e2e")
release_program
export IMAGES="projectcontour/contour-authserver=$programs/contour-authserver;envoyproxy/ratelimit=$programs/ratelimit;redis:=sleep infinity"
IMAGES+=";projectcontour/yages=$programs/yages;grpc-health-probe=$programs/grpc-health-probe;ealen/echo-server=python3 $stand_ins/echo_server.py"

inside() { e2e/lab/cluster.sh exec "$@"; }
# The stand-ins run with the Python of the lab, which has the client library of Kubernetes.
with_stand_ins() { inside env PATH="$stand_ins/bin:$BIN/venv/bin:$BIN:$PATH" "$@"; }
issuer=
finish() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  [[ -z $issuer ]] || kill -- "-$issuer" 2>/dev/null || true
  say "the output of each failed test, and the settings of each run: $results"
  if [[ -n ${KEEP:-} && -e $DIR/contour-conformance ]]; then
    say "the lab is still up. A shell in it: LAB=$LAB e2e/lab/cluster.sh exec bash. Its end: make lab-down LAB=$LAB"
  else
    e2e/lab/cluster.sh down || true
  fi
  exit "$status"
}
rm -rf "$results"
mkdir -p "$results/settings"
trap finish EXIT
trap 'exit 130' INT TERM HUP

if [[ -z $reused ]]; then
  say "the lab: etcd, API server, controller manager, kube-proxy, two nodes, DNS ..."
  e2e/lab/cluster.sh up
  inside kubectl apply -f e2e/lab/coredns.yaml >/dev/null
  inside kubectl --namespace kube-system rollout status deployment/coredns --timeout=60s >/dev/null
  say "the CRDs of Contour, and two of cert-manager ..."
  inside kubectl apply --server-side -f "$programs/crds" >/dev/null
  inside kubectl wait --for=condition=Established --timeout=60s -f "$programs/crds" >/dev/null
  inside kubectl apply -f e2e/contour/service.yaml >/dev/null
  : >"$DIR/contour-conformance"
else
  # The suites do not wait for the end of the namespaces that they delete.
  inside kubectl delete namespace --selector contour-e2e-ns=true --timeout=120s >/dev/null 2>&1
fi
set -m # The issuer is a process group of its own, so that its end reaches its children.
with_stand_ins python3 -u e2e/contour/issuer.py >"$results/issuer.log" 2>&1 &
issuer=$!
set +m

status=0
for suite in $suites; do
  [[ -x $programs/$suite.test ]] || die "SUITES: no suite $suite"
  say "the suite $suite${FOCUS:+, tests that match $FOCUS} ..."
  with_stand_ins env SETTINGS="$results/settings" KUBECTL="$BIN/kubectl" \
    CONTOUR_E2E_ENVOY_DEPLOYMENT_MODE=deployment CONTOUR_E2E_LOCAL_HOST=10.244.0.1 \
    CONTOUR_E2E_HTTP_URL_BASE=http://$address CONTOUR_E2E_HTTPS_URL_BASE=https://$address \
    ${OBJECT:+USE_CONTOUR_CONFIGURATION_CRD=true} \
    CONTOUR_E2E_HTTP_URL_METRICS_BASE=http://$address:8002 CONTOUR_E2E_HTTP_URL_ADMIN_BASE=http://127.0.0.1:19001 \
    "$programs/$suite.test" -test.timeout 4h --ginkgo.timeout 4h --ginkgo.no-color --ginkgo.seed 1 --ginkgo.poll-progress-after 0 \
    --ginkgo.json-report "$results/$suite.json" ${FOCUS:+--ginkgo.focus "$FOCUS"} ${SKIP:+--ginkgo.skip "$SKIP"} "$@" \
    >"$results/$suite.txt" 2>&1 || [[ -s $results/$suite.json ]] || status=1
done
"$BIN/venv/bin/python3" e2e/contour/report.py "$results" ${FOCUS:+--selected} ${SKIP:+--selected} || status=1
[[ $status == 0 ]] || die "some tests failed"
