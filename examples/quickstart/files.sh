#!/bin/sh
# Node source of level `file`: prints the Rust files of the crate in folder $1, one a line, as paths from the root.
# Its parent level is `crate`, so it runs once for each. Two nodes of a level cannot have one name, thus whole paths and not file names.
set -eu
cd "$(dirname "$0")/../.."
# The folders that a crate's own files live in; crates nested in its folder are nodes of their own.
for folder in src tests benches examples; do
    if [ -d "$1/$folder" ]; then
        find "$1/$folder" -name '*.rs' \( -type f -o -type l \)
    fi
done | sort
