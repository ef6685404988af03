#!/usr/bin/env bash
# Runs the official Gateway API conformance suite, unmodified, on the chart in a lab, and removes the lab.
# usage: conformance.sh [FLAG...]    FLAGs go to the suite, for example -skip-tests=A,B or -debug
# env:
#   RUN        one test, for example HTTPRouteMatching; without it, all tests of the profiles
#   KEEP       1 keeps the lab with the base resources; the next run reuses them, with the current program and chart
#   PROFILES   conformance profiles, separated by commas (all of Gateways)
#   FEATURES   extended features to test, separated by commas, "none", or "all"; by default, the features of the GatewayClass
#   CHANNEL    the channel of the CRDs: experimental (the default) or standard
#   REPORT     the file for the report of a run of all tests (conformance/report.yaml)
#   LAB, BIN, DIR   name, programs, and state of the lab (gateway, e2e/lab/bin, /tmp/$LAB)
#   LOCKGATE   the program in the lab (a release build)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
case ${1:-} in -h | --help | help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit ;; esac

export LAB=${LAB:-gateway} BIN=${BIN:-$PWD/e2e/lab/bin}
export DIR=${DIR:-/tmp/$LAB}
channel=${CHANNEL:-experimental} profiles=${PROFILES:-GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP}
results=$PWD/.lockgate/conformance-$LAB
report=$results/report.yaml
# An address that the load balancer of the lab assigns on request, and one that it refuses.
usable=10.245.255.1 unusable=203.0.113.1

[[ $EUID == 0 ]] || die "the lab needs root, for network namespaces"
[[ $channel == experimental || $channel == standard ]] || die "CHANNEL is experimental or standard, not \"$channel\""
need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"
reused=
if [[ -e /run/netns/$LAB || -e $DIR ]]; then
  [[ -e /run/netns/$LAB && -e $DIR/conformance-channel ]] ||
    die "$LAB is another lab, or the rest of one: make lab-down LAB=$LAB removes it, LAB=mine chooses another name"
  [[ $(<"$DIR/conformance-channel") == "$channel" ]] ||
    die "the lab $LAB has the CRDs of the channel $(<"$DIR/conformance-channel"): make lab-down LAB=$LAB"
  reused=1
fi

scripts/lab.sh build
e2e/lab/build.sh gateway-conformance gateway-crds | sed -u '/: up to date /d' >&2
release_program
# The lab maps images to programs when it starts.
program=$(cat "$DIR/conformance-program" 2>/dev/null || echo "$LOCKGATE")
[[ $LOCKGATE == "$program" ]] || die "the lab $LAB runs $program, not $LOCKGATE: make lab-down LAB=$LAB"
audited=$(stat --format %s "$DIR/audit.log" 2>/dev/null || echo 0)

inside() { e2e/lab/cluster.sh exec "$@"; }
# finish: keeps the logs of the controller and of the Envoys, and removes the lab.
finish() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  if [[ -e /run/netns/$LAB ]]; then
    local part
    for part in controller envoy; do
      inside timeout 20 kubectl logs --namespace lockgate --selector "app.kubernetes.io/component=$part" \
        --all-containers --prefix --tail=-1 --max-log-requests=50 >"$results/$part.log" 2>&1 || true
    done
    say "the results of the tests, and the logs of the controller and of the Envoys: $results"
  fi
  if [[ -n ${KEEP:-} && -e $DIR/conformance-channel ]]; then
    say "the lab is still up. A shell in it: LAB=$LAB e2e/lab/cluster.sh exec bash. Its end: make lab-down LAB=$LAB"
  else
    e2e/lab/cluster.sh down || true
  fi
  exit "$status"
}
rm -rf "$results"
mkdir -p "$results"
trap finish EXIT
trap 'exit 130' INT TERM HUP

if [[ -z $reused ]]; then
  say "the lab: etcd, API server, controller manager, kube-proxy, two nodes, DNS ..."
  e2e/lab/cluster.sh up
  inside kubectl apply -f e2e/lab/coredns.yaml >/dev/null
  say "the CRDs: channel $channel ..."
  inside kubectl apply --server-side -f "$BIN/gateway-crds/$channel" >/dev/null
  inside kubectl wait --for=condition=Established --timeout=60s -f "$BIN/gateway-crds/$channel" >/dev/null
  echo "$LOCKGATE" >"$DIR/conformance-program"
  echo "$channel" >"$DIR/conformance-channel"
fi
say "the chart ..."
inside env HELM_CACHE_HOME="$DIR/helm/cache" HELM_CONFIG_HOME="$DIR/helm/config" HELM_DATA_HOME="$DIR/helm/data" \
  helm upgrade --install lockgate charts/lockgate --namespace lockgate --create-namespace --wait --timeout 120s \
  --set gatewayAPI.gatewayClass.create=true >/dev/null
if [[ -n $reused ]]; then
  # The program may be a newer build of the same path.
  controllers=(--namespace lockgate deployment --selector app.kubernetes.io/component=controller)
  inside kubectl rollout restart "${controllers[@]}" >/dev/null
  inside kubectl rollout status "${controllers[@]}" --timeout=120s >/dev/null
fi
inside kubectl wait --for=condition=Accepted --timeout=60s gatewayclass/lockgate >/dev/null ||
  die "the controller did not accept the GatewayClass lockgate: $(inside kubectl get gatewayclass lockgate \
    --output jsonpath='{.status.conditions}' 2>&1)"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
flags=(-gateway-class=lockgate -conformance-profiles="$profiles" -disable-parallel-tests
  -usable-address="$usable" -unusable-address="$unusable"
  -report-output="$report" -organization=lockgate -project=lockgate -url=https://github.com/lockgate/lockgate
  -version="v$version" -contact=https://github.com/lockgate/lockgate/issues)
[[ -z ${KEEP:-} ]] || flags+=(-cleanup-base-resources=false)
[[ -z ${RUN:-} ]] || flags+=(-run-test="$RUN")
features=${FEATURES:-}
if [[ -z $features && -n ${RUN:-} ]]; then
  features=all  # The suite skips a test without its features, even if it is the only one.
elif [[ -z $features ]]; then
  listed=$(inside kubectl get gatewayclass lockgate --output jsonpath='{.status.supportedFeatures[*].name}')
  if [[ -z $listed ]]; then
    say "the GatewayClass lists no supported features: core tests only"
    features=none
  fi
fi
case $features in
"") ;; # the suite reads them from the GatewayClass
all) flags+=(-all-features -exempt-features=Mesh) ;;
none) flags+=(-supported-features=Gateway) ;; # a profile adds all its core features
*) flags+=(-supported-features="$features") ;;
esac

say "the suite: profiles $profiles${RUN:+, test $RUN}${features:+, features $features} ..."
status=0
inside gateway-conformance -test.run TestConformance -test.v=test2json -test.timeout 120m "${flags[@]}" "$@" 2>&1 |
  go tool test2json -t |
  "$BIN/venv/bin/python3" scripts/conformance.py "$results" "$report" "$DIR/audit.log" "$audited" || status=$?
# A run of some tests, or of none, does not replace the report.
if [[ -z ${RUN:-} && $# == 0 && $status -lt 2 && -e $report ]]; then
  cp "$report" "${REPORT:-conformance/report.yaml}"
  say "the report: ${REPORT:-conformance/report.yaml}"
fi
[[ $status == 0 ]] || die "the suite failed"
