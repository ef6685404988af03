#!/usr/bin/env bash
# Checks examples/xds-server, which depends on the library alone: that it compiles without the features that other crates of the
# workspace enable, and its dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
cargo check --package xds-server
# The xDS library depends on no crate for Kubernetes, command lines, or certificate authorities.
unwanted=$(cargo tree --package xds-server --edges normal,build --prefix none | awk '{ print $1 }' | sort -u |
  grep -xE 'kube(-.*)?|k8s-openapi|clap|rcgen|tikv-jemallocator' || true)
[[ -z $unwanted ]] || die "lockgate-xds depends on ${unwanted//$'\n'/, }"
