#!/usr/bin/env bash
# Kills Postgres, and with it every transaction of every service, in the midst of orders.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

under_load kill_all postgres
finish "${orders[@]}"
