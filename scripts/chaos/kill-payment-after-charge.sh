#!/usr/bin/env bash
# Kills payment after the provider has taken the money and before payment has written that down.
#
# The provider charges one order at once and holds its answer. Every payment process is killed when
# the provider's books have the charge and payment's own table does not; read again after the kill,
# both say the same.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

order=$(place --hold after-money)
say "placed $order; the provider takes the money and holds its answer"
moment charged-unrecorded "$order"
kill_all payment
moment charged-unrecorded "$order" --seconds 0
say "the money has moved, and whoever asked for it is dead"
finish "$order"
