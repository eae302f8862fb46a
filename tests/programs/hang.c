/* Programs that hang, each in another way: hang HOW. What a report has to say about each is in hang.expected. Nothing ends
 * them but who looks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 1 << 20 };
static int rank, size, word;
static char *buffer;

static int is(const char *how, const char *wanted) { return strcmp(how, wanted) == 0; }

/* Neither calls MPI nor sleeps in it. */
static void compute(void) {
    for (volatile unsigned long i = 0;; i++) {
    }
}

static void doze(void) {
    for (;;) sleep(3600);
}

static void receive(int from, int tag, MPI_Comm comm) { MPI_Recv(&word, 1, MPI_INT, from, tag, comm, MPI_STATUS_IGNORE); }

static void messages(const char *how) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (is(how, "sends")) MPI_Send(buffer, LONG, MPI_CHAR, next, 3, MPI_COMM_WORLD);
    if (is(how, "receives")) receive(before, 3, MPI_COMM_WORLD);
    if (is(how, "ssend")) {
        if (rank == 0) MPI_Ssend(&word, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is(how, "tag")) {
        if (rank == 1) MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
        if (rank == 0) receive(1, 8, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is(how, "source")) {
        if (rank == 2) MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
        if (rank == 0) receive(1, 7, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is(how, "comm")) {
        MPI_Comm other;
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
        MPI_Comm_set_name(other, "library");
        if (rank == 1) MPI_Send(&word, 1, MPI_INT, 0, 7, other);
        if (rank == 0) receive(1, 7, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is(how, "waitall")) {
        MPI_Request requests[2];
        if (rank == 0) {
            MPI_Irecv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(buffer, 1, MPI_INT, 2, 2, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        if (rank == 1) MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    if (is(how, "probe") && rank == 0) {
        MPI_Status status;
        MPI_Probe(1, 9, MPI_COMM_WORLD, &status);
    }
    if (is(how, "test") && rank == 0) {
        MPI_Request request;
        int done = 0;
        MPI_Irecv(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
        while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    if (is(how, "iprobe") && rank == 0) {
        int there = 0;
        while (!there) {
            MPI_Iprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            usleep(1000);
        }
    }
}

static void collectives(const char *how) {
    MPI_Comm half;
    if (is(how, "missing")) {
        if (rank == 2) receive(0, 1, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is(how, "different")) {
        /* The root of one waits for what the others do not send in the other. */
        if (rank == 0) MPI_Gather(&word, 1, MPI_INT, buffer, 1, MPI_INT, 0, MPI_COMM_WORLD);
        else MPI_Scatter(buffer, 1, MPI_INT, &word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (is(how, "elsewhere")) { /* a barrier on another communicator */
        MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &half);
        MPI_Comm_set_name(half, "half");
        MPI_Barrier(rank == 3 ? half : MPI_COMM_WORLD);
    }
    if (is(how, "lost")) {
        if (rank == size - 1) compute();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is(how, "asleep")) {
        if (rank == size - 1) doze();
        MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (is(how, "nonblocking")) {
        MPI_Request request;
        if (rank == 0) receive(1, 1, MPI_COMM_WORLD);
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void others(const char *how, const char *program) {
    /* Memory that is allocated is a data server's to serve, if there are any. An accumulate to what is created is a message. */
    if (is(how, "lock") || is(how, "allocated-lock") || is(how, "lock-sum") || is(how, "lock-all") || is(how, "lock-two")) {
        MPI_Win window;
        void *base;
        if (is(how, "lock") || is(how, "lock-sum"))
            MPI_Win_create(buffer, LONG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        else
            MPI_Win_allocate(LONG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
        if (rank == 1) {
            if (is(how, "lock-all")) MPI_Win_lock_all(0, window);
            else MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, window);
            if (is(how, "lock-sum")) MPI_Accumulate(&word, 1, MPI_INT, 2, 0, 1, MPI_INT, MPI_SUM, window);
            else MPI_Put(&word, 1, MPI_INT, 2, 0, 1, MPI_INT, window);
            MPI_Win_flush(2, window);
            for (int other = 0; other < size; other += 3) MPI_Send(&word, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
            receive(0, 2, MPI_COMM_WORLD);
        }
        if (rank == 0 || (rank == 3 && is(how, "lock-two"))) {
            receive(1, 1, MPI_COMM_WORLD);
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, window);
            MPI_Put(&word, 1, MPI_INT, 2, 0, 1, MPI_INT, window);
            MPI_Win_unlock(2, window);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is(how, "spawn")) {
        MPI_Comm child;
        char *arguments[] = {"child", NULL};
        MPI_Comm_spawn((char *)program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
        if (rank == 0) receive(0, 1, child);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (is(how, "child")) {
        MPI_Comm parent;
        MPI_Comm_get_parent(&parent);
        receive(0, 2, parent);
    }
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (is(how, "foreign")) doze(); /* never calls MPI */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    buffer = calloc(LONG, 1);
    messages(how);
    collectives(how);
    others(how, argv[0]);
    free(buffer);
    MPI_Finalize();
    return 0;
}
