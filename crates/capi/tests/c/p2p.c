/* Point-to-point messages: all modes, wildcards, probes, persistent requests, cancel, truncation. At least 2
 * ranks; ranks beyond the first two take part in the any-source tests only. */
#include "check.h"

enum { BIG = 1 << 20 };

static int peer;

static void modes(void)
{
    int x = 0, i;
    char *space = malloc(1 << 16);
    MPI_Buffer_attach(space, 1 << 16);
    for (i = 0; i < 8; i++) {
        int blocking = i < 4;
        MPI_Request request = MPI_REQUEST_NULL;
        if (rank == 0) {
            x = 100 + i;
            if (i % 4 == 3) /* ready: the receive must be there */
                MPI_Recv(NULL, 0, MPI_BYTE, peer, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            switch (i) {
            case 0: MPI_Send(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD); break;
            case 1: MPI_Ssend(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD); break;
            case 2: MPI_Bsend(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD); break;
            case 3: MPI_Rsend(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD); break;
            case 4: MPI_Isend(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &request); break;
            case 5: MPI_Issend(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &request); break;
            case 6: MPI_Ibsend(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &request); break;
            case 7: MPI_Irsend(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &request); break;
            }
            if (!blocking)
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            CHECK(request == MPI_REQUEST_NULL);
        } else if (rank == 1) {
            MPI_Status status;
            MPI_Irecv(&x, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &request);
            if (i % 4 == 3)
                MPI_Send(NULL, 0, MPI_BYTE, peer, 50, MPI_COMM_WORLD);
            MPI_Wait(&request, &status);
            CHECK(x == 100 + i && status.MPI_SOURCE == 0 && status.MPI_TAG == i);
        }
    }
    void *back;
    int bytes;
    MPI_Buffer_detach(&back, &bytes);
    CHECK(back == space && bytes == 1 << 16);
    free(space);
}

/* Every length around the protocol changes, contents checked, both directions at once. */
static void lengths(void)
{
    static const int list[] = {0, 1, 7, 8, 63, 64, 65, 1000, 4095, 4096, 4097, 16384, 65536, 65537, BIG};
    unsigned char *out = malloc(BIG), *in = malloc(BIG);
    int k;
    for (k = 0; k < (int)(sizeof list / sizeof *list); k++) {
        int n = list[k], i, got = -1, wrong = 0;
        MPI_Status status;
        for (i = 0; i < n; i++)
            out[i] = (unsigned char)(i * 7 + rank + k);
        memset(in, 0xff, BIG);
        MPI_Sendrecv(out, n, MPI_BYTE, peer, k, in, BIG, MPI_BYTE, peer, k, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        for (i = 0; i < n; i++)
            wrong += in[i] != (unsigned char)(i * 7 + peer + k);
        CHECK(got == n && wrong == 0);
        CHECK(n == BIG || in[n] == 0xff);
    }
    MPI_Status status;
    memset(out, rank, 1000);
    MPI_Sendrecv_replace(out, 1000, MPI_BYTE, peer, 1, peer, 1, MPI_COMM_WORLD, &status);
    CHECK(out[0] == peer && out[999] == peer && status.MPI_SOURCE == peer);
    free(out);
    free(in);
}

static void probes(void)
{
    if (rank == 0) {
        double data[3] = {1, 2, 3};
        MPI_Send(data, 3, MPI_DOUBLE, peer, 77, MPI_COMM_WORLD);
        MPI_Send(data, 2, MPI_DOUBLE, peer, 78, MPI_COMM_WORLD);
    } else {
        double data[3] = {0, 0, 0};
        int count, flag = 0;
        MPI_Status status;
        MPI_Message message;
        MPI_Probe(MPI_ANY_SOURCE, 78, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_DOUBLE, &count);
        CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 78 && count == 2);
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == 4);
        while (!flag)
            MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        CHECK(status.MPI_TAG == 77); /* the older one */
        MPI_Mprobe(0, 77, MPI_COMM_WORLD, &message, &status);
        MPI_Iprobe(0, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        MPI_Mrecv(data, 3, MPI_DOUBLE, &message, &status);
        CHECK(message == MPI_MESSAGE_NULL && data[2] == 3);
        flag = 0;
        while (!flag)
            MPI_Improbe(0, 78, MPI_COMM_WORLD, &flag, &message, &status);
        MPI_Request request;
        MPI_Imrecv(data, 2, MPI_DOUBLE, &message, &request);
        MPI_Wait(&request, &status);
        CHECK(data[1] == 2 && status.MPI_TAG == 78);
    }
}

static void many_requests(void)
{
    enum { N = 64 };
    int in[N], out[N], i, done = 0, index, flag, some, indices[2 * N];
    MPI_Request requests[2 * N];
    MPI_Status statuses[2 * N];
    for (i = 0; i < N; i++) {
        out[i] = rank * 1000 + i;
        MPI_Irecv(&in[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (i = N - 1; i >= 0; i--) /* tags decide, not the order */
        MPI_Isend(&out[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[N + i]);
    MPI_Waitall(2 * N, requests, statuses);
    for (i = 0; i < N; i++)
        CHECK(in[i] == peer * 1000 + i && statuses[i].MPI_TAG == i && requests[i] == MPI_REQUEST_NULL);

    for (i = 0; i < N; i++) {
        MPI_Irecv(&in[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(&out[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[N + i]);
    }
    for (i = 0; i < 4; i++) {
        MPI_Status status;
        MPI_Waitany(2 * N, requests, &index, &status);
        CHECK(index >= 0 && index < 2 * N && requests[index] == MPI_REQUEST_NULL);
        done++;
    }
    do {
        MPI_Waitsome(2 * N, requests, &some, indices, statuses);
        if (some != MPI_UNDEFINED)
            done += some;
    } while (some != MPI_UNDEFINED);
    CHECK(done == 2 * N);
    MPI_Testall(2 * N, requests, &flag, MPI_STATUSES_IGNORE);
    CHECK(flag);
    MPI_Testany(2 * N, requests, &index, &flag, MPI_STATUS_IGNORE);
    CHECK(flag && index == MPI_UNDEFINED);
}

static void persistent(void)
{
    int in = -1, out, i, flag;
    MPI_Request requests[2];
    MPI_Send_init(&out, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&in, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
    CHECK(flag); /* inactive */
    for (i = 0; i < 5; i++) {
        out = rank * 10 + i;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(in == peer * 10 + i && requests[0] != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(requests[0] == MPI_REQUEST_NULL);
}

static void cancel_and_null(void)
{
    int x = 42, flag, cancelled;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&x, 1, MPI_INT, peer, 4711, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled && x == 42);

    MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &flag);
    CHECK(x == 42 && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && flag == 0);
    request = MPI_REQUEST_NULL;
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
}

static void truncation(void)
{
    int data[4] = {rank, rank, rank, rank}, code;
    MPI_Errhandler former;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &former);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Send(data, 4, MPI_INT, peer, 1, MPI_COMM_WORLD);
        MPI_Send(data, 4, MPI_INT, peer, 2, MPI_COMM_WORLD);
        MPI_Send(data, 4, MPI_INT, peer, 3, MPI_COMM_WORLD);
    } else {
        code = MPI_Recv(data, 2, MPI_INT, peer, 1, MPI_COMM_WORLD, &status);
        CHECK(class_of(code) == MPI_ERR_TRUNCATE && data[1] == 0 && data[2] == 1);
        MPI_Irecv(data, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, &request);
        code = MPI_Wait(&request, &status);
        CHECK(class_of(code) == MPI_ERR_TRUNCATE && request == MPI_REQUEST_NULL);
        MPI_Irecv(data, 1, MPI_INT, peer, 3, MPI_COMM_WORLD, &request);
        code = MPI_Waitall(1, &request, &status);
        CHECK(class_of(code) == MPI_ERR_IN_STATUS && class_of(status.MPI_ERROR) == MPI_ERR_TRUNCATE);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, former);
    MPI_Errhandler_free(&former);
}

/* Everyone writes to rank 0, which takes what comes; per sender the order is kept. */
static void any_source(void)
{
    enum { EACH = 20 };
    int i, value;
    if (rank == 0) {
        int *next = calloc((size_t)size, sizeof *next);
        MPI_Status status;
        for (i = 0; i < EACH * (size - 1); i++) {
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK(value == next[status.MPI_SOURCE] && status.MPI_TAG == 1000 + status.MPI_SOURCE);
            next[status.MPI_SOURCE]++;
        }
        free(next);
    } else {
        for (i = 0; i < EACH; i++)
            MPI_Send(&i, 1, MPI_INT, 0, 1000 + rank, MPI_COMM_WORLD);
    }
}

/* A column of a matrix, into a row. */
static void derived(void)
{
    int matrix[4][5], row[4] = {-1, -1, -1, -1}, i, j, bytes;
    MPI_Aint lb, extent;
    MPI_Datatype column;
    MPI_Request request;
    for (i = 0; i < 4; i++)
        for (j = 0; j < 5; j++)
            matrix[i][j] = rank * 100 + 10 * i + j;
    MPI_Type_vector(4, 1, 5, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_size(column, &bytes);
    MPI_Type_get_extent(column, &lb, &extent);
    CHECK(bytes == 16 && lb == 0 && extent == (3 * 5 + 1) * 4);
    MPI_Isend(&matrix[0][2], 1, column, peer, 9, MPI_COMM_WORLD, &request);
    MPI_Recv(row, 4, MPI_INT, peer, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (i = 0; i < 4; i++)
        CHECK(row[i] == peer * 100 + 10 * i + 2);
    MPI_Type_free(&column);
    CHECK(column == MPI_DATATYPE_NULL);
}

/* MPI_Isendrecv and MPI_Isendrecv_replace: short and long, with gaps, with the null process, and an error. */
static void exchanges(void)
{
    enum { LONG = 300000 };
    int *out = malloc(sizeof(int) * LONG), *in = malloc(sizeof(int) * LONG), n, i, count, x = rank, flag = 0;
    MPI_Request request, both[2];
    MPI_Status status, statuses[2];
    MPI_Datatype pairs;
    for (n = 1; n <= LONG; n = n == 1 ? 1000 : n == 1000 ? LONG : LONG + 1) {
        for (i = 0; i < n; i++) {
            out[i] = rank + i;
            in[i] = -1;
        }
        MPI_Isendrecv(out, n, MPI_INT, peer, 20, in, LONG, MPI_INT, peer, 20, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(request == MPI_REQUEST_NULL && count == n && status.MPI_SOURCE == peer && status.MPI_TAG == 20);
        CHECK(in[0] == peer && in[n - 1] == peer + n - 1);
        MPI_Isendrecv_replace_c(out, n, MPI_INT, peer, 21, peer, 21, MPI_COMM_WORLD, &request);
        while (!flag)
            MPI_Test(&request, &flag, &status);
        flag = 0;
        CHECK(out[0] == peer && out[n - 1] == peer + n - 1);
    }
    /* two at once, ended in the other order */
    int a = rank, b = 10 + rank, c = -1;
    MPI_Isendrecv(&a, 1, MPI_INT, peer, 22, &c, 1, MPI_INT, peer, 22, MPI_COMM_WORLD, &both[1]);
    MPI_Isendrecv_replace(&b, 1, MPI_INT, peer, 23, peer, 23, MPI_COMM_WORLD, &both[0]);
    MPI_Waitall(2, both, statuses);
    CHECK(c == peer && b == 10 + peer && statuses[0].MPI_TAG == 23 && statuses[1].MPI_TAG == 22);

    MPI_Type_vector(1000, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    for (i = 0; i < 2000; i++)
        out[i] = 10000 * rank + i;
    MPI_Isendrecv_replace(out, 1, pairs, peer, 24, peer, 24, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (i = 0; i < 2000; i++)
        CHECK(out[i] == 10000 * (i % 2 ? rank : peer) + i);
    MPI_Type_free(&pairs);

    x = rank;
    MPI_Isendrecv(&x, 1, MPI_INT, MPI_PROC_NULL, 0, &c, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && c == peer);
    MPI_Isendrecv(out, LONG, MPI_INT, rank ? 0 : MPI_PROC_NULL, 25, in, LONG, MPI_INT, rank ? MPI_PROC_NULL : 1, 25,
                  MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == (rank ? MPI_PROC_NULL : 1));

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    c = -5;
    CHECK(class_of(MPI_Isendrecv(&x, 1, MPI_INT, size + 9, 26, &c, 1, MPI_INT, rank, 26, MPI_COMM_WORLD, &request)) ==
          MPI_ERR_RANK);
    /* nothing of it is left: the message that it would have received is still there */
    MPI_Send(&x, 1, MPI_INT, rank, 26, MPI_COMM_WORLD);
    MPI_Iprobe(rank, 26, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(flag && c == -5);
    MPI_Recv(&c, 1, MPI_INT, rank, 26, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (size < 2) {
        fprintf(stderr, "p2p needs 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    peer = 1 - rank;
    if (rank < 2) {
        modes();
        lengths();
        probes();
        many_requests();
        persistent();
        cancel_and_null();
        truncation();
        derived();
        exchanges();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    any_source();
    return finish("p2p");
}
