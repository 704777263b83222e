#!/bin/sh
# Node source of level `file`: prints the names of the files in folder $1, one a line. Many folders have a file of the same name, such as
# Cargo.toml. The source has "names": "path", so these are nodes of their own: cli/Cargo.toml, common/Cargo.toml and so on.
set -eu
cd "$(dirname "$0")/../../$1"
find . -maxdepth 1 -type f | sed 's|^\./||' | sort
