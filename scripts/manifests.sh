#!/usr/bin/env bash
# Writes the files that are generated from the chart: its README.md and values.schema.json (scripts/chart.py), and manifests/,
# the chart with its default values, for users without helm.
# usage: manifests.sh [--check]     (--check: writes nothing; fails if a file is not up to date)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
export BIN=${BIN:-$PWD/e2e/lab/bin}
need python3 python3
if [[ ! -x $BIN/helm ]]; then
  need go "" "Go 1.26 or newer from https://go.dev/dl/, in PATH or /usr/local/go"
  e2e/lab/build.sh helm >&2
fi

scripts/chart.py "$@"

render() {
  cat <<'YAML'
# Lockgate and Envoy: kubectl apply -f manifests/lockgate.yaml
# The image of Lockgate is not published: build it, and replace its name below. See docs/install.md.
# This is the chart in charts/lockgate with its default values, written by `make manifests`: edit the chart instead.
---
apiVersion: v1
kind: Namespace
metadata:
  name: lockgate
YAML
  # No object is managed by helm here.
  "$BIN/helm" template lockgate charts/lockgate --namespace lockgate --skip-tests | sed -e '/^ *app.kubernetes.io\/managed-by: Helm$/d' -e '/^ *helm.sh\/chart: /d' \
    -e '/^# Source: /d' | cat -s
}

# The chart accepts all settings of the file, except for those that it sets itself (lockgate.checkSettings).
own='/^watch:/,$ { /^watch:/d; /^admin:/d; /^metrics:/d; /^  \(namespaces\|gatewayApi\|address\|tls\|envoyNames\|grpcNames\|replicaNames\|secrets\|service\|peers\|lease\):/d }'
{ echo "settings:" && sed -e "$own" -e 's/^/  /' src/settings/tests/every_key.yaml; } |
  "$BIN/helm" template lockgate charts/lockgate --set controller.replicas=1 --values - >/dev/null || die "the chart refuses a valid settings file"

file=manifests/lockgate.yaml
if [[ ${1:-} == --check ]]; then
  diff -u "$file" <(render) >&2 || die "$file is not the chart as it is now: run \`make manifests\`"
else
  mkdir -p manifests
  render >"$file.partial"
  mv "$file.partial" "$file"
fi
