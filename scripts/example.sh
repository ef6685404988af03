#!/usr/bin/env bash
# Builds the project examples/xds-server, which depends on the library alone, and checks its dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
target=$(readlink -m "${CARGO_TARGET_DIR:-target}")
cd examples/xds-server
cargo build --locked --target-dir "$target"
# The xDS library depends on no crate for Kubernetes, command lines, or certificate authorities.
unwanted=$(cargo tree --locked --edges normal,build --prefix none | awk '{ print $1 }' | sort -u |
  grep -xE 'kube(-.*)?|k8s-openapi|clap|rcgen|tikv-jemallocator' || true)
[[ -z $unwanted ]] || die "lockgate-xds depends on ${unwanted//$'\n'/, }"
