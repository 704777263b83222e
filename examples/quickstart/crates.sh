#!/bin/sh
# Node source of level `crate`: prints the folder of every crate of this repository, one a line.
# Its parent level is `instance`, the one node at the top, so it runs once. Node sources are read again every five minutes.
set -eu
cd "$(dirname "$0")/../.."
find . -name target -prune -o -name Cargo.toml -print | sed 's|^\./||; s|/*Cargo\.toml$||' | grep . | sort
