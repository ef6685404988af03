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

# build_controller: builds the controller for `make run` and `make lab`. A first build takes a third less time without the memory allocator
# of releases, line numbers in backtraces, and data for incremental builds.
build_controller() {
  need cargo "" "https://rustup.rs"
  need cc gcc
  CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false cargo build --workspace --bin lockgate --no-default-features
}
