#!/usr/bin/env bash
# Validates the Kubernetes manifests without a cluster: builds each overlay as kustomize does, and holds
# every object against the API server's own validation and against the services' settings.
#   scripts/k8s-check.sh               all that is in deploy/k8s
#   scripts/k8s-check.sh OVERLAY…      an overlay of your own
#   scripts/k8s-check.sh --self-test   breaks copies of the manifests, to see that each breakage is seen
set -euo pipefail
overlays=()
for argument in "$@"; do
    [[ $argument == --self-test ]] || overlays+=("$(realpath -e -- "$argument")")
done
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

CHECK=deploy/k8s/check
GO_NEEDED=$(sed -n 's/^go //p' "$CHECK/go.mod")
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/chargeonce

command -v go >/dev/null ||
    fail "Go is missing: install $GO_NEEDED or later. It builds kustomize and Kubernetes' validation."
version=$(go env GOVERSION)
[[ $(printf '%s\n' "$GO_NEEDED" "${version#go}" | sort -V | head -n 1) == "$GO_NEEDED" ]] ||
    fail "Go is too old: $GO_NEEDED or later is needed, ${version#go} is installed"

# Without the modules they have to be fetched, without compiled packages that takes minutes.
[[ -x $CACHE/k8s-check ]] || echo "Building the check; the first time takes a few minutes …"
if [[ ${1:-} == --self-test ]]; then
    # Not from the cache: the manifests are no part of what Go watches.
    exec go test -C "$CHECK" -buildvcs=false -count=1 .
fi
mkdir -p "$CACHE"
go build -C "$CHECK" -buildvcs=false -o "$CACHE/k8s-check" . ||
    fail "the check could not be built: it needs Go's module proxy once, and no network afterwards"
[[ $# -gt 0 ]] || overlays=(deploy/k8s/base deploy/k8s/overlays/*)
exec "$CACHE/k8s-check" . "${overlays[@]}"
