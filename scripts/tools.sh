# Sourced by the other scripts: messages, and the installation of required programs.
# shellcheck shell=bash

say() { echo "$*" >&2; }
die() { say "error: $*"; exit 1; }

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# The durations of steps, by name. A step takes as long as last time on this machine; before that, the given figure counts.
durations=.lockgate/durations
usual() { # NAME SECONDS
  local last
  last=$(sed -n "s/^$1=//p" "$durations" 2>/dev/null) || true
  if [[ -n $last ]]; then echo "last time $(clock "$last")"; else echo "usually $(clock "$2")"; fi
}
took() { # NAME SECONDS
  mkdir -p "${durations%/*}"
  { sed "/^$1=/d" "$durations" 2>/dev/null || true; echo "$1=$2"; } >"$durations.partial"
  mv "$durations.partial" "$durations"
}

# install PACKAGE: installs a Debian package if possible.
install() {
  [[ $EUID == 0 ]] && command -v apt-get >/dev/null || return 0
  say "installing the package $1 ..."
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  "${apt[@]}" install -y "$1" >/dev/null 2>&1 || { "${apt[@]}" update && "${apt[@]}" install -y "$1"; } >/dev/null 2>&1 || true
}

# need PROGRAM PACKAGE [HINT]: ensures that PROGRAM exists, and installs the Debian PACKAGE if it is missing ("" for none).
need() {
  command -v "$1" >/dev/null && return
  [[ -z $2 ]] || install "$2"
  command -v "$1" >/dev/null || die "the program \"$1\" is missing${2:+ (Debian package $2)}${3:+: $3}"
}

# The PATH of a minimal shell often lacks cargo and Go.
for directory in "$HOME/.cargo/bin" /usr/local/go/bin; do
  case ":$PATH:" in *":$directory:"*) ;; *) PATH=$PATH:$directory ;; esac
done

# Programs that take minutes to build are kept outside of the checkout, so that other clones find them.
cache=${LOCKGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lockgate}

# cargo_tool NAME VERSION [FLAG...]: puts NAME into PATH: an installed one, otherwise one of crates.io that is built once, without
# optimization, which halves the build time.
cargo_tool() {
  local name=$1 version=$2 root=$cache/cargo/$1-$2 start=$SECONDS; shift 2
  command -v "$name" >/dev/null && return
  PATH=$root/bin:$PATH
  [[ ! -x $root/bin/$name ]] || return 0
  need cargo "" "https://rustup.rs"
  say "$name $version: from crates.io into $root, once; this takes some minutes ..."
  CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0 \
    cargo install --quiet --locked --debug "$@" --root "$root" --target-dir "$root/target" "$name@$version"
  rm -rf "$root/target"
  say "$name $version: built in $((SECONDS - start)) s"
}

# build_controller: builds the controller for `make run` and `make lab`.
build_controller() {
  need cargo "" "https://rustup.rs"
  need cc gcc
  cargo build --workspace --bin lockgate
}

# compile_tests: compiles the program and all tests by one call, so that every crate is compiled once, with one set of features.
compile_tests() {
  need cargo "" "https://rustup.rs"
  need cc gcc
  cargo build --workspace --bin lockgate --bin xds-server --tests
}

# run_tests ARGUMENT...: runs `cargo test` with a time limit for each test (scripts/tests.py), after the command in the array `inside`.
run_tests() {
  local host; host=$(rustc -vV | sed -n 's/^host: //p')
  host=${host//-/_}
  "${inside[@]}" env "CARGO_TARGET_${host^^}_RUNNER=scripts/tests.py" TEST_RESULTS="${TEST_RESULTS:-$PWD/.lockgate/tests.tsv}" \
    cargo test --workspace --no-fail-fast "$@"
}
inside=()

# release_program: exports LOCKGATE, the program of a release, which it builds unless LOCKGATE names one.
release_program() {
  if [[ -z ${LOCKGATE:-} ]]; then
    need cargo "" "https://rustup.rs"
    say "building the program as its image has it ..."
    cargo build --release --locked --workspace --features jemalloc --bin lockgate
    LOCKGATE=$(readlink -m "${CARGO_TARGET_DIR:-target}/release/lockgate")
  fi
  [[ -x $LOCKGATE ]] || die "LOCKGATE: no program $LOCKGATE"
  LOCKGATE=$(readlink -m "$LOCKGATE")
  export LOCKGATE
}
