#!/usr/bin/env bash
# Kills Postgres under load, and with it every open transaction of every service.
#
# Fulfilment is paused first, so that messages wait for it. It resumes while its database is unreachable.
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"
begin "$@"

inject_fault() {
    pause_all fulfilment
    witness=$(place --count 1)
    moment paid "$witness"
    kill_all postgres
    resume_all fulfilment
    undo=()
}
under_load inject_fault
finish "${orders[@]}" "$witness"
