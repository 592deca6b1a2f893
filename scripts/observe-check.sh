#!/usr/bin/env bash
# Holds dashboards, alerts and metrics together: whatever a dashboard or a rule asks for must be there
# in a running system.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_compiler
need_postgres
need python3 python3
install_missing
need_cargo
need_prometheus

(
    cd deploy/prometheus
    promtool check config prometheus.yml
    promtool check rules rules.yml
    promtool test rules rules_test.yml
)
cargo build --workspace --bins --features "$FEATURES"
# exec, so that whoever interrupts the script interrupts what has to clean up.
exec python3 -B scripts/observe/check.py "${CARGO_TARGET_DIR:-target}/debug/lab"
