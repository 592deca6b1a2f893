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
at_exit lab chaos disarm "$url"
at_exit kill_instance order "$owner"
lab chaos arm "$url" relay.acknowledged --pause
say "armed relay.acknowledged in the order process at $url"
tried=() orders=()
for _ in {1..20}; do
    # The process may stop before it has answered; then nobody knows if this order is accepted.
    if order=$(place --patience 2 2>/dev/null); then
        orders+=("$order")
    fi
    tried+=("$order")
    # Payment may hear of it late, if it was killed just before and is not back in its group.
    for witness in "${tried[@]}"; do
        evidence=$(lab chaos wait published-unmarked "$witness" --seconds 1 2>/dev/null) && break 2
    done
done
if [[ -z $evidence ]]; then
    lab chaos wait published-unmarked "${tried[0]}" --seconds 0 || true
    fail "no relay stopped between publishing and marking"
fi
[[ " ${orders[*]:-} " == *" $witness "* ]] || orders+=("$witness")
say "$evidence"
kill_instance order "$owner"
undo=()
say "its successor finds the event unpublished and sends it again"
finish "${orders[@]}"
