#!/bin/sh
# Job `count`: counts the words of the text files below the folder that is its node. It leaves the list `words` in its working directory,
# which is a new folder of its own, since the job has `outputs`.
set -eu
work=$PWD
cd "$(dirname "$0")/../.."
find "$BRASSERIE_NODE" -type f \( -name '*.rs' -o -name '*.md' -o -name '*.sh' \) -exec cat {} + |
    tr -cs 'A-Za-z' '\n' | tr 'A-Z' 'a-z' | sort | uniq -c > "$work/words"
