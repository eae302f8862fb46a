/* Do all sockets that other processes reach this one by have ports of a range?
 *
 *   ports LOW HIGH        rank 0 says: "N sockets, M outside of LOW-HIGH"
 *
 * Looked at are TCP sockets that listen and UDP sockets that are connected to nobody, after every rank has talked to its
 * neighbours. */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 1024, LISTENING = 0x0a, UNCONNECTED = 0x07 };

static unsigned long inodes[DESCRIPTORS_MAX];
static int descriptors;

static void list_own_sockets(void) {
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while (folder && (entry = readdir(folder)) && descriptors < DESCRIPTORS_MAX) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 &&
            sscanf(target, "socket:[%lu]", &inodes[descriptors]) == 1)
            descriptors++;
    }
    if (folder) closedir(folder);
}

static int is_own(unsigned long inode) {
    for (int i = 0; i < descriptors; i++)
        if (inodes[i] == inode) return 1;
    return 0;
}

/* Counts this process's sockets in that state, and those of them whose port is not in the range. */
static void look(const char *file, unsigned state, const int range[2], int counts[2]) {
    char line[512];
    FILE *list = fopen(file, "r");
    while (list && fgets(line, sizeof line, list)) {
        unsigned port, seen;
        unsigned long inode;
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu", &port, &seen, &inode) != 3)
            continue;
        if (seen != state || !is_own(inode)) continue;
        counts[0]++;
        counts[1] += (int)port < range[0] || (int)port > range[1];
    }
    if (list) fclose(list);
}

int main(int argc, char **argv) {
    int rank, size, from, counts[2] = {0, 0}, sums[2];
    const int range[2] = {atoi(argc > 1 ? argv[1] : "0"), atoi(argc > 2 ? argv[2] : "0")};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &from, 1, MPI_INT, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    list_own_sockets();
    look("/proc/self/net/tcp", LISTENING, range, counts);
    look("/proc/self/net/tcp6", LISTENING, range, counts);
    look("/proc/self/net/udp", UNCONNECTED, range, counts);
    look("/proc/self/net/udp6", UNCONNECTED, range, counts);
    MPI_Reduce(counts, sums, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%d sockets, %d outside of %d-%d\n", sums[0], sums[1], range[0], range[1]);
    MPI_Finalize();
    return 0;
}
