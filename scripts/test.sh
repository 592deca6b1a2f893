#!/usr/bin/env bash
# Runs every check that a change must pass, on a bare Debian with Rust.
#   scripts/test.sh               everything, in minutes
#   scripts/test.sh --long …      the same with the long tests, up to an hour more
#   scripts/test.sh ARGUMENT…     the arguments go to `cargo test`
# For one test in seconds see scripts/one-test.sh.
set -Eeuo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# The tests' databases and topics take 11 GiB at most, and their processes 4.
MEMORY_MIB=18000

# step NAME COMMAND…: runs a command and prints how long it took.
step() {
    local started=$SECONDS
    current=$1
    shift
    echo "== $current"
    "$@"
    echo "== $current: $((SECONDS - started)) s"
}
# Not `"$@" || fail …`: bash would then ignore a failure inside the step.
trap 'echo "== $current: FAILED" >&2' ERR

install() {
    need_compiler
    need_postgres
    need_browser
    need_java
    install_missing
    need_cargo
    need_checks
}

# .env.example must list every setting of the compose files, and no other.
settings() {
    # shellcheck disable=SC2016  # the pattern contains a literal dollar
    diff <(grep -oh '\${[A-Z0-9_]*:\?-[^}]*}' docker-compose*.yml deploy/observe.compose.yml |
        sed -E 's/^\$\{([A-Z0-9_]+):?-(.*)\}$/\1=\2/' | sort -u) \
        <(grep -E '^[A-Z0-9_]+=' .env.example | sort -u) ||
        fail "the compose files (<) and .env.example (>) differ; change .env.example to match"
}

# Clippy compiles the checked queries against real databases, so one pass checks both.
lint() {
    SQLX_SCRIPT_INSIDE=yes "$TARGET/debug/lab" infra --kafka none -- scripts/sqlx.sh check
}

document() {
    RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --features "$FEATURES"
}

# The check of the dashboards mostly waits for Prometheus, so it runs beside the documentation.
document_and_observe() {
    scripts/observe-check.sh --built &
    local observe=$!
    document
    wait "$observe"
}

# The tests create hundreds of databases. ext4 searches long for inodes while many files were deleted lately, so
# each run on a disk makes the next one slower. Processes are killed, never the machine: memory keeps what they wrote.
use_memory() {
    local free_mib available_mib
    free_mib=$(df --output=avail -m /dev/shm 2>/dev/null | tail -1) || return 0
    available_mib=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
    if [[ $free_mib -gt $MEMORY_MIB && $available_mib -gt $MEMORY_MIB ]]; then
        export TMPDIR=/dev/shm
    fi
}

run_tests() {
    use_memory
    "$TARGET/debug/lab" infra --kafka apache -- \
        cargo test --workspace --features "$FEATURES" "$@"
}

is_long=
# Without the features the long tests are not compiled, so none can pass by being skipped.
if [[ ${1:-} == --long ]]; then
    shift
    export FEATURES=$FEATURES,end-to-end/long,lab/long
    is_long=yes
fi

# A clean build is faster without incremental compilation, and with a librdkafka that is optimised less and
# has no debug information. Only a clean build: another CFLAGS compiles some crates again.
[[ -d $TARGET ]] || export CARGO_INCREMENTAL=0 CFLAGS="${CFLAGS:-} -O1 -g0"

step "install" install
step "settings" settings
step "format" cargo fmt --all --check
step "build" build_all
[[ -z $is_long ]] || step "build without protection" build_unprotected_for_tests
[[ -z $is_long ]] || step "build the previous release" build_previous_release
step "lint and checked SQL" lint
step "documentation, dashboards and alerts" document_and_observe
step "tests" run_tests "$@"
echo "All checks passed after $SECONDS s."
