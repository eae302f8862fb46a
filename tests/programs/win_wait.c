/* Rank 0 waits for rank 1 to post its window, to complete its access, to unlock rank 0's window: as the first argument says. Rank 1
 * computes until the file that is named exists (for a minute at most), and does it then. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void compute_until(const char *file)
{
    for (int i = 0; i < 600 && access(file, F_OK) != 0; i++)
        usleep(100000);
}

int main(int argc, char **argv)
{
    int rank, *memory, x = 7;
    MPI_Win win;
    MPI_Group world, other;
    MPI_Init(&argc, &argv);
    const char *how = argv[1], *file = argv[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int peer = 1 - rank;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &peer, &other);
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(how, "lock") == 0) {
        if (rank == 1) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Put(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
            MPI_Win_flush(0, win);
            MPI_Barrier(MPI_COMM_WORLD);
            compute_until(file);
            MPI_Win_unlock(0, win);
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
            x = *memory;
            MPI_Win_unlock(0, win);
        }
    } else {
        int accesses = strcmp(how, "post") == 0 ? 0 : 1;
        if (rank == 1)
            compute_until(file);
        if (rank == accesses) {
            MPI_Win_start(other, 0, win);
            MPI_Put(&x, 1, MPI_INT, peer, 0, 1, MPI_INT, win);
            MPI_Win_complete(win);
        } else {
            MPI_Win_post(other, 0, win);
            MPI_Win_wait(win);
            x = *memory;
        }
    }
    if (x != 7)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_free(&win);
    MPI_Group_free(&other);
    MPI_Group_free(&world);
    if (rank == 0)
        printf("win_wait: ok\n");
    MPI_Finalize();
    return 0;
}
