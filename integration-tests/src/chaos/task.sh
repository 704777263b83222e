#!/bin/sh
# A task that testifies against the cluster. Everything it starts inherits descriptor 9, whose lock the kernel frees only when the last
# of these processes is dead. Arguments: node, status pipe, JSON. Works in the folder above its own.
set -u
node=$1 status=$2 place=$PWD
cd "$(dirname "$0")/.."
exec 9>> "locks/$node"
record() {
    # Not the wall clock, which jumps.
    read -r uptime _ < /proc/uptime
    echo "$1 $node $BRASSERIE_INVOCATION $uptime ${BRASSERIE_FENCE:-none} $place" >> runs
}
flock -n 9 || record overlap
record start
pause=$(cat pause)
case $node in
*1) # A helper in the task's process group.
    sleep 600 &
    sleep "$pause"
    kill $!
    ;;
*2) # A helper in a session of its own.
    setsid sh -c 'echo $$ > "$0"; exec sleep 600' "helpers/$BRASSERIE_INVOCATION" &
    sleep "$pause"
    while ! kill "$(cat "helpers/$BRASSERIE_INVOCATION")" 2> helpers/errors; do sleep 0.05; done
    ;;
*3) # A daemon that sheds its group, session, parent and environment.
    env -i "PATH=$PATH" setsid sh -c 'setsid sh -c "echo \$\$ > $0; exec sleep 600" "$0" & exit' "helpers/$BRASSERIE_INVOCATION"
    sleep "$pause"
    while ! kill "$(cat "helpers/$BRASSERIE_INVOCATION")" 2> helpers/errors; do sleep 0.05; done
    ;;
*4) # The first run fails.
    sleep "$pause"
    if ! [ -e "helpers/failed-$node" ]; then
        : > "helpers/failed-$node"
        record end
        echo '{"result":"error_backoff"}' > "$status"
        exit 1
    fi
    ;;
*) sleep "$pause" ;;
esac
record end
echo done > "$status"
