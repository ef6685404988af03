#!/usr/bin/env bash
# Builds the project examples/xds-server, which depends on the library alone, and checks what it depends on.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
target=$(readlink -m "${CARGO_TARGET_DIR:-target}")
cd examples/xds-server
cargo build --locked --target-dir "$target"
# A library for xDS brings no Kubernetes, no command line, and no authority for certificates.
unwanted=$(cargo tree --locked --edges normal,build --prefix none | awk '{ print $1 }' | sort -u |
  grep -xE 'kube(-.*)?|k8s-openapi|clap|rcgen|tikv-jemallocator' || true)
[[ -z $unwanted ]] || die "lockgate-xds depends on ${unwanted//$'\n'/, }"
