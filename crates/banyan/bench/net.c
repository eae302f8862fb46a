/* What messages between hosts cost, for every MPI library: the same source, the same binding to cores, the same clock.
 *
 *   net version     what the library calls itself
 *   net p2p         ranks 0 and 1: the first message, then latency, bandwidth and message rate by size
 *   net idle        rank 0 with 2 busy connections, before and after the other ranks have contacted it
 *   net shared      ranks 0 and 1 (one host), before and after rank 0 has a connection with rank 2 (another host)
 *   net flood       ranks 0 and 1: quiet, while a stranger floods closed ports, and while it floods rank 0's ports;
 *                   the stranger is the command in BENCH_STRANGER, started beside rank 1 as: COMMAND ADDRESS UDP TCP
 *
 * A result is one line "key value" on standard output.
 */
#include "measure.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

extern char **environ;

enum { KI = 1024, MI = KI * KI, PORTS_MAX = 16, NAP_US = 500000, IDLE_ROUNDS = 5, FLOOD_ROUNDS = 9 };

static void nap(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void key_of(char *key, size_t space, const char *what, size_t bytes)
{
    snprintf(key, space, "%s_%zu", what, bytes);
}

/* The first round trip with a peer, which is waiting for it. Init must not have connected the two for the figure to say
 * what it should; no barrier comes before it. */
static double first_us(void)
{
    message_bytes = 8;
    if (rank == 0)
        nap(NAP_US);
    double start = now();
    ping_pong(1);
    return 1e6 * (now() - start);
}

static void run_p2p(void)
{
    static const size_t latency[] = {8, 512, 4 * KI, 16 * KI, 64 * KI, 256 * KI, MI, 4 * MI};
    static const size_t stream[] = {8, 512, 4 * KI, 64 * KI, MI, 4 * MI};
    char key[64];
    if (rank > 1)
        return;
    report("first", first_us());
    for (size_t i = 0; i < sizeof latency / sizeof *latency; i++) {
        key_of(key, sizeof key, "latency", latency[i]);
        report(key, latency_us(latency[i]));
    }
    for (size_t i = 0; i < sizeof stream / sizeof *stream; i++) {
        double seconds = per_message_s(stream[i]);
        key_of(key, sizeof key, "rate", stream[i]);
        report(key, 1e-6 / seconds); /* million messages per second */
        key_of(key, sizeof key, "bandwidth", stream[i]);
        report(key, 1e-9 * (double)stream[i] / seconds); /* GB/s */
    }
}

/* The median of several latencies, measured with one peer after the other. */
static double latency_with(const int *peers, int count, int rounds)
{
    double us[64];
    int taken = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            far_rank = peers[i];
            if (rank == near_rank || rank == far_rank)
                us[taken++] = latency_us(8);
        }
    }
    qsort(us, (size_t)taken, sizeof *us, by_value);
    return us[taken / 2];
}

/* Until rank 0 says that it is over, a rank sleeps outside the library and looks in now and then. */
static void stay_idle(void)
{
    int over = 0;
    char byte = 0;
    MPI_Request request;
    MPI_Irecv(&byte, 1, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &request);
    while (!over) {
        MPI_Test(&request, &over, MPI_STATUS_IGNORE);
        if (!over)
            nap(NAP_US);
    }
}

static void end_idle(int first)
{
    char byte = 0;
    for (int peer = first; peer < size; peer++)
        MPI_Send(&byte, 1, MPI_BYTE, peer, 9, MPI_COMM_WORLD);
}

