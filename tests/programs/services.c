/* Rank 0 looks for a service in one thread, which has to wait until all have started, while another thread goes on calling
   MPI: only then rank 1 starts. `services FILE` */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int asking;

static void *look(void *unused)
{
    char port[MPI_MAX_PORT_NAME];
    int class;
    asking = 1;
    MPI_Error_class(MPI_Lookup_name("nobody has this", MPI_INFO_NULL, port), &class);
    if (class != MPI_ERR_NAME)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return unused;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMI_RANK");
    pthread_t looking;
    int provided, sent = 5, got = 0;
    if (argc != 2 || !rank)
        return 2;
    if (strcmp(rank, "0"))
        while (access(argv[1], F_OK)) /* whoever runs this ends it if that is never so */
            usleep(1000);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (!strcmp(rank, "0")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        pthread_create(&looking, NULL, look, NULL);
        while (!asking)
            usleep(1000);
        usleep(100000); /* so that it is in there */
        MPI_Sendrecv(&sent, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        if (got != 5 || open(argv[1], O_CREAT | O_WRONLY, 0600) < 0)
            return 1;
        pthread_join(looking, NULL);
        printf("looked, and went on meanwhile\n");
    }
    MPI_Finalize();
    return 0;
}
