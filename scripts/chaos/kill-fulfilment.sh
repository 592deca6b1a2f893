#!/usr/bin/env bash
# Kills fulfilment, which decides what ships, in the midst of orders.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

under_load kill_all fulfilment
finish "${orders[@]}"
