#!/usr/bin/env bash
# Kills payment while the provider processes the charge, before it is made.
#
# The provider holds the charge of one order. When it reports the order's key as in flight, every payment
# process is killed. The key is still in flight afterwards, so the kill hit the call.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

order=$(place --hold before-money)
say "placed $order; the provider holds its charge"
moment in-flight "$order"
kill_all payment
moment in-flight "$order" --seconds 0
say "payment died during the call and does not know its outcome"
finish "$order"
