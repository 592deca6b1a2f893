#!/usr/bin/env bash
# Shows the system at work on this machine: builds it, starts it, tells its story.
#   scripts/demo.sh          leaves it running until Ctrl-C
#   scripts/demo.sh --once   ends after the story
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_compiler
need_postgres
install_missing
need_cargo

echo "Building; the first time takes a few minutes …"
# Not optimised: the story is the same, and the first build takes less than half the time. With crash
# points, for scripts/chaos.
cargo build --workspace --bins --features "$FEATURES"
exec "${CARGO_TARGET_DIR:-target}/debug/lab" demo "$@"
