#!/usr/bin/env bash
# Validates the Kubernetes manifests without a cluster. Builds each overlay with kustomize and checks every
# object with the API server's validation and against the services' settings.
#   scripts/k8s-check.sh               everything in deploy/k8s
#   scripts/k8s-check.sh OVERLAY…      these overlays
#   scripts/k8s-check.sh --self-test   breaks copies of the manifests and expects an error for each
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
    fail "Go is missing; install $GO_NEEDED or later. It builds kustomize and the Kubernetes validation code."
version=$(go env GOVERSION)
[[ $(printf '%s\n' "$GO_NEEDED" "${version#go}" | sort -V | head -n 1) == "$GO_NEEDED" ]] ||
    fail "Go ${version#go} is too old; install $GO_NEEDED or later"

# The first build fetches the modules and compiles all packages, which takes minutes.
[[ -x $CACHE/k8s-check ]] || echo "Building the check; the first build takes a few minutes …"
if [[ ${1:-} == --self-test ]]; then
    # Without the test cache: Go does not notice changed manifests.
    exec go test -C "$CHECK" -buildvcs=false -count=1 .
fi
mkdir -p "$CACHE"
go build -C "$CHECK" -buildvcs=false -o "$CACHE/k8s-check" . ||
    fail "the check could not be built; the first build needs access to the Go module proxy"
[[ $# -gt 0 ]] || overlays=(deploy/k8s/base deploy/k8s/overlays/*)
exec "$CACHE/k8s-check" . "${overlays[@]}"
