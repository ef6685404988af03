#!/usr/bin/env bash
# Runs the official Ingress conformance suite, unmodified, on the chart in a lab, and removes the lab.
# usage: ingress-conformance.sh BINARY   (the suite's test program, in its repository: it reads features/ beside it)
# env: LAB and BIN as in lab.sh; LOCKGATE, the program in the lab (a release build); TAGS, which scenarios (all)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
export LAB=${LAB:-ingress} BIN=${BIN:-$PWD/e2e/lab/bin}
export DIR=${DIR:-/tmp/lockgate-$LAB}
reports=$PWD/.lockgate/ingress-conformance-$LAB

[[ -n ${1:-} ]] || die "SUITE is not set: make ingress-conformance SUITE=BINARY
BINARY is the test program of https://github.com/kubernetes-sigs/ingress-controller-conformance, which is not published as
a Go module. Clone that repository, build the program as its README says, and leave it in the clone: it reads the scenarios
in features/ beside it. CONTRIBUTING.md has the details."
suite=$(readlink -m "$1")
[[ -f $suite && -x $suite ]] || die "SUITE: no program $suite"
compgen -G "$(dirname "$suite")/features/*.feature" >/dev/null ||
  die "SUITE: no features/*.feature beside $suite: leave the program in its repository"
[[ $EUID == 0 ]] || die "the lab needs root, for network namespaces"
need python3 python3
[[ ! -e /run/netns/$LAB && ! -e $DIR ]] || die "a lab named $LAB is up already, or $DIR is somebody else's: choose another name: LAB=mine"

scripts/lab.sh build
release_program

inside() { e2e/lab/cluster.sh exec "$@"; }
trap 'e2e/lab/cluster.sh down' EXIT
trap 'exit 130' INT TERM HUP
say "the lab: etcd, API server, controller manager, kube-proxy, two nodes, DNS ..."
e2e/lab/cluster.sh up
inside kubectl apply -f e2e/lab/coredns.yaml >/dev/null
say "the chart ..."
inside env HELM_CACHE_HOME="$DIR/helm/cache" HELM_CONFIG_HOME="$DIR/helm/config" HELM_DATA_HOME="$DIR/helm/data" \
  helm install lockgate charts/lockgate --namespace lockgate --create-namespace --wait --timeout 120s >/dev/null

say "the suite: about 18 minutes ..."
rm -rf "$reports"
mkdir -p "$reports"
start=$SECONDS status=0
(cd "$(dirname "$suite")" && nsenter --net=/run/netns/"$LAB" env KUBECONFIG="$DIR/kubeconfig" "$suite" -ingress-class lockgate \
  -format cucumber -output-directory "$reports" ${TAGS:+-tags "$TAGS"} -test.timeout 60m) >"$reports/output.txt" 2>&1 || status=$?
python3 scripts/scenarios.py "$reports" || status=1
say "after $((SECONDS - start)) s; reports: $reports"
[[ $status == 0 ]] || { tail -n 20 "$reports/output.txt" >&2; die "the suite failed"; }
