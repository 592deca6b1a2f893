#!/usr/bin/env bash
# Kills fulfilment under load, after it has decided whether an order ships and before it has committed the
# decision.
#
# Every fulfilment process stops at the crash point between the two steps. The kill rolls the transaction back.
# The offset is not committed, so Kafka delivers the message again.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

inject_fault() {
    stop_at fulfilment inbox.handled
    witness=$(place --count 1)
    moment handled-uncommitted "$witness"
    kill_all fulfilment
    undo=()
}
under_load inject_fault
finish "${orders[@]}" "$witness"
