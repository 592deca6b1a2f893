#!/usr/bin/env bash
# Kills payment after the provider has made the charge and before payment has recorded it.
#
# The provider charges one order immediately and holds its response. Every payment process is killed when the
# provider's ledger has the charge and payment's table does not. Both are read again after the kill and must
# be unchanged.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

order=$(place --hold after-money)
say "placed $order; the provider charges the card and holds its response"
moment charged-unrecorded "$order"
kill_all payment
moment charged-unrecorded "$order" --seconds 0
say "the charge is made, and the process that requested it is dead"
finish "$order"
