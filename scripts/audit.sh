#!/usr/bin/env bash
# Known vulnerabilities, licences and origins of the dependencies, by cargo-deny.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_compiler
install_missing
need_cargo
if ! command -v cargo-deny >/dev/null; then
    echo "Installing cargo-deny, which takes some minutes …"
    cargo install --locked cargo-deny
fi
cargo deny check
