/* Within a budget of 2: rank 0 has talked to ranks 1 and 2, which then compute until the file that is named exists (for a minute
 * at most) and cannot agree to close. What rank 0 sends to rank 3 meanwhile waits for them, and arrives. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, x = 0;
    const char *file = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        for (int peer = 1; peer < 3; peer++) {
            MPI_Send(&peer, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
            MPI_Recv(&x, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        x = 7;
        MPI_Ssend(&x, 1, MPI_INT, 3, 3, MPI_COMM_WORLD);
        printf("busy: ok\n");
    } else if (rank < 3) {
        MPI_Recv(&x, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&x, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        for (int i = 0; i < 600 && access(file, F_OK) != 0; i++)
            usleep(100000);
    } else if (rank == 3) {
        MPI_Recv(&x, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (x != 7)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
