#!/usr/bin/env bash
# Cuts the network between payment and the provider after the money has moved, and mends it.
#
# The answer is lost and the provider cannot be asked. Payment tries again and again under the same key;
# the first try that gets through is told of the first charge.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

order=$(place --hold after-money)
say "placed $order; the provider takes the money and holds its answer"
moment charged-unrecorded "$order"
cut_network
say "waiting for payment to give the call up and try again"
moment taken-over "$order" --seconds 60
moment charged-unrecorded "$order" --seconds 0
mend_network
undo=()
finish "$order"
