#!/usr/bin/env bash
# Runs the tests with a real Envoy, gRPC, and API server, and then the specs in a lab: a cluster that it starts and removes.
# usage: e2e.sh [FILE [FILTER]]   (FILE: a name in e2e/tests, without .rs; "cluster" for the specs in the lab)
# env: LAB, FAMILIES, and BIN as in lab.sh; LOCKGATE, the program in the lab (a release build); KEEP=1 keeps the lab of a failed run
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
need cargo "" "https://rustup.rs"
file=${1:-} filter=${2:-}
export LAB=${LAB:-e2e} BIN=${BIN:-$PWD/e2e/lab/bin}
kept=.lockgate/e2e

cargo build --workspace --bin lockgate
scripts/example.sh

# names: prints the files of e2e/tests, except for those that need a lab.
names() {
  local path
  for path in e2e/tests/*.rs e2e/tests/*/main.rs; do
    path=${path#e2e/tests/} path=${path%.rs}
    [[ ${path%/main} == cluster ]] || echo "--test ${path%/main}"
  done
}

# --nocapture: the printed figures are part of the result. Most tests wait for Envoy, so twice as many as cores run at a time.
ordinary() {
  local RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
  export RUST_TEST_THREADS
  # shellcheck disable=SC2046 # words are wanted
  cargo test --workspace --no-fail-fast $(if [[ -n $file ]]; then echo "--test $file"; else names; fi) -- --nocapture ${filter:+"$filter"}
}

# spec ARGUMENT...: runs specs in the lab.
spec() { e2e/lab/cluster.sh exec cargo test --workspace --test cluster -- --nocapture "$@"; }

cluster() {
  export DIR=${DIR:-/tmp/lockgate-$LAB}
  [[ $EUID == 0 ]] || die "the specs in the lab need root, for network namespaces"
  # A lock permits one run for each name. A lab without a lock holder was left by an aborted run.
  exec 8>"$DIR.lock"
  flock --nonblock 8 || die "another run uses the lab $LAB: choose another name, LAB=mine make e2e"
  if [[ -e /run/netns/$LAB || -e $DIR ]]; then
    [[ -d $DIR/pki ]] || die "$LAB is a network namespace, or $DIR a directory, of somebody else: LAB=mine make e2e"
    say "taking down the lab of a run that was broken off ..."
    e2e/lab/cluster.sh down
  fi
  if [[ -z ${LOCKGATE:-} ]]; then
    say "building the program as its image has it ..."
    cargo build --release --locked --workspace --bin lockgate
    LOCKGATE=$(readlink -m "${CARGO_TARGET_DIR:-target}/release/lockgate")
  fi
  export LOCKGATE
  # The application of the documentation.
  export IMAGES="${IMAGES:+$IMAGES;}nginx=env HTTP_PORT=80 echo-basic"
  trap 'finish $?' EXIT
  trap 'exit 130' INT TERM HUP
  say "the lab: etcd, API server, controller manager, kube-proxy, two nodes, DNS ..."
  local start=$SECONDS
  e2e/lab/cluster.sh up 8>&-
  local dns=10.96.0.10
  [[ ${FAMILIES:-} != ipv6 ]] || dns=fd00:96::a
  sed "s/10\.96\.0\.10/$dns/" e2e/lab/coredns.yaml | e2e/lab/cluster.sh exec kubectl apply -f - >/dev/null
  say "the lab is up after $((SECONDS - start)) s"
  # Requests that the API server denied to the controller are known after all specs.
  local status=0
  spec --skip audit:: ${filter:+"$filter"} 8>&- || status=$?
  [[ -n $filter ]] || spec audit:: 8>&- || status=$?
  exit "$status"
}

# finish STATUS: removes the lab in any case, and keeps the logs of a failed run.
finish() {
  trap '' INT TERM HUP
  trap - EXIT
  local status=$1
  if [[ $1 != 0 && -d $DIR ]]; then
    rm -rf "$kept"
    mkdir -p "$kept/pods"
    cp "$DIR"/*.log "$kept/" || true
    cp "$DIR"/ended/*.log "$kept/pods/" 2>/dev/null || true
    local pod log name
    for pod in "$DIR"/pods/*/pod; do
      [[ -e $pod ]] || continue
      name=$(awk '{ sub("/", ".", $3); print $3 }' "$pod")
      for log in "${pod%/pod}"/*.log; do cp "$log" "$kept/pods/$name.$(basename "$log")" 2>/dev/null || true; done
    done
    e2e/lab/cluster.sh exec timeout 20 kubectl get events --all-namespaces >"$kept/events.txt" 2>&1 || true
    say "the specs in the lab failed; logs of programs and pods: $kept"
    if [[ -n ${KEEP:-} ]]; then
      say "KEEP: the lab is left up: LAB=$LAB DIR=$DIR BIN=$BIN e2e/lab/cluster.sh exec bash; ... cluster.sh down"
      exit "$status"
    fi
  fi
  e2e/lab/cluster.sh down || true
  [[ $failed == 0 ]] || say "tests outside of the lab failed too: see \"targets failed\" above"
  exit "$((status > failed ? status : failed))"
}

# After a failure, the specs in the lab still run. The exit code covers both.
failed=0
[[ $file == cluster ]] || ordinary || failed=$?
# One spec runs in separate labs, with other addresses.
if [[ -z $file && -z ${FAMILIES:-} ]]; then
  for families in dual ipv6; do
    FAMILIES=$families LAB=${LAB:0:8}$families DIR='' "$0" cluster families:: || failed=$?
  done
fi
[[ -n $file && $file != cluster ]] || cluster
exit "$failed"
