/* `win_walled BYTES`: with three ranks on each of two hosts, rank 1 has something put into the memory of rank 4, to whom it has had nothing
   to say before. In between it is outside of MPI for 3 s, in which a firewall may come. Ends by itself after 20 s, if nobody says why
   rank 4 cannot be reached. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, flag, bytes = argc > 1 ? atoi(argv[1]) : 8;
    char *memory, *mine = calloc(1, bytes);
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Barrier(MPI_COMM_WORLD);
    alarm(20);
    if (rank == 1) {
        printf("begun\n");
        fflush(stdout);
        sleep(3);
        MPI_Win_lock(MPI_LOCK_SHARED, 4, 0, window);
        MPI_Put(mine, bytes, MPI_BYTE, 4, 0, bytes, MPI_BYTE, window);
        MPI_Win_unlock(4, window);
        printf("nothing was in the way\n");
        return MPI_Abort(MPI_COMM_WORLD, 0);
    }
    for (;;) { /* nobody talks to the other host */
        MPI_Iprobe(rank, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
}
