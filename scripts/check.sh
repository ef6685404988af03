#!/usr/bin/env bash
# Checks what a change touches: rustfmt, clippy, and the unit, golden, and protocol tests of the changed crates and of the crates
# that use them. If only tests of a crate have changed, only their modules run. Lists the checks that did not run.
# env: BASE   the commit to compare with (where this branch left its upstream; HEAD without one; HEAD~1 if nothing has changed since)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
need cargo "" "https://rustup.rs"

changes() { { git diff --name-only "$1"; git ls-files --others --exclude-standard; } | sort -u; }
base=${BASE:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || echo HEAD)}
files=$(changes "$base")
[[ -n $files || -n ${BASE:-} ]] || { base=HEAD~1 && files=$(changes "$base"); }
[[ -n $files ]] || die "nothing has changed since $base; BASE=COMMIT compares with another commit"
say "changed since $(git log -1 --format='%h (%s)' "$base"): $(wc -l <<<"$files") files"

# The crates with unit tests, each with the pattern of its files and the crates that use it. The unit tests of lockgate include the
# checks of the documentation and of generated files.
crates=(
  "fuzzing         ^crates/fuzzing/                                       "
  "lockgate_xds    ^(crates/xds|proto)/                                   lockgate_route lockgate"
  "lockgate_route  ^crates/route/                                         lockgate"
  "lockgate        ^(src|charts|crds|docs|examples|manifests)/|^[A-Z]+.md lockgate"
  "e2e             ^e2e/src/                                              "
)
declare -A only=()
rust=$(grep -E '\.rs$|(^|/)Cargo\.(toml|lock)$|^\.cargo/' <<<"$files" || true)
for line in "${crates[@]}"; do
  read -r crate pattern users <<<"$line"
  own=$(grep -E "$pattern" <<<"$files" || true)
  if grep -qE '(^|/)Cargo\.(toml|lock)$|^\.cargo/' <<<"$files"; then
    only[$crate]=$crate
  elif [[ -z $own ]]; then
    continue
  elif grep -qvE '/src/(.*/)?tests(/.*)?\.rs$|^src/(.*/)?tests(/.*)?\.rs$' <<<"$own"; then
    for one in $crate $users; do only[$one]=$one; done
  elif [[ -z ${only[$crate]:-} ]]; then
    # src/a/tests/b.rs: the module a::tests::b.
    only[$crate]=$(sed -E "s#^(.*/)?src/##; s#\.rs\$##; s#/#::#g; s#^#$crate:#" <<<"$own" | tr '\n' ' ')
  fi
done
export TEST_ONLY="${only[*]}"
# Few of the histories of the property tests of the xDS server.
export PROPTEST_CASES=${PROPTEST_CASES:-400}

step() { local start=$SECONDS; say "== $1 ..."; "${@:2}" || die "$1"; say "== $1: ok, $((SECONDS - start)) s"; }
if [[ -n $rust ]]; then
  step "rustfmt" cargo fmt --all --check
  step "clippy" cargo clippy --workspace --all-targets -- -D warnings
fi
[[ -z $TEST_ONLY ]] || step "tests: $TEST_ONLY" run_tests --lib
if grep -qE '^(charts|manifests)/' <<<"$files"; then step "chart and manifests" scripts/manifests.sh --check; fi

say "== ok after $SECONDS s. Left out; make test runs all of it:"
say "   the tests with a real Envoy, gRPC, API server, and cluster: make e2e, or make e2e T=FILE for one of e2e/tests"
files=$(sed -nE 's#^e2e/tests/([a-z_]+)[./].*#\1#p' <<<"$files" | sort -u | grep -vx main || true)
if grep -qx integrations <<<"$files"; then
  say "   the specs beside other programs: make integrations"
  files=$(grep -vx integrations <<<"$files" || true)
fi
[[ -z $files ]] || say "   of these, the change has touched: $(sed 's/^/make e2e T=/' <<<"$files" | paste -sd ',' | sed 's/,/, /g')"
say "   most histories of the property tests of the xDS server (make fuzz T=random:: runs all of them)"
say "   rustdoc and doc tests, dependencies, the site of the documentation, the official conformance suite"
