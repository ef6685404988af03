#!/usr/bin/env bash
# The parts of a release, in dist/. The workflow release.yaml runs the same steps; RELEASING.md describes a release.
# usage: release.sh STEP...
#   check      the versions of the program, the chart, and CHANGELOG.md agree, also with the tag $TAG (v0.1.0) if it is set
#   notes      the section of this version in CHANGELOG.md; "Unreleased" without $TAG
#   binary     the release program of this machine's architecture, with license and completions, as an archive
#   chart      the chart as a package
#   sbom       the dependencies of the program, in CycloneDX, by cargo-cyclonedx
#   image      the image of this machine's architecture as an OCI archive, by buildah; no daemon, no root needed.
#              BASE is its base image; BASE=scratch adds the C library of this machine, and needs no registry
#   checksums  SHA-256 of everything in dist/
# env: TAG, LOCKGATE (a program to package instead of building one)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.sh
export BIN=${BIN:-$PWD/e2e/lab/bin}
dist=${DIST:-dist}
version=$(sed -n '/^\[package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
# The same sources give the same archives.
epoch=$(git log -1 --format=%ct 2>/dev/null || echo 0)

check() {
  local chart
  for key in version appVersion; do
    chart=$(sed -n "s/^$key: //p" charts/lockgate/Chart.yaml)
    [[ $chart == "$version" ]] || die "$key of charts/lockgate/Chart.yaml is $chart, and the version in Cargo.toml is $version"
  done
  [[ -z ${TAG:-} ]] && return
  [[ $TAG == "v$version" ]] || die "the tag is $TAG, and the version in Cargo.toml is $version"
  grep -q "^## $version" CHANGELOG.md || die "CHANGELOG.md has no section \"## $version\""
}

notes() {
  local heading=Unreleased
  [[ -z ${TAG:-} ]] || heading=$version
  awk -v heading="## $heading" 'index($0, "## ") == 1 { on = index($0, heading) == 1; next } on' CHANGELOG.md >"$dist/notes.md"
  [[ -s $dist/notes.md ]] || die "CHANGELOG.md has no section \"## $heading\""
}

# program: the path of the release program.
program() {
  if [[ -z ${LOCKGATE:-} ]]; then
    need cargo "" "https://rustup.rs"
    LOCKGATE_COMMIT=$commit CARGO_PROFILE_RELEASE_STRIP=symbols cargo build --release --locked --features jemalloc --bin lockgate >&2
    LOCKGATE=${CARGO_TARGET_DIR:-target}/release/lockgate
  fi
  echo "$LOCKGATE"
}

binary() {
  local from name=lockgate-$version-linux-$arch stage
  from=$(program)
  stage=$(mktemp -d)
  mkdir -p "$stage/$name/completions"
  command install -m 755 "$from" "$stage/$name/lockgate"
  command install -m 644 LICENSE README.md CHANGELOG.md "$stage/$name/"
  for shell in bash fish zsh; do "$from" completions $shell >"$stage/$name/completions/lockgate.$shell"; done
  tar --create --directory "$stage" --sort name --mtime "@$epoch" --owner 0 --group 0 --numeric-owner "$name" | gzip -n >"$dist/$name.tar.gz"
  rm -rf "$stage"
}

chart() {
  [[ -x $BIN/helm ]] || e2e/lab/build.sh helm >&2
  "$BIN/helm" package charts/lockgate --destination "$dist" >&2
}

sbom() {
  cargo_tool cargo-cyclonedx 0.5.9
  # It writes beside each Cargo.toml; only the program is released.
  cargo cyclonedx --format json --target x86_64-unknown-linux-gnu --override-filename lockgate-sbom >&2
  # References to our own crates are paths, which must not depend on the machine.
  sed "s#file://$PWD#file:///lockgate#g" lockgate-sbom.json >"$dist/lockgate-$version.cdx.json"
  rm lockgate-sbom.json
  find crates bench e2e -name lockgate-sbom.json -delete
}

image() {
  need buildah buildah
  local from container root base=${BASE:-$(sed -n 's/^ARG BASE_IMAGE=//p' Dockerfile)}
  from=$(program)
  # Without privileges of its own: files as layers, and no program is run inside.
  local buildah=(buildah --storage-driver vfs)
  container=$("${buildah[@]}" from "$base")
  if [[ $base == scratch ]]; then
    local library
    root=$(mktemp -d)
    for library in $(ldd "$from" | grep -o '/[^ ]*'); do command install -D -m 755 "$library" "$root$library"; done
    "${buildah[@]}" copy --quiet "$container" "$root" / >/dev/null
    rm -rf "$root"
  fi
  "${buildah[@]}" copy --quiet --chmod 755 "$container" "$from" /usr/local/bin/lockgate >/dev/null
  "${buildah[@]}" config --user 65532:65532 --entrypoint '["/usr/local/bin/lockgate"]' --cmd serve --arch "$arch" \
    --label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.revision=$commit" \
    --label org.opencontainers.image.source=https://github.com/lockgate/lockgate \
    --label org.opencontainers.image.licenses=Apache-2.0 "$container"
  rm -f "$dist/lockgate-$version-image-$arch.tar"
  "${buildah[@]}" commit --quiet --timestamp "$epoch" --rm "$container" "oci-archive:$dist/lockgate-$version-image-$arch.tar:$version" >/dev/null
}

checksums() {
  (cd "$dist" && find . -type f ! -name SHA256SUMS ! -name notes.md -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
}

mkdir -p "$dist"
for step; do
  case $step in
    check | notes | binary | chart | sbom | image | checksums) "$step" && say "release: $step: ok" ;;
    *) die "unknown step \"$step\": see scripts/release.sh" ;;
  esac
done
