#!/usr/bin/env bash
# The lab: a real Kubernetes control plane in a network namespace, with pods as processes (e2e/lab/README.md).
# usage: lab.sh build | up | down
#   build   builds its programs into e2e/lab/bin; returns quickly if they are up to date
#   up      builds missing programs and the controller, starts the lab, and prints how to use it
#   down    stops the lab
# env: LAB (its name; up to 8 letters), BIN (its programs), CARGO_TARGET_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
export LAB=${LAB:-lab} BIN=${BIN:-$PWD/e2e/lab/bin}
dir=${DIR:-/tmp/$LAB}

# Programs for the conformance suites of Gateway API are omitted; e2e/lab/build.sh builds them too.
programs=(etcd kube-apiserver kube-controller-manager kube-proxy kubectl coredns helm helm3 echo-basic oidc-provider gateway-crds gateway-examples contour contour-crds contour-manifests venv envoy)

build() {
  need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"
  need openssl openssl
  need python3 python3
  need ip iproute2
  need nsenter util-linux
  need setsid util-linux
  need sysctl procps
  need nft nftables "kube-proxy writes its rules with it"
  need curl curl
  need wget wget "the pod of helm test runs it"
  # Debian's python3 cannot make a venv without the package python3-venv.
  python3 -c 'import ensurepip' 2>/dev/null || install python3-venv
  e2e/lab/build.sh "${programs[@]}" | sed -u '/: up to date /d' >&2
}

up() {
  [[ $EUID == 0 ]] || die "the lab needs root, for network namespaces"
  [[ ! -e /run/netns/$LAB ]] || die "a lab named $LAB is up already: make lab-down, or choose a name: make lab LAB=mine"
  build
  if [[ -z ${LOCKGATE:-} ]]; then
    say "building the controller ..."
    build_controller
  fi
  trap 'e2e/lab/cluster.sh down' ERR INT TERM HUP
  say "starting etcd, the API server and the nodes ..."
  e2e/lab/cluster.sh up
  e2e/lab/cluster.sh exec kubectl apply -f e2e/lab/coredns.yaml >/dev/null
  e2e/lab/cluster.sh exec kubectl --namespace kube-system rollout status deployment/coredns --timeout=60s >/dev/null
  trap - ERR INT TERM HUP
}

help_text() {
  local shell="e2e/lab/cluster.sh exec" variables=""
  [[ $LAB == lab ]] || variables+="LAB=$LAB "
  [[ $BIN == "$PWD/e2e/lab/bin" ]] || variables+="BIN=$BIN "
  cat <<TEXT

A Kubernetes cluster with two nodes is up. Its network is a namespace of its own, so commands go into it:

  $variables$shell bash          # a shell inside: kubectl, helm and curl as in any cluster; exit leaves it

  kubectl apply -f e2e/lab/echo.yaml                 # then, in that shell: two pods and a LoadBalancer Service
  kubectl rollout status deployment/echo
  kubectl get pods,services -o wide
  curl --retry 9 --retry-connrefused http://10.245.0.1/   # its EXTERNAL-IP
  kubectl logs deploy/echo
  helm install lockgate charts/lockgate --namespace lockgate --create-namespace --wait
  kubectl create ingress echo --class=lockgate --rule="echo.example.com/*=echo:80"
  kubectl wait ingress/echo --for=jsonpath='{.status.loadBalancer.ingress[0].ip}'
  curl --retry 9 --retry-connrefused --header "Host: echo.example.com" http://\$(kubectl get ingress echo -o jsonpath='{.status.loadBalancer.ingress[0].ip}')/
TEXT
  cat <<TEXT

Images are local programs: lockgate is ${LOCKGATE:-${CARGO_TARGET_DIR:-target}/debug/lockgate}, envoyproxy/envoy a real Envoy.
State and logs: $dir. To end all of it: make lab-down
TEXT
}

case ${1:-} in
build) build ;;
up) up; help_text ;;
down) e2e/lab/cluster.sh down ;;
*) sed -n '3,7s/^# //p' "$0" >&2; exit 2 ;;
esac
