/* Processes that have made what others of their node use go, and the others go on: outlive SECONDS.
 *
 * The first rank spawns as many processes as there are ranks, and talks to them before it talks to any other rank: with shared
 * connections (--xrc) these make the ends, on all nodes, that it sends to. Then it talks to the ranks, the spawned ones
 * leave, every other one of them by a signal, and the ranks talk on: "outlive: ok, N rounds". */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST (256 << 10)

static char buffer[LONGEST];
static const int sizes[] = {8, 3000, LONGEST};

/* There and back. */
static void ask(MPI_Comm comm, int of, int round) {
    for (int i = 0; i < 3; i++) {
        memset(buffer, round, sizes[i]);
        MPI_Send(buffer, sizes[i], MPI_CHAR, of, i, comm);
        MPI_Recv(buffer, sizes[i], MPI_CHAR, of, i, comm, MPI_STATUS_IGNORE);
        for (int at = 0; at < sizes[i]; at++)
            if (buffer[at] != (char)(round + 1)) {
                printf("outlive: byte %d of %d from %d in round %d is %d\n", at, sizes[i], of, round, buffer[at]);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
    }
}

static void answer(MPI_Comm comm) {
    for (int i = 0; i < 3; i++) {
        MPI_Recv(buffer, sizes[i], MPI_CHAR, 0, i, comm, MPI_STATUS_IGNORE);
        for (int at = 0; at < sizes[i]; at++) buffer[at]++;
        MPI_Send(buffer, sizes[i], MPI_CHAR, 0, i, comm);
    }
}

int main(int argc, char **argv) {
    MPI_Comm parent, children;
    int rank, size, round = 0, go = 1;
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (parent != MPI_COMM_NULL) {
        answer(parent);
        MPI_Recv(&go, 1, MPI_INT, 0, 9, parent, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&parent);
        if (rank % 2) kill(getpid(), SIGKILL);
        MPI_Finalize();
        return 0;
    }
    if (rank == 0) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, size, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        for (int child = 0; child < size; child++) ask(children, child, 1);
        for (int other = 1; other < size; other++) ask(MPI_COMM_WORLD, other, 2);
        for (int child = 0; child < size; child++) MPI_Send(&go, 1, MPI_INT, child, 9, children);
        MPI_Comm_disconnect(&children);
    } else {
        answer(MPI_COMM_WORLD);
    }
    const double start = MPI_Wtime();
    for (; go; round++) {
        for (int other = 1; rank == 0 && other < size; other++) ask(MPI_COMM_WORLD, other, round);
        if (rank) answer(MPI_COMM_WORLD);
        go = MPI_Wtime() - start < seconds;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("outlive: ok, %d rounds\n", round);
    MPI_Finalize();
    return 0;
}
