# The system in pods (deploy/k8s/overlays/lab). Sourced by lib.sh.
# shellcheck shell=bash

command -v kubectl >/dev/null || fail "kubectl is missing; install it"
cluster() { kubectl --namespace "${NAMESPACE:-chargeonce}" "$@"; }

unsupported_reason() {
    case $1 in
    kill-postgres | kill-kafka) echo "Postgres and Kafka run outside the cluster: run this script against containers or processes" ;;
    pause-payment) echo "a pod cannot be paused: run this script against containers or processes" ;;
    esac
}

# A pod takes some seconds to die. The provider must hold the charge for longer.
# shellcheck disable=SC2034  # for lib.sh
hold_seconds=${HOLD_SECONDS:-20}

lab() { cluster exec deploy/lab -c lab -- /bin/lab "$@" </dev/null; }
chargeonce() { cluster exec deploy/lab -c lab -- /bin/chargeonce "$@" </dev/null; }

# Terminating pods come last: they receive no requests, but may still be processing a charge.
instances() {
    local name='pod/{{.metadata.name}}{{"\n"}}' found
    local serving="{{range .items}}{{if not .metadata.deletionTimestamp}}$name{{end}}{{end}}"
    local ending="{{range .items}}{{if .metadata.deletionTimestamp}}$name{{end}}{{end}}"
    found=$(cluster get pods -l "app.kubernetes.io/name=$1" --field-selector status.phase=Running \
        -o go-template="$serving$ending")
    [[ -n $found ]] || fail "no pod of $1 is running in this namespace"
    echo "$found"
}

# address_of POD [PORT]: host and named port of this pod, not of the service that all replicas share.
address_of() {
    local host port path=".spec.containers[?(@.name==\"service\")].ports[?(@.name==\"${2:-http}\")].containerPort"
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
operator_url_of() {
    local address
    address=$(address_of "$2" operators) && echo "http://$address"
}

# kill_instance SERVICE POD: returns when the pod is dead; its deployment creates a new one. This takes three
# seconds: the kubelet waits 1 s for the preStop hook, then always 2 s between SIGTERM and SIGKILL. It does
# not use --force, which removes the pod object immediately but leaves its processes their full 30 s.
kill_instance() {
    cluster delete "$2" --grace-period=1 --wait=true --timeout=60s --ignore-not-found >/dev/null &&
        say "killed $2"
}

# Without this policy, payment cannot reach the provider.
policy=networkpolicy/payment-to-psp
cut_network() {
    local pod provider address
    pod=$(first_of payment)
    provider=$(first_of psp)
    address=$(address_of "$provider")
    reaches "$pod" "$address" || fail "$pod cannot reach the provider at $address, even before the cut"
    saved=$(cluster get "$policy" -o yaml)
    at_exit restore_network
    cluster delete "$policy" >/dev/null && say "deleted $policy"
    is_cut_off "$pod" "$address" ||
        fail "$pod still reaches the provider; use a network plugin that enforces policies"
    say "$pod cannot connect to the provider at $address"
    # Some network plugins keep open connections. These end with the provider's process, and payment cannot
    # reach the next process.
    kill_all psp
}
restore_network() { cluster create -f - <<<"$saved" >/dev/null && say "created $policy again"; }

# is_cut_off POD ADDRESS: waits until the pod cannot connect. A policy change takes a moment to apply.
is_cut_off() {
    for _ in {1..20}; do
        reaches "$@" || return 0
        sleep 0.25
    done
    return 1
}
# reaches POD ADDRESS: can payment connect to the address? Uses payment's health check.
reaches() { cluster exec "$1" -c service -- /bin/payment healthy --listen "$2" </dev/null >/dev/null 2>&1; }
