/* A job that has disconnected dies alone: `parted kill|abort|leave`. It spawns two, they disconnect, one of them dies, and
   the other, which waits for ever, must be ended with it while this process goes on. `parted code`: one of them ends well
   but for its exit code, and the other has something left to do. */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int child(const char *how, MPI_Comm parent)
{
    int rank, pid = getpid();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Gather(&pid, 1, MPI_INT, NULL, 0, MPI_INT, 0, parent);
    MPI_Comm_disconnect(&parent);
    if (!strcmp(how, "code")) {
        MPI_Finalize();
        if (rank == 0)
            return 3;
        usleep(300000);
        printf("the rest is done\n");
        return 0;
    }
    if (rank == 1)
        for (;;)
            pause();
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 5);
    _exit(0); /* without MPI_Finalize */
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    char self[4096], *args[] = {argv[1], NULL};
    int pids[2], rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(argv[1], parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!realpath(argv[0], self))
        return 1;
    MPI_Comm_spawn(self, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Gather(NULL, 0, MPI_INT, pids, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    MPI_Comm_disconnect(&children);
    /* Whoever runs this ends it if they never go. */
    for (int i = 0; i < 2 && rank == 0; i++)
        while (kill(pids[i], 0) == 0 || errno != ESRCH)
            usleep(1000);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("they are gone, and we are here\n");
    return MPI_Finalize();
}
