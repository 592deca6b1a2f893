#!/usr/bin/env bash
# Takes the pictures of the console in docs/images, and the animation of the kill, from a real system.
# Installs Chromium, pngquant (fewer colours), img2webp (the animation) and the typeface Inter on Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_compiler
need_postgres
need_browser
need pngquant pngquant
command -v img2webp >/dev/null || missing+=(webp)
# The page uses the system's typeface. Debian's default is wider than what most people have.
[[ -d /usr/share/fonts/opentype/inter ]] || missing+=(fonts-inter)
install_missing
need_cargo

cargo build --workspace --bins --example screenshots --features "$FEATURES,end-to-end/screenshots"
pictures=$(mktemp -d)
trap 'rm -rf "$pictures"' EXIT
CHARGEONCE_BIN_DIR=$(realpath "$TARGET")/debug "$TARGET/debug/examples/screenshots" "$pictures"

img2webp "$pictures/kill.args"
cp "$pictures/console-kill.webp" docs/images/
for picture in "$pictures"/console*.png; do
    pngquant --force --speed 1 --strip --quality 60-90 --output "docs/images/$(basename "$picture")" "$picture"
done
ls -l docs/images/console*
