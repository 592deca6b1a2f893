#!/usr/bin/env bash
# The data in .sqlx lets the checked queries compile without a database. Both commands compile the
# queries against freshly migrated databases, and so check them.
#   scripts/sqlx.sh prepare   rewrites .sqlx
#   scripts/sqlx.sh check     fails if .sqlx is out of date
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# database NAME DIRECTORY…: creates a database with the migrations of the directories and exports its
# URL as NAME_DATABASE_URL. The sqlx.toml of each crate names the variable that its macros read.
database() {
    local name=$1 url="${TEST_DATABASE_URL%/*}/sqlx_$1" directory migration
    shift
    psql -q "$TEST_DATABASE_URL" -c "CREATE DATABASE sqlx_$name"
    for directory in "$@"; do
        for migration in migrations/"$directory"/*.sql; do
            psql -q -v ON_ERROR_STOP=1 "$url" -f "$migration" >/dev/null
        done
    done
    export "${name^^}_DATABASE_URL=$url"
}

# Compiles the crates with checked queries against the databases. The macros write to directory $1.
compile() {
    local config
    for config in */*/sqlx.toml; do
        # Cargo does not know that the macros depend on a database, so mark the crates as changed.
        find "$(dirname "$config")/src" -maxdepth 1 \( -name lib.rs -o -name main.rs \) \
            -exec touch {} +
    done
    # The whole workspace: with a part of it, features of dependencies would differ, and cargo would
    # compile them all again.
    SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$1 \
        cargo check --workspace --all-targets --features "$FEATURES"
}

# Runs inside `lab infra`, which starts Postgres and sets TEST_DATABASE_URL.
with_postgres() {
    local fresh
    fresh=$(mktemp -d)
    # shellcheck disable=SC2064  # expand now: the variable is local
    trap "rm -rf '$fresh'" EXIT
    # The same folders as in `migrate` of each service. The shared crates use one database with all
    # their tables.
    database shared outbox inbox idempotency api-keys
    database order outbox inbox idempotency api-keys order
    database payment outbox inbox idempotency api-keys payment
    database fulfilment outbox inbox fulfilment
    database receipt inbox receipt
    database psp psp
    compile "$fresh"
    if [[ $1 == prepare ]]; then
        mkdir -p .sqlx
        rm -f .sqlx/query-*.json
        cp "$fresh"/query-*.json .sqlx/
    else
        diff -r "$fresh" .sqlx || fail ".sqlx is out of date: run scripts/sqlx.sh prepare"
    fi
}

case "${1:-}" in
prepare | check)
    if [[ -n ${SQLX_SCRIPT_INSIDE:-} ]]; then
        with_postgres "$1"
    else
        cargo build --workspace --bin lab --features "$FEATURES"
        SQLX_SCRIPT_INSIDE=yes exec "${CARGO_TARGET_DIR:-target}/debug/lab" \
            infra --kafka none -- scripts/sqlx.sh "$1"
    fi
    ;;
*) fail "usage: scripts/sqlx.sh prepare|check" ;;
esac
