# Sourced by the scripts beside it: finds the tools that they need, and installs what is missing.
# shellcheck shell=bash

# Tests and lints build the same features, so that they share what they compile.
# shellcheck disable=SC2034  # used by the scripts that source this file
FEATURES=order/crash-points,payment/crash-points,fulfilment/crash-points,receipt/crash-points

# Where rustup puts cargo, for shells that have not read its profile.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

fail() {
    echo "error: $*" >&2
    exit 1
}

# Whether a Postgres server is installed; Debian keeps its programs out of PATH.
has_postgres() {
    command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null
}

# need PACKAGE COMMAND…: notes the Debian package if any of the commands is missing.
missing=()
need() {
    local package=$1 command
    shift
    for command in "$@"; do
        if ! "$command" --version >/dev/null 2>&1; then
            missing+=("$package")
            return
        fi
    done
}

need_compiler() { need build-essential cc c++ make; }
# The package starts a server of its own on port 5432; nothing here ever talks to it.
need_postgres() { has_postgres && command -v psql >/dev/null || missing+=(postgresql); }
need_java() { need default-jdk-headless java; need maven mvn; }

as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "this needs root, or sudo: $*"
    fi
}

# Installs what was noted as missing.
install_missing() {
    [[ ${#missing[@]} -eq 0 ]] && return
    command -v apt-get >/dev/null || fail "please install what Debian calls: ${missing[*]}"
    echo "Installing ${missing[*]} …"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

need_cargo() {
    command -v cargo >/dev/null || fail "Rust is missing: install 1.95 or later with rustup"
}

# The parts of the toolchain that only checks need; a minimal installation lacks them.
need_checks() {
    cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 && return
    command -v rustup >/dev/null || fail "please install clippy and rustfmt for this toolchain"
    rustup component add clippy rustfmt
}

# Debian's package would start a server of its own, on the port that ours is published at. So it is only
# unpacked, unless it is there already.
need_prometheus() {
    command -v prometheus >/dev/null && command -v promtool >/dev/null && return
    local directory
    directory=$(realpath -m "${CARGO_TARGET_DIR:-target}")/prometheus
    PATH="$PATH:$directory/usr/bin"
    [[ -x $directory/usr/bin/promtool ]] && return
    command -v apt-get >/dev/null || fail "please install prometheus and promtool"
    echo "Fetching Prometheus …"
    rm -rf "$directory"
    mkdir -p "$directory"
    (
        cd "$directory" || exit
        # The list of packages may be missing, and only root may fetch it.
        if ! apt-get download -qq prometheus 2>/dev/null; then
            as_root apt-get update -qq
            apt-get download -qq prometheus
        fi
        dpkg-deb -x prometheus_*.deb .
    )
}
