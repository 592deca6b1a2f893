#!/usr/bin/env bash
# Runs the other scripts one after the other, in an order left to chance, for a given time.
# The seed that it prints repeats the order; the first script that fails ends it.
options=" [--seconds N] [--seed N]"
# shellcheck source=scripts/chaos/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=300 seed=$((RANDOM * 32768 + RANDOM))
own_option() {
    case $1 in
    --seconds) seconds=${2:?a number} ;;
    --seed) seed=${2:?a number} ;;
    *) fail "unknown option $1; see --help" ;;
    esac
}
begin "$@"

cd "$root/scripts/chaos"
experiments=()
for path in [kpc]*-*.sh; do
    [[ -n $(why_not "${path%.sh}") ]] || experiments+=("$path")
done
say "seed $seed, for $seconds s"
RANDOM=$((seed % 32768))
runs=0
while [[ $SECONDS -lt $seconds ]]; do
    experiment=${experiments[RANDOM % ${#experiments[@]}]}
    echo "== $experiment, after $SECONDS s"
    "./$experiment" --on "$CHAOS_ON" || fail "$experiment failed; --seed $seed repeats the order"
    runs=$((runs + 1))
done
say "$runs experiments"
# shellcheck disable=SC2119  # all orders
finish
