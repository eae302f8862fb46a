/* What an ordinary program does, in one: it is built with somebody else's mpicc and runs unchanged on
 * whichever library is found at start. Checks its own results; rank 0 prints one line. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "rank %d of %d: wrong %s\n", rank, size, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Every size class: inline, eager, rendezvous. */
static void exchange(int bytes)
{
    char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, count = -1;
    MPI_Request request;
    MPI_Status status;
    for (int i = 0; i < bytes; i++)
        out[i] = (char)(i * 7 + rank);
    MPI_Irecv(in, bytes, MPI_BYTE, previous, bytes % 1000, MPI_COMM_WORLD, &request);
    MPI_Send(out, bytes, MPI_BYTE, next, bytes % 1000, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    check(count == bytes && status.MPI_SOURCE == previous && status.MPI_TAG == bytes % 1000, "status");
    for (int i = 0; i < bytes; i++)
        check(in[i] == (char)(i * 7 + previous), "bytes");
    free(out);
    free(in);
}

/* Rank 0 takes one message from everybody, in any order. */
static void any_source(void)
{
    int sum = 0;
    if (rank != 0) {
        MPI_Ssend(&rank, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        return;
    }
    for (int i = 1; i < size; i++) {
        int value = 0;
        MPI_Status status;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        check(value == status.MPI_SOURCE && status.MPI_TAG == 5, "any source");
        sum += value;
    }
    check(sum == size * (size - 1) / 2, "sum of any source");
}

static void collectives(void)
{
    double mine = rank + 1, sum = 0;
    int root_value = rank == size - 1 ? 42 : 0, *all = malloc(sizeof(int) * (size_t)size);
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check(sum == 0.5 * size * (size + 1), "allreduce");
    MPI_Bcast(&root_value, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    check(root_value == 42, "bcast");
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        check(all[i] == i, "allgather");
    free(all);
}

static void split(void)
{
    MPI_Comm half;
    int half_rank = -1, half_size = -1, most = -1;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &half_rank);
    MPI_Comm_size(half, &half_size);
    MPI_Allreduce(&rank, &most, 1, MPI_INT, MPI_MAX, half);
    int members = (size + 1 - rank % 2) / 2;
    check(half_size == members && most == rank + 2 * half_rank, "split");
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    exchange(8);
    exchange(5000);
    exchange(300000);
    any_source();
    collectives();
    split();
    MPI_Get_library_version(version, &length);
    if (rank == 0)
        printf("%d ranks right on %.20s\n", size, version);
    MPI_Finalize();
    return 0;
}
