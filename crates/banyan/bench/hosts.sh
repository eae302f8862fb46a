#!/bin/bash
# A few hosts on this machine for a benchmark: each has a network, process ids, a name, IPC and /dev/shm of its own
# (namespaces). They are ports of one bridge; the file system is shared.
#
#   hosts.sh N FOLDER
#
# Prints "ready" when n1 (10.78.0.1) to nN and the host `head` (10.78.0.254), which is this process, are there, or one
# line that says what is missing. FOLDER/shell is used like ssh: shell HOST COMMAND. Everything ends when standard input
# closes or this process dies.
set -u
export PATH=$PATH:/usr/sbin:/sbin
self=$(readlink -f "$0")

fail() { echo "$*"; exit 1; }

# Names of the hosts are known everywhere, and no others: nobody waits for a name server.
names() { mount --bind "$1/hosts" /etc/hosts && { [ ! -e /etc/resolv.conf ] || mount --bind "$1/none" "$(readlink -f /etc/resolv.conf)"; }; }

host() { # the first process of host $1
    local i=$1 folder=$2 try
    mount -t sysfs sysfs /sys && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && names "$folder" && hostname "n$i" || exit 1
    for ((try = 0; try < 500; try++)); do
        ip link show eth0 >/dev/null 2>&1 && break
        sleep 0.01
    done
    ip link set lo up && ip addr add "10.78.0.$i/16" dev eth0 && ip link set eth0 up || exit 1
    # Benchmarks open and close many connections in a minute.
    echo "10000 65000" >/proc/sys/net/ipv4/ip_local_port_range && echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse
    : >"$folder/n$i.up"
    read -r _
}

head_of_all() {
    local hosts=$1 folder=$2 i try pid
    : >"$folder/none"
    { echo "127.0.0.1 localhost"; echo "10.78.0.254 head"; for ((i = 1; i <= hosts; i++)); do echo "10.78.0.$i n$i"; done; } >"$folder/hosts"
    cat >"$folder/shell" <<SHELL
#!/bin/sh
# Runs a command on a host of this benchmark, as ssh would.
while :; do case \$1 in -*) shift ;; *) break ;; esac; done
host=\$1
shift
exec nsenter --target "\$(cat '$folder'/"\$host".pid)" --net --mount --uts --ipc --pid sh -c "\$*"
SHELL
    chmod 755 "$folder/shell"
    names "$folder" && hostname head && ip link set lo up && ip link add bridge type bridge &&
        ip addr add 10.78.0.254/16 dev bridge && ip link set bridge up || fail "no bridge could be made"
    mkfifo "$folder/alive" && exec 3<>"$folder/alive" # hosts end when nobody holds this open for writing
    for ((i = 1; i <= hosts; i++)); do
        unshare --net --mount --uts --ipc --pid --fork --kill-child --mount-proc \
            bash "$self" host "$i" "$folder" <"$folder/alive" 3>&- >"$folder/n$i.log" 2>&1 &
        pid=$!
        for ((try = 0; try < 500; try++)); do
            [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ] && break
            sleep 0.01
        done
        ip link add "n$i" type veth peer name eth0 netns "$pid" && ip link set "n$i" master bridge up ||
            fail "host n$i could not be made"
        for ((try = 0; try < 500; try++)); do
            [ -e "$folder/n$i.up" ] && break
            sleep 0.01
        done
        [ -e "$folder/n$i.up" ] || fail "host n$i did not start: $(tail -n 1 "$folder/n$i.log")"
        tr -d ' ' <"/proc/$pid/task/$pid/children" >"$folder/n$i.pid"
    done
    echo ready
    read -r _
    exec 2>/dev/null # the shell would say of each host that it was killed
    kill -KILL $(jobs -p)
}

case $1 in
host) host "$2" "$3" ;;
head) head_of_all "$2" "$3" ;;
*)
    [ "$(id -u)" = 0 ] || fail "hosts in network namespaces need root"
    for tool in ip unshare nsenter; do
        command -v "$tool" >/dev/null || fail "$tool is not installed"
    done
    exec unshare --net --mount --uts bash "$self" head "$1" "$2"
    ;;
esac
