#!/bin/sh
# Node source of level `crate`: prints the folder of every crate of this repository, one a line.
set -eu
cd "$(dirname "$0")/../.."
find . -name target -prune -o -name Cargo.toml -print | sed 's|^\./||; s|/*Cargo\.toml$||' | grep . | sort
