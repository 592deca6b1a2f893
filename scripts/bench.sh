#!/usr/bin/env bash
# Measures the system relative to the limits of this machine. Builds the release programs first.
#   scripts/bench.sh                                              all ratios, about eleven minutes
#   scripts/bench.sh --quick                                      fewer pairs, about three minutes
#   scripts/bench.sh --json docs/bench.json --html docs/bench.html   the committed report
#   scripts/bench.sh --against docs/bench.json                    says what became worse
# The arguments go to `lab bench`. Nothing else should run on the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_compiler
need_postgres
need_java
install_missing
need_cargo

echo "Building the release programs; the first time takes several minutes …" >&2
cargo build --locked --release --bins >&2
build_unprotected --locked --release >&2
exec "$TARGET/release/lab" bench "$@"
