#!/bin/sh
# Node source of level `folder`: prints the folders beside this folder's parent (in the repository: those of the crates), one a line.
set -eu
cd "$(dirname "$0")/../.."
for folder in */; do
    case $folder in
    target/) ;;
    *) printf '%s\n' "${folder%/}" ;;
    esac
done
