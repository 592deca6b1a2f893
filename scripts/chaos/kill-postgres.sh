#!/usr/bin/env bash
# Kills Postgres, and with it every transaction of every service, in the midst of orders.
#
# Fulfilment is paused meanwhile, so that messages wait for it; it wakes up with no database to put them
# into.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

strike() {
    freeze_all fulfilment
    witness=$(place --count 1)
    moment paid "$witness"
    kill_all postgres
    thaw_all fulfilment
    undo=()
}
under_load strike
finish "${orders[@]}" "$witness"
