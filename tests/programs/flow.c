/* Messages between all ranks for some time: flow SECONDS [RANK [PAUSE]]. The rank (-1: none) is killed half way. The first
   message waits for the pause, in seconds. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST (256 << 10)

static char out[LONGEST], in[LONGEST];

/* With the rank at a distance: short messages, and a long one. */
static void exchange(int rank, int ranks, int distance, int round) {
    const int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
    const int sizes[] = {8, 3000, LONGEST};
    for (int i = 0; i < 3; i++) {
        memset(out, round + rank, sizes[i]);
        MPI_Sendrecv(out, sizes[i], MPI_CHAR, to, i, in, sizes[i], MPI_CHAR, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < sizes[i]; at++)
            if (in[at] != (char)(round + from)) {
                printf("flow: rank %d: byte %d of %d from %d in round %d is %d\n", rank, at, sizes[i], from, round, in[at]);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
    }
}

int main(int argc, char **argv) {
    int rank, ranks, round = 0, go = 1;
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    const int killed = argc > 2 ? atoi(argv[2]) : -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 3) usleep((useconds_t)(1e6 * atof(argv[3])));
    const double start = MPI_Wtime();
    for (; go; round++) {
        for (int distance = 1; distance < ranks; distance++) exchange(rank, ranks, distance, round);
        if (rank == 0 && round == 0) {
            puts("flow: started");
            fflush(stdout);
        }
        if (rank == killed && MPI_Wtime() - start > seconds / 2) kill(getpid(), SIGKILL);
        go = MPI_Wtime() - start < seconds;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("flow: ok, %d ranks, %d rounds\n", ranks, round);
    MPI_Finalize();
    return 0;
}
