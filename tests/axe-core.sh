#!/usr/bin/env bash
# Downloads one version of axe-core into the target folder. The tests of the console check their pages with it. Needs
# npm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=4.14.1
sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
folder=${CARGO_TARGET_DIR:-target}/axe-core

is_there() { [ -e "$folder/axe.min.js" ] && sha256sum --check --status <<<"$sha256  $folder/axe.min.js"; }

is_there && exit
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "axe-core@$version" >/dev/null ||
    { echo "npm could not fetch axe-core $version, which the tests of the console need." >&2; exit 1; }
tar xzf "$work/axe-core-$version.tgz" -C "$work" package/axe.min.js
mv "$work/package/axe.min.js" "$folder"
is_there || { echo "axe-core $version is not the file whose checksum ${BASH_SOURCE[0]} knows." >&2; exit 1; }
