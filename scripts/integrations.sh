#!/usr/bin/env bash
# Runs the specs of e2e/tests/integrations in a lab of their own: the chart beside other programs that its users run, by the manifests and
# commands of the documentation.
# usage: integrations.sh [MODULE [FILTER]]   (MODULE: a name in e2e/tests/integrations, without .rs)
# env: LAB, BIN, DIR   name, programs, and state of the lab (integr, e2e/lab/bin, /tmp/lockgate-$LAB)
#      LOCKGATE   the program (a release build)
#      GATEWAY_PLUGIN   the official Gateway API plugin of Argo Rollouts, in place of the plugin of the lab; a file outside of /tmp
#      KEEP       1 keeps the lab of a failed run
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
case ${1:-} in -h | --help | help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit ;; esac
module=${1:-} filter=${2:-}
export LAB=${LAB:-integr} BIN=${BIN:-$PWD/e2e/lab/bin}
export DIR=${DIR:-/tmp/lockgate-$LAB}
results=$PWD/.lockgate/$LAB
programs=(cert-manager cert-manager-chart pebble pebble-challtestsrv prometheus promtool external-dns external-dns-chart
  flagger flagger-chart rollouts-controller kubectl-argo-rollouts rollouts-plugin rollouts-manifests dex oauth2-proxy otelcol)

[[ $EUID == 0 ]] || die "the lab needs root, for network namespaces"
[[ -z $module || -e e2e/tests/integrations/$module.rs ]] || die "no file e2e/tests/integrations/$module.rs"
[[ ! -e /run/netns/$LAB && ! -e $DIR ]] ||
  die "a lab named $LAB is up already: make lab-down LAB=$LAB DIR=$DIR removes it, LAB=mine chooses another name"
scripts/lab.sh build
e2e/lab/build.sh "${programs[@]}" | sed -u '/: up to date /d' >&2
compile_tests
release_program
export IMAGES="nginx=env HTTP_PORT=80 echo-basic"
IMAGES+=";cert-manager-controller=cert-manager controller;cert-manager-acmesolver=cert-manager solver"
IMAGES+=";pebble-challtestsrv=pebble-challtestsrv;letsencrypt/pebble=pebble;prom/prometheus=prometheus;external-dns/external-dns=external-dns;fluxcd/flagger=flagger"
IMAGES+=";dexidp/dex=dex;oauth2-proxy/oauth2-proxy=oauth2-proxy;otel/opentelemetry-collector=otelcol"
# Argo Rollouts copies its plugins to its working directory.
IMAGES+=";argoproj/argo-rollouts=env -C /home/argo-rollouts rollouts-controller"

# finish: keeps the logs of a failed run, and removes the lab.
finish() {
  local status=$? pod log name
  trap - EXIT
  trap '' INT TERM HUP
  if [[ $status != 0 && -d $DIR ]]; then
    rm -rf "$results"
    mkdir -p "$results"
    cp "$DIR"/*.log "$results/" || true
    for pod in "$DIR"/pods/*/pod; do
      [[ -e $pod ]] || continue
      name=$(awk '{ sub("/", ".", $3); print $3 }' "$pod")
      for log in "${pod%/pod}"/*.log; do cp "$log" "$results/$name.$(basename "$log")" 2>/dev/null || true; done
    done
    say "the logs of the programs and pods: $results"
    if [[ -n ${KEEP:-} ]]; then
      say "the lab is still up. A shell in it: LAB=$LAB DIR=$DIR e2e/lab/cluster.sh exec bash. Its end: LAB=$LAB DIR=$DIR e2e/lab/cluster.sh down"
      exit "$status"
    fi
  fi
  e2e/lab/cluster.sh down || true
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
say "the lab: etcd, API server, controller manager, kube-proxy, two nodes, DNS ..."
e2e/lab/cluster.sh up
e2e/lab/cluster.sh exec kubectl apply -f e2e/lab/coredns.yaml >/dev/null
e2e/lab/cluster.sh exec kubectl apply --server-side -f "$BIN/gateway-crds/standard" >/dev/null

inside=(e2e/lab/cluster.sh exec)
selected=integrations${module:+::$module}
TEST_OUTPUT=${TEST_OUTPUT:-1} TEST_SUITE="lab $LAB" TEST_ONLY=end_to_end:$selected \
  run_tests --test end_to_end -- --test-threads 1 ${filter:+"$filter"}
