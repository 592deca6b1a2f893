#!/usr/bin/env bash
# Cuts the network between payment and the provider after the charge, and restores it.
#
# The response is lost and the provider is unreachable. Payment retries with the same key. The first try
# that reaches the provider gets the result of the first charge.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

order=$(place --hold after-money)
say "placed $order; the provider charges the card and holds its response"
moment charged-unrecorded "$order"
cut_network
say "waiting for payment to time out and retry"
moment taken-over "$order"
moment charged-unrecorded "$order" --seconds 0
restore_network
undo=()
finish "$order"
