#!/usr/bin/env bash
# Checks the dependencies for known vulnerabilities, licences and origins, with cargo-deny.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_compiler
install_missing
need_cargo
if ! command -v cargo-deny >/dev/null; then
    echo "Installing cargo-deny; this takes some minutes …"
    cargo install --locked cargo-deny
fi
cargo deny check
