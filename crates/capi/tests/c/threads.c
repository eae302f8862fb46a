/* MPI_THREAD_MULTIPLE: several threads of each process talk at the same time, each pair on its own tag, while
 * the main thread runs collectives on a communicator of its own. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 50, LENGTH = 3000 };

static int wrong[THREADS];

static void *talk(void *arg)
{
    int me = (int)(long)arg, i, right = (rank + 1) % size, left = (rank + size - 1) % size;
    static int out[THREADS][LENGTH], in[THREADS][LENGTH];
    for (i = 0; i < ROUNDS; i++) {
        MPI_Status status;
        MPI_Request request;
        int count, n = i % 2 ? LENGTH : 1;
        out[me][0] = rank * 1000 + i;
        out[me][n - 1] = rank * 1000 + i;
        if (i % 3 == 0) {
            MPI_Irecv(in[me], LENGTH, MPI_INT, left, me, MPI_COMM_WORLD, &request);
            MPI_Send(out[me], n, MPI_INT, right, me, MPI_COMM_WORLD);
            MPI_Wait(&request, &status);
        } else if (i % 3 == 1) {
            MPI_Sendrecv(out[me], n, MPI_INT, right, me, in[me], LENGTH, MPI_INT, left, me, MPI_COMM_WORLD,
                         &status);
        } else {
            memcpy(in[me], out[me], sizeof in[me]);
            MPI_Sendrecv_replace(in[me], n, MPI_INT, right, me, left, me, MPI_COMM_WORLD, &status);
        }
        MPI_Get_count(&status, MPI_INT, &count);
        wrong[me] += count != n || in[me][0] != left * 1000 + i || in[me][n - 1] != left * 1000 + i;
    }
    return NULL;
}

/* A send that cannot start takes its receive back: the message that it would have taken is still there. */
static void given_up(void)
{
    int mine = 7, room = 0;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Sendrecv(&mine, 1, MPI_INT, 1, 0, &room, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE)) ==
          MPI_ERR_RANK);
    CHECK(class_of(MPI_Sendrecv_replace(&room, 1, MPI_INT, 1, 0, 0, 0, comm, MPI_STATUS_IGNORE)) == MPI_ERR_RANK);
    MPI_Send(&mine, 1, MPI_INT, 0, 0, comm);
    CHECK(room == 0);
    MPI_Recv(&room, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
    CHECK(room == 7);
    MPI_Comm_free(&comm);
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 5);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 3;
    status->MPI_TAG = 4;
    return MPI_SUCCESS;
}

static int freed;

static int free_state(void *extra)
{
    freed += *(int *)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

static MPI_Request ends[2];
static double ended_at;
static int what;

/* Returns when the main thread sleeps (or after long, which some systems hide). */
static void until_main_sleeps(void)
{
    char path[64], line[256];
    int i;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    for (i = 0; i < 100000; i++) {
        FILE *file = fopen(path, "r");
        char *name_end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        if (file)
            fclose(file);
        if (name_end && name_end[2] == 'S')
            return;
        usleep(100); /* it needs the core to get there */
    }
}

static void *end_it(void *arg)
{
    (void)arg;
    until_main_sleeps();
    ended_at = MPI_Wtime();
    if (what == 0)
        MPI_Grequest_complete(ends[0]);
    else
        MPI_Pready(1, ends[1]);
    return NULL;
}

/* Whoever sleeps in a wait is woken by another thread that ends what it waits for, also where no message ends. */
static void woken(void)
{
    int one = 1, out[2] = {1, 2}, in[2], index, count, i;
    pthread_t thread;
    MPI_Status status;
    MPI_Request recv, list[3];
    MPI_Psend_init(out, 2, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_SELF, MPI_INFO_NULL, &ends[1]);
    MPI_Irecv(in, 1, MPI_INT, 0, 99, MPI_COMM_SELF, &recv);
    double best[2] = {9, 9};
    /* Who shares a core with many may be late; a sleep that nobody ends is longer each time. */
    for (i = 0; i < 40 && (i < 4 || best[0] >= 1.0 || best[1] >= 1.0); i++) {
        what = i % 2;
        MPI_Grequest_start(query, free_state, cancel, &one, &ends[0]);
        MPI_Start(&ends[1]);
        MPI_Pready(0, ends[1]);
        list[0] = recv;
        list[1] = ends[0];
        list[2] = ends[1];
        CHECK(pthread_create(&thread, NULL, end_it, NULL) == 0);
        MPI_Waitany(3, list, &index, &status);
        if (MPI_Wtime() - ended_at < best[what])
            best[what] = MPI_Wtime() - ended_at;
        pthread_join(thread, NULL);
        CHECK(index == 1 + what);
        if (what == 0) {
            MPI_Get_count(&status, MPI_INT, &count);
            CHECK(count == 5 && status.MPI_SOURCE == 3 && status.MPI_TAG == 4 && list[1] == MPI_REQUEST_NULL);
            MPI_Pready(1, ends[1]);
            MPI_Wait(&ends[1], MPI_STATUS_IGNORE);
        } else {
            MPI_Grequest_complete(ends[0]);
            MPI_Wait(&ends[0], MPI_STATUS_IGNORE);
        }
        CHECK(freed == i + 1);
    }
    CHECK(best[0] < 1.0 && best[1] < 1.0);
    MPI_Cancel(&recv);
    MPI_Wait(&recv, MPI_STATUS_IGNORE);
    MPI_Request_free(&ends[1]);
}

int main(int argc, char **argv)
{
    int provided, main_thread, i, sum;
    pthread_t threads[THREADS];
    MPI_Comm mine;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Query_thread(&provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Is_thread_main(&main_thread);
    CHECK(main_thread);
    given_up();
    woken();
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, talk, (void *)(long)i) == 0);
    for (i = 0; i < ROUNDS; i++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, mine);
        CHECK(sum == size * (size - 1) / 2);
    }
    for (i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(wrong[i] == 0);
    }
    MPI_Comm_free(&mine);
    return finish("threads");
}
