#!/usr/bin/env bash
# Tests the system in containers. Builds the images and starts a separate system on this machine. Places orders
# through the published port, kills payment during a charge, and scales. Counts the charges in the provider's
# database, and removes everything.
#   scripts/compose-test.sh          these steps
#   scripts/compose-test.sh --all    these steps, then every script in scripts/chaos except random.sh
# With KEEP=1 the containers stay up at the end.
set -Eeuo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

all=""
case ${1:-} in
"") ;;
--all) all=yes ;;
*) fail "usage: scripts/compose-test.sh [--all]" ;;
esac
docker compose version >/dev/null 2>&1 || fail "docker compose is missing; install Docker with Compose v2"
docker info >/dev/null 2>&1 || fail "the Docker engine does not respond; start it"
command -v curl >/dev/null || fail "curl is missing; install it"

# Separate from a system that the user runs: other names, images and ports, and no .env file.
export COMPOSE_PROJECT_NAME=chargeonce-test COMPOSE_FILE=docker-compose.yml
export CHARGEONCE_TAG=test COMPOSE_ENV_FILES=/dev/null
export ORDER_PORT=0 PAYMENT_PORT=0 FULFILMENT_PORT=0 RECEIPT_PORT=0 PSP_PORT=0 CONSOLE_PORT=0

stop() {
    local code=$?
    if [[ $code -ne 0 ]]; then
        docker compose ps -a || true
        docker compose logs --no-color --tail 15 || true
    fi
    [[ -n ${KEEP:-} ]] || docker compose down -v --timeout 20 >/dev/null 2>&1 || true
    exit "$code"
}
trap stop EXIT
trap 'echo "== FAILED at line $LINENO" >&2' ERR

step() { echo "== $* (after $SECONDS s)"; }
# quietly COMMAND…: prints the command's output only if it fails.
quietly() {
    local output
    output=$("$@" 2>&1) || fail "$output"
}
sql() { docker compose exec -T postgres psql -U postgres -tA -d "$1" -c "$2" </dev/null; }

# request METHOD PATH [CURL OPTION…]: prints the body of a successful response.
request() {
    local method=$1 path=$2
    shift 2
    curl -sS --fail-with-body --max-time 10 --retry 5 --retry-connrefused -X "$method" \
        "http://$(docker compose port balancer 8081)$path" -H 'Authorization: Bearer demo-key-acme' "$@"
}

# place KEY: sends an order twice under one key and prints its id. Both responses must be equal.
place() {
    local order='{"customer_id":"cust-88","currency":"USD","payment_method":"pm_card_ok",
                  "items":[{"sku":"SKU-99","quantity":1,"unit_price":2500}]}' first again
    local headers=(-H "Idempotency-Key: $1" -H 'Content-Type: application/json')
    first=$(request POST /orders "${headers[@]}" -d "$order")
    again=$(request POST /orders "${headers[@]}" -d "$order")
    [[ $first == "$again" ]] || fail "two responses under one key differ: $first and $again"
    first=${first#*'"order_id":"'}
    echo "${first%%'"'*}"
}

# place_some PREFIX: places ten orders and waits until they have shipped.
place_some() {
    local ids=() id number
    for number in {1..10}; do
        id=$(place "$1-$number")
        ids+=("$id")
    done
    for id in "${ids[@]}"; do
        for _ in {1..120}; do
            [[ $(request GET "/orders/$id") != *'"status":"shipped"'* ]] || continue 2
            sleep 0.5
        done
        fail "order $id did not ship"
    done
}

# one_charge_each N: checks in the provider's database that N orders have one charge each.
one_charge_each() {
    local counted
    counted=$(sql psp "select count(*), count(distinct reference) from charges where status = 'captured'")
    [[ $counted == "$1|$1" ]] || fail "expected $1 charges for $1 orders; the ledger has (charges|orders) $counted"
    echo "   count(*) = 1 for each of $1 orders"
}

hardened() {
    local container service ports
    for service in order payment fulfilment receipt psp balancer lab mail console; do
        container=$(docker compose ps -q "$service")
        [[ $(docker inspect -f '{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}' "$container") == "10001:10001 true" ]] ||
            fail "$service has a writable file system or runs as root"
        ! docker exec "$container" sh -c true >/dev/null 2>&1 || fail "$service has a shell"
    done
    ports=$(docker compose ps --format '{{.Ports}}')
    [[ $ports == *127.0.0.1:*-\>8081* ]] || fail "the API port is not published: $ports"
    [[ $ports != *0.0.0.0:* && $ports != *\[::\]:* ]] || fail "a port is open to the network: $ports"
}

step "reading the compose files"
docker compose config --quiet
docker compose --env-file deploy/observe.env config --quiet
host=$(docker compose -f docker-compose.yml -f docker-compose.host.yml config)
[[ $host != *dockerfile:* ]] || fail "with docker-compose.host.yml an image would still be built"
step "building"
docker compose build --quiet
step "starting with empty volumes"
quietly docker compose down -v
quietly docker compose up -d --wait
step "checking users, file systems and ports of the containers"
hardened
step "ten orders, each sent twice, through the published port"
place_some one
one_charge_each 10
step "the console sees them, and its actions need the token"
console=http://$(docker compose port console 8080)
for _ in {1..60}; do
    [[ $(curl -sS --max-time 10 "$console/api/state") != *'"charged_once":10,'* ]] || break
    sleep 0.5
done
state=$(curl -sS --max-time 10 "$console/api/state")
[[ $state == *'"charged_once":10,'* && $state == *'"verdict":"holds"'* ]] || fail "the console shows another state: $state"
[[ $(docker compose logs console) == *'/#token='* ]] || fail "the console's log has no link"
[[ $(curl -s -o /dev/null -w '%{http_code}' -X POST "$console/api/reset") == 401 ]] || fail "an action needs no token"
step "killing payment during a charge"
scripts/chaos/kill-payment-mid-charge.sh --on compose
one_charge_each 11
step "scaling payment to 3 and order to 2, then ten more orders"
quietly docker compose up -d --wait --no-build --scale payment=3 --scale order=2
place_some two
one_charge_each 21
if [[ -n $all ]]; then
    for script in scripts/chaos/[kpc]*-*.sh; do
        step "$script"
        "$script" --on compose
    done
fi
step "checking the invariants and stopping"
docker compose exec -T lab chargeonce check </dev/null
echo "All container tests passed after $SECONDS s."
