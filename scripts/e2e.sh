#!/usr/bin/env bash
# Runs the tests with a real Envoy, gRPC, and API server, and then the specs in a lab: a cluster that it starts and removes.
# usage: e2e.sh [FILE [FILTER]]   (FILE: a name in e2e/tests, without .rs; "cluster" for the specs in the lab, "outside" for all others)
# env: LAB, FAMILIES, and BIN as in lab.sh; LOCKGATE, the program in the lab (a release build); KEEP=1 keeps the lab of a failed run;
#      SKIP, a filter of specs that do not run; THREADS, the number of tests outside of the lab that run at a time (2 for each core)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
need cargo "" "https://rustup.rs"
file=${1:-} filter=${2:-}
export LAB=${LAB:-e2e} BIN=${BIN:-$PWD/e2e/lab/bin}
[[ -z $file || $file == outside || -e e2e/tests/$file.rs ]] || die "no file e2e/tests/$file.rs"
[[ $file != integrations ]] || die "these specs have a lab of their own: make integrations"
kept=.lockgate/$LAB

compile_tests

if [[ -n $filter ]]; then
  module=${file#outside}
  tests=$(cargo test --quiet --workspace --test end_to_end -- --list --format terse)
  grep -q "^${module:+$module::}.*$filter.*: test$" <<<"$tests" ||
    die "no test${module:+ of e2e/tests/$module.rs} has \"$filter\" in its name"
fi

# The figures that tests print are part of the result.
export TEST_OUTPUT=${TEST_OUTPUT:-1}

# Most tests wait for programs, so more tests than cores run at a time. In their alphabetical order, tests that take turns would
# follow each other and block all threads.
ordinary() {
  local module=${file#outside}
  TEST_ONLY=end_to_end${module:+:$module} run_tests --test end_to_end -- --test-threads "${THREADS:-$((2 * $(nproc)))}" --shuffle-seed 1 \
    --skip cluster:: --skip integrations:: ${filter:+"$filter"}
}

# spec ARGUMENT...: runs specs in the lab.
spec() {
  local inside=(e2e/lab/cluster.sh exec)
  TEST_SUITE="lab $LAB" TEST_ONLY=end_to_end:cluster run_tests --test end_to_end -- "$@"
}

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
  release_program
  # The application of the documentation, and the program of one spec.
  export IMAGES="${IMAGES:+$IMAGES;}nginx=env HTTP_PORT=80 echo-basic;projectcontour/contour=contour"
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
  local others=(--skip cluster::audit::)
  [[ -n $filter ]] || others+=(--skip cluster::contour_swap:: --skip cluster::zero_downtime::)
  spec "${others[@]}" ${SKIP:+--skip "$SKIP"} ${filter:+"$filter"} 8>&- || status=$?
  if ((${#beside[@]})); then
    wait_beside || status=$?
    spec "$by_force" 8>&- || status=$?
  fi
  [[ -n $filter && -z ${AUDIT:-} ]] || spec cluster::audit:: 8>&- || status=$?
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
  if [[ $status == 130 ]]; then
    local pid
    for pid in "${beside[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
  fi
  wait_beside || failed=$?
  exit "$((status > failed ? status : failed))"
}

# Labs beside the large one, each in turn or for itself. One spec runs with other addresses, and one beside Contour, which would serve the
# Ingresses of other specs. The specs of outages take as long as all others together, and nearly all specs have their lab for themselves.
small_labs() {
  local families result=0
  for families in dual ipv6; do
    FAMILIES=$families LAB=${LAB:0:8}$families DIR='' "$0" cluster families:: || result=$?
  done
  LAB=${LAB:0:8}swap DIR='' "$0" cluster contour_swap:: || result=$?
  return "$result"
}
lab_of_outages() { LAB=${LAB:0:8}zero DIR='' AUDIT=1 SKIP=$by_force "$0" cluster zero_downtime::; }
# These specs need a control plane that creates an object within a second, so they run after all others.
by_force=_replaced_by_force

# beside FUNCTION: runs a function beside this script, in a process group of its own, for an interruption.
declare -A beside=()
beside() {
  mkdir -p .lockgate
  set -m
  "$1" >".lockgate/$1.log" 2>&1 </dev/null &
  beside[$1]=$!
  set +m
}
# wait_beside: waits for all labs beside this script, and prints their output.
wait_beside() {
  local labs status=0
  for labs in "${!beside[@]}"; do
    say "waiting for $labs: .lockgate/$labs.log ..."
    wait "${beside[$labs]}" || { status=$? && say "$labs: specs failed"; }
    cat ".lockgate/$labs.log"
    unset "beside[$labs]"
  done
  return "$status"
}

# After a failure, the specs in the lab still run. The exit code covers all.
failed=0
[[ $file == cluster ]] || ordinary || failed=$?
if [[ (-z $file || $file == cluster) && -z $filter && -z ${FAMILIES:-} ]]; then
  beside small_labs
  beside lab_of_outages
fi
[[ -n $file && $file != cluster ]] || cluster
exit "$failed"
