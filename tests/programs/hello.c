/* Everybody is there: `hello N` fails unless it runs on N ranks that can talk to each other. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    char host[MPI_MAX_PROCESSOR_NAME], version[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, size, length, mine[2], sum[2] = {0, 0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    MPI_Get_library_version(version, &length);
    if (argc > 1 && size != atoi(argv[1])) {
        fprintf(stderr, "rank %d on %s: the world has %d ranks, not %s\n", rank, host, size, argv[1]);
        return 1;
    }
    mine[0] = rank;
    mine[1] = 1;
    MPI_Allreduce(mine, sum, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum[0] != size * (size - 1) / 2 || sum[1] != size) {
        fprintf(stderr, "rank %d on %s: sums %d and %d of %d ranks\n", rank, host, sum[0], sum[1], size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("hello from %d ranks, the first on %s, %.30s\n", size, host, version);
    MPI_Finalize();
    return 0;
}
