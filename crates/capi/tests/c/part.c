/* Partitioned messages around a ring (which may be one process): several rounds, unequal partitions at the two ends,
 * channels of one tag, parts that are ready in any order and by several threads. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 4 };

static int right, left;

/* A number of elements in a row, sent in `sparts` partitions and received in `rparts`. */
static void ring(int elements, int sparts, int rparts, MPI_Datatype type, int gap)
{
    int i, round, total = elements * gap, k, flag, count, bytes;
    int *out = malloc(sizeof(int) * (size_t)(total + 1)), *in = malloc(sizeof(int) * (size_t)(total + 1));
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Type_size(type, &bytes);
    MPI_Psend_init(out, sparts, elements / sparts, type, right, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, rparts, elements / rparts, type, left, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < total; i++) {
            out[i] = rank * 7 + round * 3 + i;
            in[i] = -1;
        }
        MPI_Startall(2, requests);
        if (round == 0) {
            /* from the last to the first */
            for (k = sparts - 1; k >= 0; k--)
                MPI_Pready(k, requests[0]);
        } else if (round == 1) {
            MPI_Pready_range(0, sparts - 1, requests[0]);
        } else {
            int *list = malloc(sizeof(int) * (size_t)sparts);
            for (k = 0; k < sparts; k++)
                list[k] = (k + sparts / 2) % sparts;
            MPI_Pready_list(sparts, list, requests[0]);
            free(list);
        }
        if (round == 2)
            for (k = 0; k < rparts; k++)
                for (flag = 0; !flag;)
                    MPI_Parrived(requests[1], k, &flag);
        MPI_Wait(&requests[1], &status);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Get_count(&status, type, &count);
        CHECK(count == elements && status.MPI_SOURCE == left && status.MPI_TAG == 7);
        for (i = 0; i < total; i++) {
            if (in[i] != (i % gap ? -1 : left * 7 + round * 3 + i)) {
                CHECK(!"what arrived is what was sent");
                break;
            }
        }
        MPI_Parrived(requests[1], 0, &flag);
        CHECK(flag); /* an inactive request */
    }
    CHECK(requests[0] != MPI_REQUEST_NULL);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(out);
    free(in);
}

