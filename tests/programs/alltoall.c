/* Everybody sends something else to everybody, in several rounds, and looks at all that arrives. Arguments: bytes for each
 * (default 4096), rounds (default 3). Says "right" at the end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every byte from one rank to another is in a round. */
static unsigned char byte_of(int from, int to, int round) { return (unsigned char)(from * 7 + to * 3 + round); }

static void check(const unsigned char *block, int bytes, unsigned char expected, int from, int round)
{
    for (int at = 0; at < bytes; at++)
        if (block[at] != expected) {
            fprintf(stderr, "round %d: byte %d from rank %d is %d, not %d\n", round, at, from, block[at], expected);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
}

int main(int argc, char **argv)
{
    int rank, size, bytes = argc > 1 ? atoi(argv[1]) : 4096, rounds = argc > 2 ? atoi(argv[2]) : 3;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned char *out = malloc((size_t)size * bytes), *in = malloc((size_t)size * bytes);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 4);
    double start = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        memset(in, 0, (size_t)size * bytes);
        for (int peer = 0; peer < size; peer++)
            memset(out + (size_t)peer * bytes, byte_of(rank, peer, round), bytes);
        MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        for (int peer = 0; peer < size; peer++)
            check(in + (size_t)peer * bytes, bytes, byte_of(peer, rank, round), peer, round);
    }
    if (rank == 0)
        printf("alltoall of %d ranks, %d bytes, %d rounds: right, %.3f s\n", size, bytes, rounds, MPI_Wtime() - start);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
