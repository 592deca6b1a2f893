# The system in containers. Sourced by lib.sh, which sets root.
# shellcheck shell=bash disable=SC2154

# An image with a shell. The images of the services have none.
tool_image=postgres:17

compose() { (cd "$root" && docker compose "$@"); }
lab() { compose exec -T lab lab "$@" </dev/null; }
chargeonce() { compose exec -T lab chargeonce "$@" </dev/null; }
instances() { compose ps -q "$1"; }
about() { docker inspect -f "$2" "$1"; }
name_of() { about "$1" '{{slice .Name 1}}'; }

# network NAME CONTAINER: prints the network's full name and the container's address in it.
network() {
    local all found
    # shellcheck disable=SC2016  # a Docker template
    all=$(about "$2" '{{range $name, $it := .NetworkSettings.Networks}}{{println $name $it.IPAddress}}{{end}}')
    found=$(grep "_$1 " <<<"$all") || fail "$(name_of "$2") is not connected to the network $1"
    echo "$found"
}

# url_of, operator_url_of SERVICE CONTAINER: the address of this container, not the name that all replicas
# share, with the customers' port or the operators' port.
url_of() { address_of "$2" "$(number_of "$1" 808)"; }
operator_url_of() { address_of "$2" "$(number_of "$1" 908)"; }
address_of() {
    local address
    address=$(network core "$1") || exit 1
    echo "http://${address#* }:$2"
}
# number_of SERVICE PREFIX: its port, which is the prefix and the service's digit.
number_of() {
    case $1 in
    order) echo "${2}1" ;;
    payment) echo "${2}2" ;;
    fulfilment) echo "${2}3" ;;
    *) fail "the ports of $1 are not known here; add them to number_of" ;;
    esac
}

# kill_instance SERVICE CONTAINER: sends SIGKILL to all its processes, from inside. After `docker kill` the
# restart policy would not start the container again.
kill_instance() {
    local container=$2 before
    before=$(about "$container" '{{.State.StartedAt}}')
    docker run --rm --pid "container:$container" --network none --user 0 --entrypoint sh \
        "$tool_image" -c 'kill -9 -1' >/dev/null 2>&1 || true
    # A paused container dies when it resumes, before it does anything else.
    docker unpause "$container" >/dev/null 2>&1 || true
    for _ in {1..200}; do
        if [[ $(about "$container" '{{.State.StartedAt}}') != "$before" ||
            $(about "$container" '{{.State.Running}}') == false ]]; then
            say "kill -9 in $(name_of "$container"); restarts: $(about "$container" '{{.RestartCount}}')"
            return
        fi
        sleep 0.05
    done
    return 1
}

pause() { docker pause "$2" >/dev/null && say "paused $(name_of "$2")"; }
# After a pause Docker reports the container as unhealthy until the next probe.
resume() {
    docker unpause "$2" >/dev/null || return 1
    say "resumed $(name_of "$2")"
    for _ in {1..50}; do
        [[ $(about "$2" '{{.State.Health.Status}}') != healthy ]] || return 0
        sleep 0.2
    done
}

# need_two SERVICE: starts a second replica if there is only one, until the script ends.
need_two() {
    [[ $(instances "$1" | wc -l) -lt 2 ]] || return 0
    say "starting a second replica of $1"
    at_exit compose up -d --no-build --no-recreate --no-deps --scale "$1=1" "$1"
    compose up -d --no-build --no-recreate --no-deps --wait --scale "$1=2" "$1" >/dev/null 2>&1 ||
        fail "the second replica of $1 did not start; see docker compose logs $1"
}

# Disconnects the replicas of payment from the network that they share with the provider.
cut_network() {
    local container name
    for container in $(instances payment); do
        name=$(network provider "$container") || exit 1
        name=${name% *}
        at_exit docker network connect --alias payment "$name" "$container"
        docker network disconnect "$name" "$container"
        say "disconnected $(name_of "$container") from $name"
    done
}
restore_network() {
    local container name
    name=$(network provider "$(first_of psp)") || exit 1
    name=${name% *}
    for container in $(instances payment); do
        docker network connect --alias payment "$name" "$container"
        say "connected $(name_of "$container") to $name again"
    done
}
