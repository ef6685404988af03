#!/usr/bin/env bash
# etcd, kube-apiserver, kubectl and helm for the tests, built from their Go modules into e2e/lab/bin; quick when up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"
need openssl openssl
exec e2e/lab/build.sh etcd kube-apiserver kubectl helm
