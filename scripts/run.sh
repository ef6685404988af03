#!/usr/bin/env bash
# `make run`: runs the controller on examples/, the demo backend, and a real Envoy. Ctrl-C stops all three.
# Ports, if one below is taken: HTTP, HTTPS, XDS, ADMIN (the controller's), STATS, ENVOY_ADMIN. LOCKGATE is a program
# to run instead of building one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
HTTP=${HTTP:-8080} HTTPS=${HTTPS:-8443} XDS=${XDS:-18000} ADMIN=${ADMIN:-18001} STATS=${STATS:-8002} ENVOY_ADMIN=${ENVOY_ADMIN:-9901}
backends=(shop=9101 cart=9102 welcome=9103) # the ports in examples/services.yaml
state=.lockgate/run

need python3 python3
need setpriv util-linux

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
for use in HTTP="$HTTP" HTTPS="$HTTPS" XDS="$XDS" ADMIN="$ADMIN" STATS="$STATS" ENVOY_ADMIN="$ENVOY_ADMIN"; do
  taken "${use#*=}" && die "port ${use#*=} is in use: end what listens there, or choose another: make run ${use%=*}=PORT"
done
for use in "${backends[@]}"; do
  taken "${use#*=}" && die "port ${use#*=} is in use, and examples/services.yaml needs it for the demo backend \"${use%=*}\""
done

# step NUMBER WHAT: prints the step and the elapsed time.
step() { say "== [$(clock $SECONDS)] $1/4 $2 ..."; }

step 1 "the controller (the first build takes 4 to 6 minutes on two cores, later ones seconds)"
if [[ -z ${LOCKGATE:-} ]]; then
  build_controller
  LOCKGATE=${CARGO_TARGET_DIR:-target}/debug/lockgate
fi
step 2 "a real Envoy (a download of 40 MB the first time)"
scripts/envoy.sh
mkdir -p "$state"

names=() pids=()
# launch NAME COMMAND...: starts a command in a separate session, so that Ctrl-C reaches only this script, which stops the
# commands in order. They also stop after kill -9 of this script.
launch() {
  setsid setpriv --pdeathsig TERM "${@:2}" </dev/null >"$state/$1.log" 2>&1 &
  names+=("$1") pids+=($!)
}
stop() {
  trap - EXIT INT TERM HUP
  [[ -z ${follower:-} ]] || kill "$follower" 2>/dev/null || true
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do kill "${pids[i]}" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do
    for _ in {1..50}; do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
  done
  wait 2>/dev/null || true
}
trap 'stop' EXIT
trap 'say; say "ending ..."; stop; exit 0' INT TERM HUP
# alive: checks that all commands run; otherwise prints the exited command with the end of its output.
alive() {
  for i in "${!pids[@]}"; do
    kill -0 "${pids[i]}" 2>/dev/null && continue
    say; tail -n 15 "$state/${names[i]}.log" >&2
    die "${names[i]} has ended; its whole log: $state/${names[i]}.log"
  done
}
# wait_for WHAT COMMAND...: waits until COMMAND succeeds.
wait_for() {
  for _ in {1..300}; do
    alive
    "${@:2}" >/dev/null 2>&1 && return
    sleep 0.1
  done
  die "$1 took longer than 30 s: see $state/*.log"
}
# answers PORT PATH: succeeds if the answer is 200.
answers() {
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf 'GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n' "$2" >&3
  local line; IFS= read -r line <&3; exec 3>&-
  [[ $line == *" 200 "* ]]
}

step 3 "the backend and the controller (1 s)"
launch backend python3 examples/backend.py "${backends[@]}"
launch lockgate "$LOCKGATE" serve --manifests examples --xds-address "127.0.0.1:$XDS" --admin-address "127.0.0.1:$ADMIN" \
  --http-port "$HTTP" --https-port "$HTTPS" --stats-port "$STATS"
wait_for "the controller's /readyz" answers "$ADMIN" /readyz
step 4 "Envoy, until the first 200 (2 s)"
"$LOCKGATE" bootstrap --xds-address "127.0.0.1:$XDS" --envoy-admin-address "127.0.0.1:$ENVOY_ADMIN" --node-id demo >"$state/bootstrap.yaml"
launch envoy .venv/bin/envoy-bin --config-path "$state/bootstrap.yaml" --use-dynamic-base-id --log-level warning
wait_for "Envoy" answers "$HTTP" /

say "== [$(clock $SECONDS)] all is served"
cat <<TEXT

Envoy serves what examples/ says. Try, in another terminal:

  curl http://shop.localhost:$HTTP/
  curl http://shop.localhost:$HTTP/cart/items
  curl --insecure https://shop.localhost:$HTTPS/
  curl http://localhost:$HTTP/                  # no Ingress has this host: the default backend

  (If your system does not know *.localhost: curl --resolve shop.localhost:$HTTP:127.0.0.1 ...)

Then edit a file in examples/, shop.yaml say, and ask again. Beside it:

  controller    http://127.0.0.1:$ADMIN/metrics   /readyz   /debug/resources
  Envoy         http://127.0.0.1:$ENVOY_ADMIN/
  logs          $state/*.log

The controller's log follows; Ctrl-C ends everything.

TEXT
tail --pid=$$ -n +1 -f "$state/lockgate.log" &
follower=$!
while alive; do sleep 1 & wait $! || true; done
