#!/bin/sh
# Job `compress`: compresses the file that is its node into target/files. The node's name is the path of the file,
# BRASSERIE_NODE_LABEL is the name that files.sh has printed. The exit code says whether the task is done.
set -eu
cd "$(dirname "$0")/../.."
folder=target/files/$(dirname "$BRASSERIE_NODE")
mkdir -p "$folder"
# The file is renamed when it is complete, so a killed task leaves no incomplete file under the final name.
gzip -c "$BRASSERIE_NODE" > "$folder/.$BRASSERIE_NODE_LABEL.tmp"
mv "$folder/.$BRASSERIE_NODE_LABEL.tmp" "$folder/$BRASSERIE_NODE_LABEL.gz"
