#!/usr/bin/env bash
# Runs the other scripts one after the other, in a random sequence. It runs at least one script and starts none
# after the given time. It prints its seed; --seed repeats the sequence. It stops at the first script that fails.
options=" [--seconds N] [--seed N]"
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=300 seed=$((RANDOM * 32768 + RANDOM))
own_option() {
    local number='^(0|[1-9][0-9]*)$'
    case $1 in
    --seconds | --seed) [[ ${2:-} =~ $number ]] || fail "$1 takes a number" ;;
    *) fail "unknown option $1; see --help" ;;
    esac
    [[ $1 == --seed ]] || seconds=$2
    [[ $1 == --seconds ]] || seed=$2
}
begin "$@"

cd "$root/scripts/chaos"
experiments=()
for path in [kpc]*-*.sh; do
    [[ -n $(unsupported_reason "${path%.sh}") ]] || experiments+=("$path")
done
say "seed $seed, for $seconds s"
RANDOM=$((seed % 32768))
runs=0
while [[ $runs -eq 0 || $SECONDS -lt $seconds ]]; do
    experiment=${experiments[RANDOM % ${#experiments[@]}]}
    echo "== $experiment, after $SECONDS s"
    "./$experiment" --on "$CHAOS_ON" || fail "$experiment failed; run with --seed $seed to repeat the sequence"
    runs=$((runs + 1))
done
say "$runs scripts passed"
# shellcheck disable=SC2119  # all orders
finish
