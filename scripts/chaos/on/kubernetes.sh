# The system in pods (deploy/k8s/overlays/lab). Sourced by lib.sh.
# shellcheck shell=bash

command -v kubectl >/dev/null || fail "kubectl is not installed"
cluster() { kubectl --namespace "${NAMESPACE:-chargeonce}" "$@"; }

why_not() {
    case $1 in
    kill-postgres | kill-kafka) echo "Postgres and Kafka are outside of the cluster" ;;
    pause-payment) echo "a pod cannot be paused: run this against containers or processes" ;;
    esac
}

# A pod takes some seconds to die, and the provider must hold the charge for longer.
# shellcheck disable=SC2034  # for lib.sh
hold_seconds=20

lab() { cluster exec deploy/lab -c lab -- /bin/lab "$@" </dev/null; }
chargeonce() { cluster exec deploy/lab -c lab -- /bin/chargeonce "$@" </dev/null; }

# Pods that are being ended come last: they serve nobody, but may still be at a charge.
instances() {
    local name='pod/{{.metadata.name}}{{"\n"}}' found
    local serving="{{range .items}}{{if not .metadata.deletionTimestamp}}$name{{end}}{{end}}"
    local ending="{{range .items}}{{if .metadata.deletionTimestamp}}$name{{end}}{{end}}"
    found=$(cluster get pods -l "app.kubernetes.io/name=$1" --field-selector status.phase=Running \
        -o go-template="$serving$ending")
    [[ -n $found ]] || fail "no pod of $1 runs in this namespace"
    echo "$found"
}

# address_of POD: host and port of the service in it, past the name that all replicas share.
address_of() {
    local host port path='.spec.containers[?(@.name=="service")].ports[?(@.name=="http")].containerPort'
    host=$(cluster get "$1" -o jsonpath='{.status.podIP}')
    port=$(cluster get "$1" -o jsonpath="{$path}")
    [[ -n $host && -n $port ]] || fail "$1 has no address"
    [[ $host != *:* ]] || host="[$host]"
    echo "$host:$port"
}
url_of() {
    local address
    address=$(address_of "$2") && echo "http://$address"
}

# kill_instance SERVICE POD: returns when it is dead; its deployment makes a new one. Three seconds: the
# kubelet waits 1 for the preStop hook and, however it is asked, 2 more between SIGTERM and SIGKILL. Not
# --force, which forgets the pod at once and lets its processes end in peace, in all of their 30 s.
kill_instance() {
    cluster delete "$2" --grace-period=1 --wait=true --timeout=60s --ignore-not-found >/dev/null &&
        say "killed $2"
}

# Everything is forbidden that no policy allows: without this one, payment does not reach the provider.
policy=networkpolicy/payment-to-psp
cut_network() {
    local pod provider address
    pod=$(first_of payment)
    provider=$(first_of psp)
    address=$(address_of "$provider")
    reaches "$pod" "$address" || fail "$pod does not reach the provider at $address as it is"
    saved=$(cluster get "$policy" -o yaml)
    at_exit mend_network
    cluster delete "$policy" >/dev/null && say "took $policy away"
    comes_off "$pod" "$address" || fail "$pod still reaches the provider: does your network enforce policies?"
    say "$pod cannot connect to the provider at $address"
    # Whether connections that are open already are cut is left to the network's plugin. They end with
    # the provider's process; its successor cannot be reached.
    kill_all psp
}
mend_network() { cluster create -f - <<<"$saved" >/dev/null && say "put $policy back"; }

# comes_off POD ADDRESS: a policy takes a moment to be in force everywhere.
comes_off() {
    for _ in {1..20}; do
        reaches "$@" || return 0
        sleep 0.25
    done
    return 1
}
# reaches POD ADDRESS: whether payment can connect to it, by its own health check.
reaches() { cluster exec "$1" -c service -- /bin/payment healthy --listen "$2" </dev/null >/dev/null 2>&1; }
