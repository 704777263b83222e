#!/bin/sh
# Job `check`: measures the file again and compares with what `measure` left. The config lets it start
# only when `measure` is done on the same node, so the result is there.
set -eu
node=$1 status=$2
cd "$(dirname "$0")/../.."
results=${QUICKSTART_RESULTS:-target/quickstart}
echo "check $node $BRASSERIE_INVOCATION" >> "$results/runs.log"

read -r lines bytes < "$results/$(printf %s "$node" | tr / +)"
if [ "$((lines))" -eq "$(wc -l < "$node")" ] && [ "$((bytes))" -eq "$(wc -c < "$node")" ]; then
    echo done > "$status"
else
    echo "$node changed since it was measured" >&2
    echo '{"result": "error_backoff", "data": {"exception": "the file changed since it was measured"}}' > "$status"
fi
