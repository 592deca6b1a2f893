#!/usr/bin/env bash
# Pauses payment during a charge until its lease has expired, and resumes it.
#
# Another replica takes over the charge with the same key. The first one resumes and continues its call. Its
# result is stale and is discarded.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

need_two payment
order=$(place --hold after-money)
say "placed $order; the provider charges the card and holds its response"
moment charged-unrecorded "$order"
urls=()
for instance in $(instances payment); do
    urls+=("$(url_of payment "$instance")")
done
caller_url=$(lab chaos caller "${urls[@]}")
for instance in $(instances payment); do
    [[ $(url_of payment "$instance") != "$caller_url" ]] || caller=$instance
done
at_exit resume payment "$caller"
pause payment "$caller"
moment charged-unrecorded "$order" --seconds 0
say "waiting for its lease to expire"
moment taken-over "$order"
resume payment "$caller"
done_early
lab chaos caller --none "$caller_url"
# Within this time the resumed process hands its result to the recorder, and a wrong retry would start.
sleep 2
moment recorded-once "$order"
finish "$order"
