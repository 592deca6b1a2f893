#!/usr/bin/env bash
# Everything that must be true before a change goes in, from a bare Debian with Rust.
set -Eeuo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# step NAME COMMAND…: runs a command and says how long it took.
step() {
    local started=$SECONDS
    current=$1
    shift
    echo "== $current"
    "$@"
    echo "== $current: $((SECONDS - started)) s"
}
# Not `"$@" || fail …`: bash would then run on after a failure inside the step.
trap 'echo "== $current: FAILED" >&2' ERR

install() {
    need_compiler
    need_postgres
    need_java
    install_missing
    need_cargo
    need_checks
}

# .env.example lists every setting of the compose files, and nothing else.
settings() {
    # shellcheck disable=SC2016  # the dollar is looked for
    diff <(grep -oh '\${[A-Z0-9_]*:\?-[^}]*}' docker-compose*.yml deploy/observe.compose.yml |
        sed -E 's/^\$\{([A-Z0-9_]+):?-(.*)\}$/\1=\2/' | sort -u) \
        <(grep -E '^[A-Z0-9_]+=' .env.example | sort -u) ||
        fail "the compose files (<) and .env.example (>) differ"
}

lint() {
    cargo clippy --workspace --all-targets --features "$FEATURES" -- -D warnings
}

document() {
    RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --features "$FEATURES"
}

build() {
    cargo build --workspace --bins --features "$FEATURES"
}

run_tests() {
    "${CARGO_TARGET_DIR:-target}/debug/lab" infra --kafka apache -- \
        cargo test --workspace --features "$FEATURES" "$@"
}

step "install" install
step "settings" settings
step "format" cargo fmt --all --check
step "lint" lint
step "documentation" document
step "checked SQL" scripts/sqlx.sh check
step "build" build
step "dashboards and alerts" scripts/observe-check.sh
step "tests" run_tests "$@"
echo "All good after $SECONDS s."
