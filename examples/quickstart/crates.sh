#!/bin/sh
# Node source of level `crate`: prints the folder of every crate of this repository, one a line.
# Its parent level is `instance`, the one node at the top, so it runs once. Node sources are read again every five minutes.
set -eu
cd "$(dirname "$0")/../.."
crates=$(find . -name target -prune -o -name Cargo.toml -print | sed 's|^\./||; s|/*Cargo\.toml$||' | grep . | sort)
if [ -z "$crates" ]; then
    echo "the quick start measures the Rust files of a clone of the Brasserie repository, and $PWD has no Cargo.toml below it" >&2
    exit 1
fi
printf '%s\n' "$crates"
