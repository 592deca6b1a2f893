#!/bin/sh
# refuse-unprotected.sh PROGRAM…: fails if one of the programs was built with the feature `unprotected`, however the
# feature got into the build. The text is that of shared/service-kit/src/unprotected.rs.
set -eu
for program in "$@"; do
    [ -f "$program" ] || { echo "error: $program is missing" >&2; exit 1; }
    if grep -qF 'program runs without keys, outbox, processed messages and leases' "$program"; then
        echo "error: $program is built with the feature \`unprotected\`; only lab bench may run it" >&2
        exit 1
    fi
done
