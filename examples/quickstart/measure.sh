#!/bin/sh
# Job `measure`: counts lines and bytes of the file that is its node, and leaves them for the job `check`.
# A task gets the node's name, the path that takes its status, and a JSON argument; the same stand in BRASSERIE_NODE,
# BRASSERIE_STATUS and BRASSERIE_ARGUMENT. It starts in a working directory of its job, thus the `cd`.
set -eu
node=$1 status=$2
cd "$(dirname "$0")/../.."
# A task inherits the environment of its worker, and so of `brasserie run`.
results=${QUICKSTART_RESULTS:-target/quickstart}
mkdir -p "$results"

# One line a run: who wants to know whether anything ran twice can count them.
echo "measure $node $BRASSERIE_INVOCATION" >> "$results/runs.log"

if [ ! -r "$node" ]; then
    echo "cannot read $node" >&2
    # Tried again as the config's `backoff` says: after a second, and then it has failed.
    printf '{"result": "error_backoff", "data": {"exception": "the file cannot be read"}}\n' > "$status"
    exit 0
fi

lines=$(wc -l < "$node")
bytes=$(wc -c < "$node")
name=$(printf %s "$node" | tr / +)
printf '%s %s\n' "$((lines))" "$((bytes))" > "$results/$name.tmp.$$"
# Moved into place at once: a task that is killed halfway leaves nothing that looks whole.
mv "$results/$name.tmp.$$" "$results/$name"
echo "$node: $((lines)) lines, $((bytes)) bytes"
printf '{"result": "done", "data": {"lines": %d, "bytes": %d}}\n' "$((lines))" "$((bytes))" > "$status"
