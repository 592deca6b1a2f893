#!/usr/bin/env bash
# Pauses Kafka under load, then kills it.
#
# The pause is longer than the relays wait for an acknowledgement (30 s), so that their deliveries time out.
# Kafka is killed before it reads them. The order service still accepts orders; they continue when Kafka
# runs again.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

pause_seconds=35
inject_fault() {
    pause_all kafka
    witness=$(place --count 1)
    say "placed $witness"
    moment unpublished "$witness"
    say "waiting for $pause_seconds s"
    sleep "$pause_seconds"
    moment unpublished "$witness" --seconds 0
    kill_all kafka
    undo=()
}
under_load inject_fault
finish "${orders[@]}" "$witness"
