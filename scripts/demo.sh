#!/usr/bin/env bash
# Builds and starts the system on this machine and shows how it handles orders and faults.
#   scripts/demo.sh          keeps it running until Ctrl-C, with a console at http://127.0.0.1:8080
#   scripts/demo.sh --once   stops it after the demo
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_compiler
need_postgres
install_missing
need_cargo

echo "Building; the first time takes a few minutes …"
# A debug build: the demo is the same, and the first build takes less than half the time. With crash
# points, for scripts/chaos.
cargo build --workspace --bins --features "$PROGRAM_FEATURES"
exec "$TARGET/debug/lab" demo "$@"
