#!/usr/bin/env bash
# Pauses payment in the middle of a charge until its lease has run out, and resumes it.
#
# Another replica takes the charge over under the same key. The first one wakes up and goes on as if no
# time had passed: what it has to say of the call comes too late, and is refused.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

need_two payment
order=$(place --hold after-money)
say "placed $order; the provider takes the money and holds its answer"
moment charged-unrecorded "$order"
urls=()
for instance in $(instances payment); do
    urls+=("$(url_of payment "$instance")")
done
caller_url=$(lab chaos caller "${urls[@]}")
for instance in $(instances payment); do
    [[ $(url_of payment "$instance") != "$caller_url" ]] || caller=$instance
done
at_exit thaw payment "$caller"
freeze payment "$caller"
moment charged-unrecorded "$order" --seconds 0
say "waiting for its lease to run out"
moment taken-over "$order" --seconds 60
thaw payment "$caller"
done_early
lab chaos caller --none "$caller_url"
# What it learnt goes to the recorder, and what would come of it is tried again, within this time.
sleep 2
moment recorded-once "$order" --seconds 10
finish "$order"
