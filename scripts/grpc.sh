#!/usr/bin/env bash
# Installs the PyPI package grpcio into .venv, pinned by version and hash. Returns quickly, without network access, if it is
# installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
wanted=1.85.1
python=.venv/bin/python3

fits() { [[ -x $python ]] && [[ $("$python" -c 'import grpc; print(grpc.__version__)' 2>/dev/null) == "$wanted" ]]; }

fits && exit 0
need python3 python3
say "grpcio $wanted: from PyPI into .venv ..."
if ! [[ -x $python ]] || ! "$python" -m pip --version >/dev/null 2>&1; then
  # Debian's python3 cannot make a venv without the package python3-venv.
  python3 -m venv .venv >/dev/null 2>&1 || { install python3-venv; python3 -m venv .venv; }
fi
"$python" -m pip install -q --disable-pip-version-check --require-hashes -r scripts/requirements/grpc.txt
fits || die "grpcio $wanted cannot be used: $("$python" -c 'import grpc' 2>&1 | tail -1)"
