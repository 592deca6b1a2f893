#!/usr/bin/env bash
# Kills the relay that has published an event and has not marked it as published.
#
# One order process is told to stop at its crash point between the two. Orders are placed until its
# relay is the one that publishes: payment then has the event, and the outbox says it was never sent.
# The process is killed there, and the event is sent a second time.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

owner=$(first_of order)
url=$(url_of order "$owner")
at_exit eyes chaos disarm "$url"
at_exit kill_instance order "$owner"
eyes chaos arm "$url" relay.acknowledged --pause
say "armed relay.acknowledged in the order process at $url"
orders=()
for _ in {1..10}; do
    # The process may stop before it has answered.
    order=$(place --patience 2 2>/dev/null) || true
    orders+=("$order")
    evidence=$(eyes chaos wait published-unmarked "$order" --seconds 3 2>/dev/null) && break
done
if [[ -z $evidence ]]; then
    eyes chaos wait published-unmarked "${orders[0]}" --seconds 0 || true
    fail "no relay stopped between publishing and marking"
fi
say "$evidence"
kill_instance order "$owner"
undo=()
say "its successor finds the event unpublished and sends it again"
finish "${orders[@]}"