static void contact_all(int first)
{
    int word = 0;
    for (int peer = first; peer < size; peer++) {
        MPI_Send(&peer, 1, MPI_INT, peer, 8, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, peer, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (word != peer)
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* Waits for rank 0's contact asleep, so that those who measure have the cores. */
static void answer_contact(void)
{
    int word = 0, there = 0;
    while (!there) {
        MPI_Iprobe(0, 8, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (!there)
            nap(NAP_US / 10);
    }
    MPI_Recv(&word, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&word, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
}

static void run_idle(void)
{
    static const int busy[] = {1, 2};
    if (rank > 2) {
        answer_contact();
        stay_idle();
        return;
    }
    report("latency_alone", latency_with(busy, 2, IDLE_ROUNDS));
    long before = rank == 0 ? memory_kib("\nPrivate_Dirty:") : 0;
    if (rank == 0)
        contact_all(3);
    long after = rank == 0 ? memory_kib("\nPrivate_Dirty:") : 0;
    report("latency_idle", latency_with(busy, 2, IDLE_ROUNDS));
    report("idle_bytes", 1024.0 * (double)(after - before) / (size > 3 ? size - 3 : 1));
    if (rank == 0)
        end_idle(3);
}

static void run_shared(void)
{
    static const int busy[] = {1};
    if (rank > 1) {
        answer_contact();
        stay_idle();
        return;
    }
    report("latency_alone", latency_with(busy, 1, IDLE_ROUNDS));
    if (rank == 0)
        contact_all(2);
    report("latency_beside_tcp", latency_with(busy, 1, IDLE_ROUNDS));
    if (rank == 0)
        end_idle(2);
}

/* --- a stranger's flood --- */

struct ports { int udp, tcp; char address[64]; };

/* Is this socket ours? The inode of each of our sockets stands in the name of its descriptor. */
static int is_ours(unsigned long inode)
{
    char wanted[64], path[300], name[64];
    struct dirent *entry;
    int found = 0;
    DIR *dir = opendir("/proc/self/fd");
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    while (dir && !found && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, name, sizeof name - 1);
        name[length > 0 ? length : 0] = 0;
        found = strcmp(name, wanted) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* The port of our first socket in a table of /proc/net that is in this state; 0 if there is none. */
static int own_port(const char *table, unsigned wanted_state)
{
    char line[512];
    int found = 0;
    FILE *file = fopen(table, "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        unsigned port, state;
        unsigned long inode;
        int fields = sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*d %*d %lu", &port, &state, &inode);
        if (fields == 3 && state == wanted_state && is_ours(inode))
            found = (int)port;
    }
    if (file)
        fclose(file);
    return found;
}

static void own_ports(struct ports *ports)
{
    enum { UNCONNECTED = 7, LISTENING = 10 };
    ports->udp = own_port("/proc/net/udp", UNCONNECTED);
    if (!ports->udp)
        ports->udp = own_port("/proc/net/udp6", UNCONNECTED);
    ports->tcp = own_port("/proc/net/tcp", LISTENING);
    if (!ports->tcp)
        ports->tcp = own_port("/proc/net/tcp6", LISTENING);
}

/* A port that was free a moment ago. */
static int closed_port(int type)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, type, 0);
    if (fd < 0 || bind(fd, (void *)&address, length) != 0 || getsockname(fd, (void *)&address, &length) != 0)
        MPI_Abort(MPI_COMM_WORLD, 4);
    close(fd);
    return ntohs(address.sin_port);
}

static void own_address(struct ports *ports)
{
    struct ifaddrs *all = NULL;
    getifaddrs(&all);
    for (struct ifaddrs *one = all; one; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && !(one->ifa_flags & IFF_LOOPBACK))
            inet_ntop(AF_INET, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, ports->address, sizeof ports->address);
    freeifaddrs(all);
}

static pid_t start_stranger(const struct ports *ports)
{
    char command[512];
    char *words[] = {"/bin/sh", "-c", command, NULL};
    pid_t pid = 0;
    const char *stranger = getenv("BENCH_STRANGER");
    snprintf(command, sizeof command, "exec %s %s %d %d", stranger ? stranger : "true", ports->address, ports->udp,
             ports->tcp);
    if (posix_spawn(&pid, words[0], NULL, NULL, words, environ) != 0)
        MPI_Abort(MPI_COMM_WORLD, 4);
    return pid;
}

/* The latency while a stranger floods these ports of rank 0 (none: no flood). */
static double latency_beside(const struct ports *ports)
{
    static const int peers[] = {1};
    pid_t stranger = rank == 1 && ports ? start_stranger(ports) : 0;
    nap(NAP_US); /* it takes a moment to start */
    double us = latency_with(peers, 1, FLOOD_ROUNDS);
    if (stranger) {
        kill(stranger, SIGTERM);
        waitpid(stranger, NULL, 0);
    }
    return us;
}

static void run_flood(void)
{
    struct ports own = {0}, closed = {0};
    if (rank > 1)
        return;
    far_rank = 1;
    latency_us(8); /* they are connected now */
    if (rank == 0) {
        own_ports(&own);
        own_address(&own);
        if (!own.udp && !own.tcp) {
            fprintf(stderr, "rank 0 has no port that could be flooded\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        closed = own;
        closed.udp = closed_port(SOCK_DGRAM);
        closed.tcp = closed_port(SOCK_STREAM);
        MPI_Send(&own, sizeof own, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
        MPI_Send(&closed, sizeof closed, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&own, sizeof own, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&closed, sizeof closed, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    report("latency_quiet", latency_beside(NULL));
    report("latency_closed", latency_beside(&closed));
    long before = memory_kib("\nPrivate_Dirty:");
    report("latency_flooded", latency_beside(&own));
    report("growth_kib", (double)(memory_kib("\nPrivate_Dirty:") - before));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    begin(early_rank() > 0); /* rank 0 shares its core with nobody that is busy */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "version") == 0) {
        if (rank == 0)
            print_version();
        MPI_Finalize();
        return 0;
    }
    if (rank < 3)
        make_buffers();
    if (strcmp(what, "p2p") == 0 && size >= 2) {
        run_p2p();
    } else if (strcmp(what, "idle") == 0 && size >= 3) {
        run_idle();
    } else if (strcmp(what, "shared") == 0 && size >= 3) {
        run_shared();
    } else if (strcmp(what, "flood") == 0 && size >= 2) {
        run_flood();
    } else {
        fprintf(stderr, "usage: net version | p2p | idle | shared | flood\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
