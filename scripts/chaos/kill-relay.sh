#!/usr/bin/env bash
# Kills a relay after it has published an event and before it has marked the event as published.
#
# One order process stops at the crash point between the two steps. The script places orders until the
# relay of this process publishes one: payment has the event, and the outbox row is unpublished. The
# process is killed there, and the event is published a second time.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

owner=$(first_of order)
url=$(operator_url_of order "$owner")
at_exit lab chaos disarm "$url"
at_exit kill_instance order "$owner"
lab chaos arm "$url" relay.acknowledged --pause
say "armed relay.acknowledged in the order process at $url"
tried=() orders=()
for _ in {1..20}; do
    # The process may stop before it responds. The order may be accepted or not.
    if order=$(place --patience 2 2>/dev/null); then
        orders+=("$order")
    fi
    tried+=("$order")
    # Payment may receive the event late, if it was killed before and has not rejoined its group.
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
say "the next relay finds the row unpublished and publishes it again"
finish "${orders[@]}"
