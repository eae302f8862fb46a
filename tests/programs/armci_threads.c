/* A thread that waits in ARMCI keeps no other from calling: what it waits for comes only when the other has sent something. 2 processes. */
#include <armci.h>
#include <message.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOTICE, MESSAGE, ANYBODY, BARRIER, MEETING, SUM, MUTEX, WAYS };
static int me, begun[WAYS];

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "armci_threads: rank %d, line %d: %s\n", me, __LINE__, #condition);                        \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                                              \
        }                                                                                                              \
    } while (0)

/* What both processes do; in rank 0 it is a thread that waits, in rank 1 it comes when rank 0's other thread has spoken. */
static void wait_for(int way) {
    int word = 7 + me, got = 0, other = 1 - me;
    if (way == NOTICE) {
        if (me == 0)
            CHECK(armci_notify_wait(other, &got) == 1 && got == 1);
        else
            CHECK(armci_notify(other) == 1);
    } else if (way == MESSAGE || way == ANYBODY) {
        if (me == 1)
            armci_msg_snd(5, &word, sizeof word, other);
        else if (way == MESSAGE)
            armci_msg_rcv(5, &word, sizeof word, &got, other);
        else
            CHECK(armci_msg_rcvany(5, &word, sizeof word, &got) == other);
        CHECK(word == 8 && (me == 1 || got == sizeof word));
    } else if (way == BARRIER) {
        ARMCI_Barrier();
    } else if (way == MEETING) {
        armci_msg_barrier();
    } else if (way == SUM) {
        armci_msg_igop(&word, 1, "+");
        CHECK(word == 15);
    } else if (me == 0) {
        ARMCI_Lock(0, 1);
        ARMCI_Unlock(0, 1);
    } else {
        ARMCI_Unlock(0, 1);
    }
}

static void *waits(void *way) {
    __atomic_store_n(&begun[*(int *)way], 1, __ATOMIC_SEQ_CST);
    wait_for(*(int *)way);
    return NULL;
}

int main(void) {
    int level, word = 0, got;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    CHECK(level == MPI_THREAD_MULTIPLE);
    ARMCI_Init();
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    int **at = malloc(2 * sizeof *at);
    ARMCI_Malloc((void **)at, sizeof(int));
    ARMCI_Create_mutexes(1);
    for (int way = 0; way < WAYS; way++) {
        if (me == 1 && way == MUTEX)
            ARMCI_Lock(0, 1);
        ARMCI_Barrier();
        if (me == 0) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, waits, &way) == 0);
            while (!__atomic_load_n(&begun[way], __ATOMIC_SEQ_CST))
                sched_yield();
            /* It is inside, or about to be. Calls of this thread go on for a while, and come to an end. */
            for (int k = 0; k < 3000; k++)
                CHECK(ARMCI_GetValueInt(at[0], 0) == 0);
            armci_msg_snd(9, &way, sizeof way, 1);
            CHECK(pthread_join(thread, NULL) == 0);
        } else {
            armci_msg_rcv(9, &word, sizeof word, &got, 0);
            CHECK(word == way);
            wait_for(way);
        }
    }
    ARMCI_Barrier();
    ARMCI_Destroy_mutexes();
    ARMCI_Free(at[me]);
    ARMCI_Finalize();
    if (me == 0)
        printf("armci_threads: ok\n");
    MPI_Finalize();
    return 0;
}
