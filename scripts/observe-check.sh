#!/usr/bin/env bash
# Checks dashboards and alerts against the metrics: a running system must export every series that a
# dashboard or a rule queries.
#   scripts/observe-check.sh           builds the programs first
#   scripts/observe-check.sh --built   uses what is built; scripts/test.sh has just built it
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
[[ ${1:-} == --built ]] || build_all
# With exec, an interrupt reaches the program that cleans up.
exec python3 -B scripts/observe/check.py "$TARGET/debug/lab"
