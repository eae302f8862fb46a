/* What was sent before leaves with a flush, and with a lock that is given back: the program may not call MPI for long.
   `win_push flush|unlock FILE`: rank 1 makes the file when it has heard, and rank 0 looks for that outside of MPI. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, numbers[2] = {1, 2}, *memory, tries;
    MPI_Request requests[2];
    MPI_Win win;
    FILE *file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        for (int i = 0; i < 2; i++)
            MPI_Isend(&numbers[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Put(&numbers[0], 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        if (strcmp(argv[1], "flush") == 0)
            MPI_Win_flush(0, win);
        else
            MPI_Win_unlock(0, win);
        for (tries = 0; tries < 3000 && access(argv[2], F_OK) != 0; tries++)
            usleep(10000);
        if (tries == 3000)
            MPI_Abort(MPI_COMM_WORLD, 1);
        if (strcmp(argv[1], "flush") == 0)
            MPI_Win_unlock(0, win);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        printf("win_push: ok\n");
    } else if (rank == 1) {
        for (int i = 0; i < 2; i++)
            MPI_Recv(&numbers[i], 1, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        file = fopen(argv[2], "w");
        if (file == NULL || fclose(file) != 0)
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
