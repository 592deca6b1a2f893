# Sourced by the scripts in this directory, which read as a list of steps. on/*.sh implements the steps for
# containers, processes and pods. `lab chaos` observes the system (lab chaos --help).
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Longest time from the end of the fault until everything is settled.
settle_seconds=180
# How long the provider holds a charge for `place --hold`. on/*.sh may override the default.
hold_seconds=${HOLD_SECONDS:-8}

say() { echo "→ $*"; }
fail() {
    echo "✗ $*" >&2
    exit 1
}

usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | grep -v '^shellcheck '
    cat <<USAGE

usage: scripts/chaos/$(basename "$0") [--on compose|local|kubernetes]${options:-}

  --on compose      the containers of \`docker compose up\`
  --on local        the processes of \`lab up\` or scripts/demo.sh
  --on kubernetes   pods, by kubectl (deploy/k8s; NAMESPACE, default chargeonce)

Without --on: the containers if they run, otherwise the processes. Run one script at a time. The exit code
is 0 if every invariant holds at the end and each order was charged once.
USAGE
}

# begin ARGUMENT…: reads the common options, finds the system, and registers the clean-up.
begin() {
    local on="" reason
    while [[ $# -gt 0 ]]; do
        case $1 in
        -h | --help) usage && exit ;;
        --on) on=${2:-nothing} && shift $(($# > 1)) ;;
        --on=*) on=${1#*=} ;;
        *)
            own_option "$@"
            # shellcheck disable=SC2317  # reached where a script defines own_option
            shift
            ;;
        esac
        shift
    done
    [[ -n $on ]] || on=$(find_system)
    case $on in
    compose | local | kubernetes) ;;
    *) fail "unknown value of --on; use compose, local or kubernetes" ;;
    esac
    # shellcheck source=/dev/null
    . "$root/scripts/chaos/on/$on.sh"
    export CHAOS_ON=$on
    reason=$(unsupported_reason "$(basename "$0" .sh)")
    [[ -z $reason ]] || fail "$reason"
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap clean_up EXIT
    lab chaos ready || fail "the system is not ready; wait for it or see its logs, then run the script again"
}

# A script with further options defines this.
own_option() { fail "unknown option $1; see --help"; }

# unsupported_reason SCRIPT: prints why the script cannot run on this kind of system, or nothing. on/*.sh may define it.
unsupported_reason() { :; }

find_system() {
    if [[ -n $(cd "$root" && docker compose ps -q lab 2>/dev/null) ]]; then
        echo compose
    else
        echo local
    fi
}

# The steps of clean_up, newest first.
undo=()
at_exit() { undo=("$*" ${undo[@]+"${undo[@]}"}); }
# done_early: removes the newest clean-up step, because the script has already done it.
done_early() { undo=(${undo[@]+"${undo[@]:1}"}); }
clean_up() {
    local code=$? step
    trap '' INT TERM
    [[ -z ${placing:-} ]] || kill "$placing" 2>/dev/null || true
    for step in ${undo[@]+"${undo[@]}"}; do
        $step >/dev/null 2>&1 || true
    done
    [[ -z ${order:-} ]] || lab chaos clear-faults "$order" >/dev/null 2>&1 || true
    [[ -z ${ids:-} ]] || rm -f "$ids"
    exit "$code"
}

# place OPTION…: places orders and prints their ids.
place() { lab chaos place --hold-seconds "$hold_seconds" "$@"; }

# moment NAME ORDER… [--seconds N]: waits until orders are in a given state and prints the evidence.
moment() {
    local evidence
    evidence=$(lab chaos wait "$@") || fail "the system never reached the state \`$1\`"
    say "$evidence"
}

# first_of NAME: one process of a service. Without `head`, which would end the writer with SIGPIPE.
first_of() {
    local found
    found=$(all_of "$1") && echo "${found%%$'\n'*}"
}

# all_of NAME: every process of a service; fails if there is none.
all_of() {
    local found
    found=$(instances "$1") || exit 1
    [[ -n $found ]] || fail "$1 is not running"
    echo "$found"
}

# kill_all NAME: kills every process of a service, in parallel.
kill_all() {
    local instance found kills=() one
    found=$(all_of "$1")
    for instance in $found; do
        kill_instance "$1" "$instance" &
        kills+=($!)
    done
    for one in "${kills[@]}"; do
        wait "$one" || fail "$1 is still running after kill -9"
    done
}

# pause_all, resume_all NAME: pauses every process of a service, and resumes them.
pause_all() {
    local instance found
    found=$(all_of "$1")
    for instance in $found; do
        at_exit resume "$1" "$instance"
        pause "$1" "$instance"
    done
}
resume_all() {
    local instance found
    found=$(all_of "$1")
    for instance in $found; do
        resume "$1" "$instance"
    done
}

# stop_at NAME POINT: every process of a service stops when it next reaches the crash point.
stop_at() {
    local instance found url
    found=$(all_of "$1")
    for instance in $found; do
        url=$(operator_url_of "$1" "$instance")
        at_exit lab chaos disarm "$url"
        at_exit kill_instance "$1" "$instance"
        lab chaos arm "$url" "$2" --pause
        say "armed $2 in the $1 process at $url"
    done
}

# Places 60 orders one at a time, so that at most one more is placed if this script is killed.
place_many() {
    for _ in {1..60}; do
        place --count 1 >>"$ids" || return 1
        sleep 0.1
    done
}

# under_load COMMAND…: runs a command while orders are placed; their ids are in ${orders[@]}.
under_load() {
    ids=$(mktemp)
    say "placing 60 orders, one after the other; each is retried until it is accepted"
    place_many &
    placing=$!
    while [[ $(wc -l <"$ids") -lt 10 ]]; do
        kill -0 "$placing" 2>/dev/null || fail "the order service accepts no orders"
        sleep 0.1
    done
    "$@"
    wait "$placing" || fail "an order was not accepted"
    placing=""
    # shellcheck disable=SC2034,SC2207  # for the scripts; ids have no spaces, and bash 3.2 no mapfile
    orders=($(<"$ids"))
}

# finish ORDER…: waits until everything is settled and checks the invariants.
finish() {
    say "waiting until everything is settled, then checking"
    chargeonce check --seconds "$settle_seconds" "$@" || fail "an invariant is violated"
    echo "✓ $(basename "$0" .sh): one order, one charge"
}
