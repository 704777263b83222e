#!/bin/sh
# Job `total`: adds the lists of all tasks of job `count`, wherever they ran. Each is below $BRASSERIE_INPUTS, in a folder for the job and
# one for the node. It writes the most frequent words to target/words.txt.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p target
cat "$BRASSERIE_INPUTS"/count/*/words |
    awk '$2 != "" { words[$2] += $1 } END { for (word in words) print words[word], word }' |
    sort -k1,1nr -k2 > target/words.txt.tmp
mv target/words.txt.tmp target/words.txt
