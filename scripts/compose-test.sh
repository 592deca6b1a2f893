#!/usr/bin/env bash
# The system in containers, from nothing: builds the images, starts it all beside whatever else runs on
# this machine, places orders through the published port, kills payment mid-charge, scales, counts the
# charges in the provider's own database, and takes everything down again.
#   scripts/compose-test.sh          as above
#   scripts/compose-test.sh --all    and every experiment of scripts/chaos
# KEEP=1 leaves the containers up, for a look at them.
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
docker compose version >/dev/null 2>&1 || fail "docker compose is missing: install Docker with Compose v2"
docker info >/dev/null 2>&1 || fail "no Docker engine answers: start it"
command -v curl >/dev/null || fail "curl is missing"

# Apart from a system of the user's: names, images and ports of its own, and nobody's .env.
export COMPOSE_PROJECT_NAME=chargeonce-test COMPOSE_FILE=docker-compose.yml
export CHARGEONCE_TAG=test COMPOSE_ENV_FILES=/dev/null
export ORDER_PORT=0 PAYMENT_PORT=0 FULFILMENT_PORT=0 RECEIPT_PORT=0 PSP_PORT=0

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
trap 'echo "== FAILED in line $LINENO" >&2' ERR

step() { echo "== $* (after $SECONDS s)"; }
# quietly COMMAND…: shows what it said only if it fails.
quietly() {
    local said
    said=$("$@" 2>&1) || fail "$said"
}
sql() { docker compose exec -T postgres psql -U postgres -tA -d "$1" -c "$2" </dev/null; }

# request METHOD PATH [CURL OPTION…]: prints the body of a good answer.
request() {
    local method=$1 path=$2
    shift 2
    curl -sS --fail-with-body --max-time 10 --retry 5 --retry-connrefused -X "$method" \
        "http://$(docker compose port gateway 8081)$path" -H 'Authorization: Bearer demo-key-acme' "$@"
}

# place KEY: places an order under a key, twice, and prints its id, if it was placed once.
place() {
    local order='{"customer_id":"cust-88","currency":"USD","payment_method":"pm_card_ok",
                  "items":[{"sku":"SKU-99","quantity":1,"unit_price":2500}]}' first again
    local headers=(-H "Idempotency-Key: $1" -H 'Content-Type: application/json')
    first=$(request POST /orders "${headers[@]}" -d "$order")
    again=$(request POST /orders "${headers[@]}" -d "$order")
    [[ $first == "$again" ]] || fail "two answers under one key: $first and $again"
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

# one_charge_each N: N orders have one charge each, by the provider's own database.
one_charge_each() {
    local counted
    counted=$(sql psp "select count(*), count(distinct reference) from charges")
    [[ $counted == "$1|$1" ]] || fail "$1 orders, and charges|references in the books are $counted"
    echo "   count(*) = 1 for each of $1 orders"
}

hardened() {
    local container service ports
    for service in order payment fulfilment receipt psp gateway lab mail; do
        container=$(docker compose ps -q "$service")
        [[ $(docker inspect -f '{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}' "$container") == "10001:10001 true" ]] ||
            fail "$service may write, or is root"
        ! docker exec "$container" sh -c true >/dev/null 2>&1 || fail "$service has a shell"
    done
    ports=$(docker compose ps --format '{{.Ports}}')
    [[ $ports == *127.0.0.1:*-\>8081* ]] || fail "no port is published: $ports"
    [[ $ports != *0.0.0.0:* && $ports != *\[::\]:* ]] || fail "a port is open to the network: $ports"
}

step "reading the compose files"
docker compose config --quiet
docker compose --env-file deploy/observe.env config --quiet
host=$(docker compose -f docker-compose.yml -f docker-compose.host.yml config)
[[ $host != *dockerfile:* ]] || fail "with docker-compose.host.yml something is still built"
step "building"
docker compose build --quiet
step "starting from nothing"
quietly docker compose down -v
quietly docker compose up -d --wait
step "looking at the containers"
hardened
step "ten orders, each sent twice, through the published port"
place_some one
one_charge_each 10
step "killing payment mid-charge"
scripts/chaos/kill-payment-mid-charge.sh --on compose
one_charge_each 11
step "three of payment, two of order, and ten more orders"
quietly docker compose up -d --wait --no-build --scale payment=3 --scale order=2
place_some two
one_charge_each 21
if [[ -n $all ]]; then
    for script in scripts/chaos/[kpc]*-*.sh; do
        step "$script"
        "$script" --on compose
    done
fi
step "taking it down"
docker compose exec -T lab chargeonce check </dev/null
echo "The containers are good after $SECONDS s."
