# The system as processes of `lab up`. Sourced by lib.sh, which sets root.
# shellcheck shell=bash disable=SC2154

# The newest build, unless LAB is set.
lab_path() {
    local target=${CARGO_TARGET_DIR:-$root/target} path
    # shellcheck disable=SC2012  # two known names
    path=$(ls -t "$target"/{debug,release}/lab 2>/dev/null | head -n 1)
    echo "${path:-$target/debug/lab}"
}
LAB=${LAB:-$(lab_path)}
[[ -x $LAB ]] || fail "no system is running; start one with \`docker compose up -d --wait\` or scripts/demo.sh"

lab() { "$LAB" "$@"; }
chargeonce() { "$(dirname "$LAB")/chargeonce" "$@"; }
instances() {
    local found
    found=$(lab chaos instances "$1" | cut -d ' ' -f 1)
    [[ -n $found ]] || fail "$1 is not running"
    echo "$found"
}
url_of() { lab chaos instances "$1" | awk -v pid="$2" '$1 == pid { print $2 }'; }
operator_url_of() { lab chaos instances "$1" | awk -v pid="$2" '$1 == pid { print $3 }'; }

unsupported_reason() {
    local name=${1#kill-} pid
    [[ $name == postgres || $name == kafka ]] || return 0
    pid=$(lab chaos instances "$name" | cut -d ' ' -f 1)
    if [[ -z $pid ]]; then
        echo "$name is not a process of this lab: start the lab with its own $name"
    elif [[ $name == kafka && $(<"/proc/$pid/comm") != java ]]; then
        echo "the embedded broker keeps its messages in memory: start the lab with \`lab up --kafka apache\`"
    fi
}

# kill_instance SERVICE PID: sends SIGKILL; the lab restarts the process.
kill_instance() {
    kill -9 "$2"
    for _ in {1..200}; do
        if ! kill -0 "$2" 2>/dev/null; then
            say "kill -9 $2   ($1)"
            return
        fi
        sleep 0.05
    done
    return 1
}

pause() { kill -STOP "$2" && say "kill -STOP $2   ($1)"; }
resume() { kill -CONT "$2" && say "kill -CONT $2   ($1)"; }

need_two() {
    [[ $(instances "$1" | wc -l) -ge 2 ]] ||
        fail "a second replica of $1 is needed to take over; start the lab with \`lab up --scale $1=2\`"
}

# Local processes have no network to cut. To payment, a cut looks like a provider that does not respond, so
# the provider is paused.
cut_network() {
    provider=$(instances psp)
    at_exit resume psp "$provider"
    pause psp "$provider"
}
restore_network() { resume psp "$provider"; }
