/* Threads that know nothing of each other, each with a session of its own, beside a world that knows nothing of them. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20 };

static void *library(void *number)
{
    char tag[32];
    snprintf(tag, sizeof tag, "library %d", (int)(long)number);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Session session;
        MPI_Info info;
        MPI_Group group;
        MPI_Comm comm;
        int here, n, sum = -1;
        MPI_Info_create(&info);
        MPI_Info_set(info, "thread_level", "MPI_THREAD_SERIALIZED");
        CHECK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
        MPI_Info_free(&info);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
        MPI_Group_free(&group);
        MPI_Comm_rank(comm, &here);
        MPI_Comm_size(comm, &n);
        int mine = here + (int)(long)number * 1000;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == n * (n - 1) / 2 + n * (int)(long)number * 1000);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    return NULL;
}

/* Who names no level gets the world's. */
static void as_the_world(void)
{
    MPI_Session session;
    MPI_Info info;
    char level[32] = "";
    int flag = 0;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    MPI_Session_get_info(session, &info);
    MPI_Info_get(info, "thread_level", sizeof level - 1, level, &flag);
    CHECK(flag && strcmp(level, "MPI_THREAD_MULTIPLE") == 0);
    MPI_Info_free(&info);
    MPI_Session_finalize(&session);
}

static void start(pthread_t *threads)
{
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, library, (void *)i);
}

static void join(pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided, sum;
    start(threads); /* before the world: sessions alone start and leave the library */
    join(threads);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    as_the_world();
    start(threads);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size * (size - 1) / 2);
    }
    join(threads);
    start(threads); /* and while the world ends */
    int wrong = finish("threads_sessions");
    join(threads);
    return wrong || failures;
}
