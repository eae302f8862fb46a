/* A broadcast is under way when the first all-to-all of the world begins (run with --connect auto, where that makes all connect
 * to all at once). Some call the all-to-all and then wait for the broadcast, others the other way round: both are right, and
 * who forwards the broadcast must be able to while it waits in the all-to-all.
 *
 *   offered BIT   ranks that have this bit wait for the broadcast first; prints "offered: ok"
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOT = 1, COUNT = 3000 }; /* so many are forwarded from process to process */
static int data[COUNT];

int main(int argc, char **argv)
{
    int rank, size, token = 0, bit = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Request broadcast;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *mine = malloc(size * sizeof *mine), *theirs = malloc(size * sizeof *theirs);
    for (int to = 0; to < size; to++)
        mine[to] = rank * size + to;
    if (rank == ROOT) { /* begins when all others have */
        for (int at = 0; at < COUNT; at++)
            data[at] = at + 4711;
        for (int others = 1; others < size; others++)
            MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Ibcast(data, COUNT, MPI_INT, ROOT, MPI_COMM_WORLD, &broadcast);
    } else {
        MPI_Ibcast(data, COUNT, MPI_INT, ROOT, MPI_COMM_WORLD, &broadcast);
        MPI_Send(&token, 1, MPI_INT, ROOT, 0, MPI_COMM_WORLD);
    }
    if (rank & bit)
        MPI_Wait(&broadcast, MPI_STATUS_IGNORE);
    MPI_Alltoall(mine, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
    if (!(rank & bit))
        MPI_Wait(&broadcast, MPI_STATUS_IGNORE);
    int wrong = 0;
    for (int at = 0; at < COUNT; at++)
        wrong += data[at] != at + 4711;
    for (int from = 0; from < size; from++)
        wrong += theirs[from] != from * size + rank;
    if (wrong) {
        fprintf(stderr, "offered: rank %d: %d values are wrong\n", rank, wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("offered: ok\n");
    free(mine), free(theirs);
    MPI_Finalize();
    return 0;
}
