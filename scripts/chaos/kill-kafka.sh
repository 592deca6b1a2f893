#!/usr/bin/env bash
# Kills Kafka in the midst of orders. They are accepted all the same, and go on when it is back.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

under_load kill_all kafka
finish "${orders[@]}"
