/* MPI_THREAD_MULTIPLE: a thread that polls, and one that waits while others flood it with messages, keep no other thread
 * out: each case comes to its end only if the other thread gets its turn. Two ranks poll, so that there are cores for
 * it; all the others flood. */
#include "check.h"
#include <pthread.h>

enum { POLLERS = 2, ROUNDS = 20, FLOOD = 1, STOP = 2, LAST = 3, NEVER = 4, PAIR = 5 };

static MPI_Comm apart; /* for the thread that waits beside one that polls */
static int done;

static void *exchange(void *arg)
{
    int i, in, pollers = size < POLLERS ? size : POLLERS, other = (rank + 1) % pollers;
    (void)arg;
    for (i = 0; i < ROUNDS; i++) {
        in = -1;
        MPI_Sendrecv(&i, 1, MPI_INT, other, PAIR, &in, 1, MPI_INT, other, PAIR, apart, MPI_STATUS_IGNORE);
        CHECK(in == i);
        MPI_Barrier(apart);
    }
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* One thread polls without a pause until the other has ended. */
static void beside_a_poller(int with_test)
{
    int flag, never;
    MPI_Request request = MPI_REQUEST_NULL;
    pthread_t thread;
    done = 0;
    if (with_test) MPI_Irecv(&never, 1, MPI_INT, MPI_ANY_SOURCE, NEVER, MPI_COMM_WORLD, &request);
    CHECK(pthread_create(&thread, NULL, exchange, NULL) == 0);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
        if (with_test)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        else
            MPI_Iprobe(MPI_ANY_SOURCE, NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
    }
    pthread_join(thread, NULL);
    if (with_test) {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* The last message, for which a thread waits, comes when another thread has said so; until then others do not stop. */
static void *wait_for_last(void *arg)
{
    int from, value;
    (void)arg;
    for (from = 1; from < size; from++) {
        MPI_Recv(&value, 1, MPI_INT, from, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value == from);
    }
    return NULL;
}

static void *take_flood(void *arg)
{
    int from, value;
    MPI_Status status;
    (void)arg;
    for (from = 1; from < size;) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, FLOOD, MPI_COMM_WORLD, &status);
        if (value < 0) from++; /* the end of one sender's */
    }
    return NULL;
}

static void beside_a_flood(void)
{
    int to, i = 0, end = -1, flag = 0;
    if (rank == 0) {
        pthread_t takes, waits;
        CHECK(pthread_create(&takes, NULL, take_flood, NULL) == 0);
        CHECK(pthread_create(&waits, NULL, wait_for_last, NULL) == 0);
        for (to = 1; to < size; to++) MPI_Send(&to, 1, MPI_INT, to, STOP, MPI_COMM_WORLD);
        pthread_join(takes, NULL);
        pthread_join(waits, NULL);
    } else {
        while (!flag) {
            MPI_Send(&i, 1, MPI_INT, 0, FLOOD, MPI_COMM_WORLD);
            MPI_Iprobe(0, STOP, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            i++;
        }
        MPI_Recv(&i, 1, MPI_INT, 0, STOP, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&end, 1, MPI_INT, 0, FLOOD, MPI_COMM_WORLD);
        MPI_Send(&rank, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_split(MPI_COMM_WORLD, rank < POLLERS, rank, &apart);
    if (rank < POLLERS) {
        beside_a_poller(0);
        beside_a_poller(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    beside_a_flood();
    MPI_Comm_free(&apart);
    return finish("threads_fair");
}
