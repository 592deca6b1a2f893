# The system in pods (deploy/k8s/overlays/lab). Sourced by lib.sh.
# shellcheck shell=bash

command -v kubectl >/dev/null || fail "kubectl is not installed"
cluster() { kubectl --namespace "${NAMESPACE:-chargeonce}" "$@"; }

eyes() { cluster exec deploy/lab -- lab "$@" </dev/null; }
instances() {
    local found
    found=$(cluster get pods -l "app.kubernetes.io/name=$1" --field-selector status.phase=Running -o name)
    [[ -n $found ]] || fail "no pod of $1 runs here; Postgres and Kafka are outside of the cluster"
    echo "$found"
}
url_of() {
    cluster get "$2" -o jsonpath='http://{.status.podIP}:{.spec.containers[0].ports[0].containerPort}'
}

# kill_instance SERVICE POD: without grace; its deployment makes a new one.
kill_instance() {
    cluster delete "$2" --grace-period=0 --force --wait=true >/dev/null 2>&1 && say "killed $2"
}

freeze() { fail "a pod cannot be paused; run this against containers or processes"; }
thaw() { :; }
need_two() {
    [[ $(instances "$1" | wc -l) -ge 2 ]] ||
        fail "there must be another to take over: kubectl scale --replicas 2 deploy/$1"
}

# Everything is forbidden that no policy allows: without this one, payment does not reach the provider.
policy=networkpolicy/payment-to-psp
cut_network() {
    saved=$(mktemp)
    cluster get "$policy" -o yaml >"$saved"
    at_exit rm -f "$saved"
    at_exit mend_network
    cluster delete "$policy" >/dev/null && say "took $policy away"
}
mend_network() { cluster apply -f "$saved" >/dev/null && say "put $policy back"; }
