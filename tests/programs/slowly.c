/* Two threads of rank 0 spawn programs that never call MPI; the first one ends only when the third thread has gone on calling
   MPI meanwhile, also with a process that nobody has talked to. `slowly FILE` */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct job {
    MPI_Comm over;
    char **args;
    volatile int begun, class;
};

static void *spawn(void *of)
{
    struct job *job = of;
    MPI_Comm children;
    job->begun = 1;
    int code = MPI_Comm_spawn("/bin/sh", job->args, 1, MPI_INFO_NULL, 0, job->over, &children, MPI_ERRCODES_IGNORE);
    MPI_Error_class(code, (int *)&job->class);
    return NULL;
}

static void begin(struct job *job, pthread_t *thread, char **args)
{
    MPI_Comm_dup(MPI_COMM_SELF, &job->over);
    MPI_Comm_set_errhandler(job->over, MPI_ERRORS_RETURN);
    job->args = args;
    pthread_create(thread, NULL, spawn, job);
    while (!job->begun)
        usleep(1000);
    usleep(100000); /* so that it is in there */
}

int main(int argc, char **argv)
{
    struct job jobs[2] = {{0}};
    pthread_t threads[2];
    int provided, rank, size, sent = 5, got = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2)
        return 2;
    if (rank > 0 && rank == size - 1) {
        MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        char *late[] = {"-c", "until test -e $0; do sleep 0.01; done", argv[1], NULL}, *soon[] = {"-c", "exit 0", NULL};
        begin(&jobs[0], &threads[0], late);
        begin(&jobs[1], &threads[1], soon);
        MPI_Sendrecv(&sent, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        MPI_Ssend(&sent, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD);
        close(open(argv[1], O_CREAT | O_WRONLY, 0600));
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        if (got != 5 || jobs[0].class != MPI_ERR_SPAWN || jobs[1].class != MPI_ERR_SPAWN)
            return 1;
        printf("spawned slowly, and went on meanwhile\n");
    }
    MPI_Finalize();
    return 0;
}
