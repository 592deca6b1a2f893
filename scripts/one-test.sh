#!/usr/bin/env bash
# Runs single tests, on a Postgres and an Apache Kafka that can stay up between runs.
#   scripts/one-test.sh --up                   starts both, until Ctrl-C; use a second terminal
#   scripts/one-test.sh NAME…                  end-to-end tests whose names contain a NAME
#   scripts/one-test.sh --test BINARY NAME…    the same in other test binaries: api, relay, consumer, …
# Without --up in another terminal both are started for this run only.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

ADDRESSES=$TARGET/one-test.env
binary=end_to_end
case ${1:-} in
"" | -h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
    ;;
--test)
    binary=${2:?the name of a test binary is missing}
    shift 2
    ;;
esac

need_cargo
# Builds the services' programs too: the end-to-end tests start them.
cargo build --workspace --bins --test "$binary" --features "$FEATURES"
if [[ ${1:-} == --up ]]; then
    trap 'rm -f "$ADDRESSES"' EXIT
    # Only the lab handles Ctrl-C. When it exits, the pipe ends too.
    trap '' INT
    "$TARGET/debug/lab" infra --kafka apache | tee -i "$ADDRESSES"
    exit
fi
test=(cargo test --workspace --features "$FEATURES" --test "$binary" -- "$@")
if [[ -f $ADDRESSES ]]; then
    # shellcheck source=/dev/null
    . "$ADDRESSES"
    exec "${test[@]}"
fi
exec "$TARGET/debug/lab" infra --kafka apache -- "${test[@]}"
