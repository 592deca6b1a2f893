#!/usr/bin/env bash
# The data in .sqlx lets the checked queries compile without a database. Both commands compile the
# queries against freshly migrated databases, and so check them.
#   scripts/sqlx.sh prepare   rewrites .sqlx
#   scripts/sqlx.sh check     lints, and fails if .sqlx is out of date
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

# Compiles the crates with checked queries against the databases with `cargo $2…`; the macros write to $1.
compile() {
    local directory=$1 config old root roots=()
    shift
    for config in */*/sqlx.toml; do
        for root in "${config%/*}"/src/{lib,main}.rs; do
            [[ ! -f $root ]] || roots+=("$root")
        done
    done
    # The compiler does not know that the macros' result depends on a database. The old time stamps
    # are restored afterwards, or the next build would compile all these crates again.
    old=$(mktemp -d)
    cp -p --parents "${roots[@]}" "$old"
    touch "${roots[@]}"
    # The whole workspace: for a part of it, the features of the dependencies would differ, and cargo
    # would compile all of them again.
    SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$directory \
        cargo "$1" --workspace --all-targets --features "$FEATURES" "${@:2}"
    for root in "${roots[@]}"; do
        touch -r "$old/$root" "$root"
    done
    rm -r "$old"
}

# Runs inside `lab infra`, which starts Postgres and sets TEST_DATABASE_URL.
with_postgres() {
    local fresh
    fresh=$(mktemp -d)
    # shellcheck disable=SC2064  # expand now: the variable is local
    trap "rm -rf '$fresh'" EXIT
    # The same folders as in `migrate` of each service. The shared crates use one database with all
    # their tables.
    database shared outbox inbox operators idempotency api-keys
    database order outbox inbox operators idempotency api-keys order
    database payment outbox inbox operators idempotency api-keys payment
    database fulfilment outbox inbox operators fulfilment
    database receipt inbox operators receipt
    database psp operators psp
    if [[ $1 == prepare ]]; then
        compile "$fresh" check
        mkdir -p .sqlx
        rm -f .sqlx/query-*.json
        cp "$fresh"/query-*.json .sqlx/
    else
        # Clippy compiles as `check` does, and lints in the same pass.
        compile "$fresh" clippy -- -D warnings
        diff -r "$fresh" .sqlx || fail ".sqlx is out of date: run scripts/sqlx.sh prepare"
    fi
}

case "${1:-}" in
prepare | check)
    if [[ -n ${SQLX_SCRIPT_INSIDE:-} ]]; then
        with_postgres "$1"
    else
        lab=$TARGET/debug/lab
        # The lab depends on crates with queries. A query without data does not compile, but the lab of the last
        # build starts Postgres just as well.
        [[ $1 == prepare && -x $lab ]] || cargo build --workspace --bin lab --features "$FEATURES"
        SQLX_SCRIPT_INSIDE=yes exec "$lab" \
            infra --kafka none -- scripts/sqlx.sh "$1"
    fi
    ;;
*) fail "usage: scripts/sqlx.sh prepare|check" ;;
esac
