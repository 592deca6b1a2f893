# Sourced by the scripts in this directory. Finds the tools that they need and installs missing ones.
# shellcheck shell=bash

# Services that can be killed at their crash points.
# shellcheck disable=SC2034  # used by the scripts that source this file
PROGRAM_FEATURES=order/crash-points,payment/crash-points,fulfilment/crash-points,receipt/crash-points
# Tests, lints and documentation build the same features, so that they share compiled crates.
# shellcheck disable=SC2034  # used by the scripts that source this file
FEATURES=${FEATURES:-$PROGRAM_FEATURES,end-to-end/test-features}

# Where cargo puts what it builds.
# shellcheck disable=SC2034  # used by the scripts that source this file
TARGET=${CARGO_TARGET_DIR:-target}

# Tests mostly wait for leases, sessions and restarts, so we run more tests in parallel than there are
# cores. Each end-to-end test starts a system: more than this would exhaust Postgres.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-6}

# Where rustup puts cargo, for shells that have not read its profile.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

fail() {
    echo "error: $*" >&2
    exit 1
}

# Is a Postgres server installed? Debian keeps its programs out of PATH.
has_postgres() {
    command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null
}

# need PACKAGE COMMAND…: adds the Debian package to the missing ones if a command is missing.
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
# The package also starts a server on port 5432. The project never connects to it.
need_postgres() { has_postgres && command -v psql >/dev/null || missing+=(postgresql); }
# Debian's Chromium and its driver. Another Chrome with its driver works too.
need_browser() { command -v chromedriver >/dev/null || missing+=(chromium chromium-driver); }
need_java() { need default-jdk-headless java; need maven mvn; }

as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "this command needs root or sudo: $*"
    fi
}

install_missing() {
    [[ ${#missing[@]} -eq 0 ]] && return
    command -v apt-get >/dev/null || fail "install the equivalents of these Debian packages: ${missing[*]}"
    echo "Installing ${missing[*]} …"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

need_cargo() {
    command -v cargo >/dev/null || fail "Rust is missing; install 1.95 or later with rustup"
}

# Parts of the toolchain that only the checks need. A minimal installation lacks them.
need_checks() {
    cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 && return
    command -v rustup >/dev/null || fail "clippy or rustfmt is missing; install them for this toolchain"
    rustup component add clippy rustfmt
}

# Builds all programs and tests in one pass. In two passes the features of third-party crates would differ
# (tests add development dependencies), and cargo would compile those crates twice.
build_all() {
    cargo build --workspace --all-targets --features "$FEATURES"
}

# Builds the services without their protection, for the ratio `price` of `lab bench`, into $TARGET/unprotected. Only the
# programs go there: crates that the feature does not change are not compiled again.
build_unprotected() {
    CARGO_BUILD_BUILD_DIR=$TARGET cargo build --workspace --target-dir "$TARGET/unprotected" \
        --bin order --bin payment --bin fulfilment --bin receipt \
        --features order/unprotected,payment/unprotected,fulfilment/unprotected,receipt/unprotected "$@"
}

# The same beside the tests. An example has development dependencies, so third-party crates get the features that
# `build_all` gives them.
build_unprotected_for_tests() {
    build_unprotected --example table
}

# The previous release, which the long test of the upgrade starts from. Nothing is released yet, so it is the last
# commit before the newest migrations: receipt/0107, order/0104, inbox/0009 and outbox/0010. When you release, set it to
# the commit of the previous release.
PREVIOUS_RELEASE=b3638efe18320477746affab69df8c9e837bdf18

# Builds the services of that release into $TARGET/previous-release/debug.
build_previous_release() {
    local directory
    directory=$(realpath -m "$TARGET")/previous-release
    if [[ $(cat "$directory/commit" 2>/dev/null) != "$PREVIOUS_RELEASE" ]]; then
        git cat-file -e "$PREVIOUS_RELEASE^{commit}" 2>/dev/null ||
            fail "the history lacks the previous release, $PREVIOUS_RELEASE; run: git fetch --unshallow"
        rm -rf "$directory/source"
        mkdir -p "$directory/source"
        # -m: files with the time of the commit would be older than what an earlier release left here, and cargo would
        # not compile them.
        git archive "$PREVIOUS_RELEASE" | tar -xm -C "$directory/source"
        echo "$PREVIOUS_RELEASE" >"$directory/commit"
    fi
    (
        cd "$directory/source" || exit
        CARGO_TARGET_DIR=$directory SQLX_OFFLINE=true cargo build --locked \
            --bin order --bin payment --bin fulfilment --bin receipt
    )
}

# Debian's package would start a server on the port where the compose file publishes Prometheus. So this
# only unpacks the package, and only if Prometheus is not installed.
need_prometheus() {
    command -v prometheus >/dev/null && command -v promtool >/dev/null && return
    local directory
    directory=$(realpath -m "$TARGET")/prometheus
    PATH="$PATH:$directory/usr/bin"
    [[ -x $directory/usr/bin/promtool ]] && return
    command -v apt-get >/dev/null || fail "Prometheus is missing; install prometheus and promtool"
    echo "Fetching Prometheus …"
    rm -rf "$directory"
    mkdir -p "$directory"
    (
        cd "$directory" || exit
        # The package list may be missing. Only root may fetch it.
        if ! apt-get download -qq prometheus 2>/dev/null; then
            as_root apt-get update -qq
            apt-get download -qq prometheus
        fi
        dpkg-deb -x prometheus_*.deb .
    )
}
