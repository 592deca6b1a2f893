#!/usr/bin/env bash
# Kills fulfilment, which decides what ships, in the midst of orders, with its decision made and not
# committed.
#
# It is told to stop at its crash point between the two. Its transaction dies with it, and Kafka, which
# was not told that the message is done, hands it out again.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

strike() {
    stop_at fulfilment inbox.handled
    witness=$(place --count 1)
    moment handled-uncommitted "$witness"
    kill_all fulfilment
    undo=()
}
under_load strike
finish "${orders[@]}" "$witness"
