#!/usr/bin/env bash
# Writes the schemas of `lockgate check`, src/check/schemas, from the CustomResourceDefinitions of Gateway API (experimental channel, which
# contains the standard one) and of Lockgate, and from the OpenAPI documents of Kubernetes, in the versions of the lab.
# usage: schemas.sh [--check]     (--check: writes nothing; fails if a file is not up to date)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
export BIN=${BIN:-$PWD/e2e/lab/bin}
need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"
need python3 python3
# The Python environment has a parser of YAML.
e2e/lab/build.sh gateway-crds venv | sed -u '/: up to date /d' >&2
kubernetes=$(cd e2e/lab/tools/kubernetes && go mod download k8s.io/kubernetes && go list -mod=readonly -m -f '{{.Dir}}' k8s.io/kubernetes)
"$BIN/venv/bin/python3" scripts/schemas.py "$@" "$BIN/gateway-crds/experimental" "$kubernetes"