/* A part has arrived as soon as it was sent, although others are not ready. */
static void early(void)
{
    enum { PARTS = 4, EACH = 50000 };
    int *out = calloc(PARTS * EACH, sizeof(int)), *in = calloc(PARTS * EACH, sizeof(int)), flag, k, last = 2;
    MPI_Request requests[2];
    MPI_Psend_init(out, PARTS, EACH, MPI_INT, right, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, PARTS, EACH, MPI_INT, left, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    for (k = 0; k < PARTS; k++) {
        if (k == last)
            continue;
        out[k * EACH] = rank + k;
        MPI_Pready(k, requests[0]);
    }
    for (k = 0; k < PARTS; k++) {
        if (k == last)
            continue;
        for (flag = 0; !flag;)
            MPI_Parrived(requests[1], k, &flag);
        CHECK(in[k * EACH] == left + k);
    }
    MPI_Parrived(requests[1], last, &flag);
    CHECK(!flag);
    MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pready(last, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(out);
    free(in);
}

/* Channels meet in the order in which they were made, in whatever order they start. */
static void order(void)
{
    enum { CHANNELS = 6 };
    int out[CHANNELS], in[CHANNELS], k;
    MPI_Request sends[CHANNELS], recvs[CHANNELS];
    for (k = 0; k < CHANNELS; k++) {
        MPI_Precv_init(&in[k], 1, 1, MPI_INT, left, k % 2, MPI_COMM_WORLD, MPI_INFO_NULL, &recvs[k]);
        MPI_Psend_init(&out[k], 1, 1, MPI_INT, right, k % 2, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[k]);
        out[k] = 100 * rank + k;
        in[k] = -1;
    }
    for (k = CHANNELS - 1; k >= 0; k--) {
        MPI_Start(&sends[k]);
        MPI_Pready(0, sends[k]);
    }
    for (k = 0; k < CHANNELS; k++)
        MPI_Start(&recvs[(k * 5) % CHANNELS]);
    MPI_Waitall(CHANNELS, recvs, MPI_STATUSES_IGNORE);
    MPI_Waitall(CHANNELS, sends, MPI_STATUSES_IGNORE);
    for (k = 0; k < CHANNELS; k++) {
        CHECK(in[k] == 100 * left + k);
        MPI_Request_free(&sends[k]);
        MPI_Request_free(&recvs[k]);
    }
}

/* The sender runs ahead: rounds keep their order. */
static void ahead(void)
{
    int out[3], in, k;
    MPI_Request send, recv;
    MPI_Psend_init(out, 3, 1, MPI_INT, right, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    for (k = 0; k < 5; k++) {
        MPI_Start(&send);
        out[0] = out[1] = out[2] = 10 * rank + k;
        MPI_Pready_range(0, 2, send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    int all[3];
    MPI_Precv_init(all, 1, 3, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &recv);
    for (k = 0; k < 5; k++) {
        MPI_Start(&recv);
        MPI_Wait(&recv, MPI_STATUS_IGNORE);
        CHECK(all[0] == 10 * left + k && all[2] == 10 * left + k);
    }
    MPI_Request_free(&send);
    MPI_Request_free(&recv);
    /* the null process */
    MPI_Psend_init(out, 3, 1, MPI_INT, MPI_PROC_NULL, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(&in, 1, 1, MPI_INT, MPI_PROC_NULL, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &recv);
    MPI_Start(&send);
    MPI_Start(&recv);
    MPI_Pready_range(0, 2, send);
    MPI_Wait(&recv, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&recv);
}

static MPI_Request shared;
enum { PER_THREAD = 16, WIDTH = 700 };
static int source[THREADS * PER_THREAD * WIDTH], target[THREADS * PER_THREAD * WIDTH];

static void *fill(void *arg)
{
    int me = (int)(long)arg, k, i;
    for (k = me; k < THREADS * PER_THREAD; k += THREADS) {
        for (i = 0; i < WIDTH; i++)
            source[k * WIDTH + i] = 1000 * rank + k;
        MPI_Pready(k, shared);
    }
    return NULL;
}

/* Each thread makes its own parts ready. */
static void threads(void)
{
    pthread_t threads[THREADS];
    MPI_Request recv;
    int round, k;
    MPI_Psend_init(source, THREADS * PER_THREAD, WIDTH, MPI_INT, right, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &shared);
    MPI_Precv_init(target, 8, THREADS * PER_THREAD * WIDTH / 8, MPI_INT, left, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &recv);
    for (round = 0; round < ROUNDS; round++) {
        memset(target, 0, sizeof target);
        MPI_Start(&recv);
        MPI_Start(&shared);
        for (k = 0; k < THREADS; k++)
            pthread_create(&threads[k], NULL, fill, (void *)(long)k);
        MPI_Wait(&recv, MPI_STATUS_IGNORE);
        MPI_Wait(&shared, MPI_STATUS_IGNORE);
        for (k = 0; k < THREADS; k++)
            pthread_join(threads[k], NULL);
        for (k = 0; k < THREADS * PER_THREAD; k++)
            CHECK(target[k * WIDTH] == 1000 * left + k && target[k * WIDTH + WIDTH - 1] == 1000 * left + k);
    }
    MPI_Request_free(&shared);
    MPI_Request_free(&recv);
}

static void mistakes(void)
{
    int x = 0, y = 0, flag;
    MPI_Request send, recv, other;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Psend_init(&x, 0, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Psend_init(&x, 1, -1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Precv_init(&x, 1, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &recv)) ==
          MPI_ERR_ARG);
    MPI_Psend_init(&x, 1, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(&y, 1, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &recv);
    CHECK(class_of(MPI_Pready(0, send)) == MPI_ERR_REQUEST); /* not started */
    MPI_Start(&recv);
    MPI_Start(&send);
    CHECK(class_of(MPI_Start(&send)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(1, send)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready(0, recv)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Parrived(send, 0, &flag)) == MPI_ERR_REQUEST);
    MPI_Pready(0, send);
    CHECK(class_of(MPI_Pready(0, send)) == MPI_ERR_ARG);
    MPI_Wait(&recv, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&recv);
    /* parts without bytes arrive when they are sent, not before */
    MPI_Precv_init(NULL, 2, 0, MPI_INT, rank, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &recv);
    MPI_Psend_init(NULL, 2, 0, MPI_INT, rank, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Start(&recv);
    MPI_Parrived(recv, 1, &flag);
    CHECK(!flag);
    MPI_Start(&send);
    MPI_Pready(0, send);
    MPI_Parrived(recv, 1, &flag);
    CHECK(!flag);
    MPI_Pready(1, send);
    while (!flag) MPI_Parrived(recv, 1, &flag);
    MPI_Wait(&recv, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&recv);
    /* more is sent than received: one of several requests fails, the others come to their ends */
    int two[2] = {1, 2};
    MPI_Request list[3];
    MPI_Status statuses[3];
    MPI_Precv_init(&y, 1, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &list[0]);
    MPI_Psend_init(two, 2, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &list[1]);
    MPI_Startall(2, list);
    MPI_Irecv(&x, 1, MPI_INT, rank, 78, MPI_COMM_WORLD, &list[2]);
    MPI_Pready_range(0, 1, list[1]);
    MPI_Send(&two[1], 1, MPI_INT, rank, 78, MPI_COMM_WORLD);
    CHECK(class_of(MPI_Waitall(3, list, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
    CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS);
    CHECK(list[2] == MPI_REQUEST_NULL && x == 2);
    MPI_Request_free(&list[0]);
    MPI_Request_free(&list[1]);

    MPI_Irecv(&y, 1, MPI_INT, rank, 77, MPI_COMM_WORLD, &other);
    CHECK(class_of(MPI_Pready(0, other)) == MPI_ERR_REQUEST);
    MPI_Cancel(&other);
    MPI_Wait(&other, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Datatype spread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    ring(12, 4, 3, MPI_INT, 1);
    ring(60000, 5, 6, MPI_INT, 1);
    ring(60000, 600, 1, MPI_INT, 1);
    ring(240000, 1, 16, MPI_INT, 1);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
    MPI_Type_commit(&spread);
    ring(12, 4, 3, spread, 2);
    ring(60000, 6, 5, spread, 2);
    MPI_Type_free(&spread);
    early();
    order();
    ahead();
    threads();
    mistakes();
    return finish("part");
}
