/* Long waits for another job, of which warnings say for whom: `awaited accept|connect|spawn FILE`. Whoever is waited for does
   nothing until the file is there. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void wait_for(const char *file)
{
    while (access(file, F_OK)) /* whoever runs this ends it if that is never so */
        usleep(1000);
}

/* Processes that come to an end when the file is there, and never call MPI. */
static int spawn(char *file)
{
    MPI_Comm children;
    char *args[] = {"-c", "until test -e $0; do sleep 0.01; done", file, NULL};
    int class;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Comm_spawn("/bin/sh", args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE),
                    &class);
    return class == MPI_ERR_SPAWN;
}

/* Rank 1 calls rank 0; one of them comes late. */
static int meet(int rank, int late, const char *file)
{
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME] = "";
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == late)
        wait_for(file);
    if (rank == 0)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    return MPI_Comm_disconnect(&inter) == MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, right;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    right = !strcmp(argv[1], "spawn") ? spawn(argv[2]) : meet(rank, !strcmp(argv[1], "accept"), argv[2]);
    if (rank == 0 && right)
        printf("awaited: ok\n");
    MPI_Finalize();
    return !right;
}
