#!/usr/bin/env bash
# Kills payment while the provider is at the charge, before the money has moved.
#
# The provider holds the charge of one order. When it says that the order's key is in flight, every
# payment process is killed; that the key is in flight still proves that the kill hit the call.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

order=$(place --hold before-money)
say "placed $order; the provider holds its charge"
moment in-flight "$order"
kill_all payment
moment in-flight "$order" --seconds 0
say "payment died inside the call, and cannot know what became of it"
finish "$order"
