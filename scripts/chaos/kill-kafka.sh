#!/usr/bin/env bash
# Has Kafka fall silent in the midst of orders, and kills it.
#
# It is paused for longer than the relays wait for its word (30 s), so that they give up what they have
# sent, and it dies without having read that. Orders are accepted all the same, and go on when it is back.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

silence_seconds=35
strike() {
    freeze_all kafka
    witness=$(place --count 1)
    say "placed $witness"
    moment unpublished "$witness"
    say "waiting for $silence_seconds s"
    sleep "$silence_seconds"
    moment unpublished "$witness" --seconds 0
    kill_all kafka
    undo=()
}
under_load strike
finish "${orders[@]}" "$witness"
