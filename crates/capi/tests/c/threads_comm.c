/* MPI_THREAD_MULTIPLE: communicators that are made by several threads at once, in another order by each process, come about,
 * and have nothing to do with each other. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 12, TAG = 7 };

static MPI_Comm parent[THREADS];

/* Everybody tells its neighbour who it is, on which thread's communicator, in which round. */
static void use(MPI_Comm comm, int thread, int round)
{
    int n, me, out[3], in[3] = {-1, -1, -1};
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    out[0] = me, out[1] = thread, out[2] = round;
    MPI_Sendrecv(out, 3, MPI_INT, (me + 1) % n, TAG, in, 3, MPI_INT, (me + n - 1) % n, TAG, comm, MPI_STATUS_IGNORE);
    CHECK(in[0] == (me + n - 1) % n && in[1] == thread && in[2] == round);
}

static void *make(void *arg)
{
    int thread = (int)(long)arg, i, dims[1] = {size}, periods[1] = {1};
    for (i = 0; i < ROUNDS; i++) {
        MPI_Comm one, two, three, grid;
        MPI_Group group;
        MPI_Request request;
        MPI_Comm_dup(parent[thread], &one);
        MPI_Comm_idup(one, &two, &request);
        MPI_Comm_split(one, rank % 2, -rank, &three);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        use(one, thread, i), use(two, thread, 100 + i), use(three, thread, 200 + i);
        MPI_Comm_free(&three);
        MPI_Comm_group(one, &group);
        MPI_Comm_create_group(MPI_COMM_WORLD, group, thread, &three);
        MPI_Cart_create(two, 1, dims, periods, 0, &grid);
        use(three, thread, 300 + i), use(grid, thread, 400 + i);
        MPI_Group_free(&group);
        MPI_Comm_free(&one), MPI_Comm_free(&two), MPI_Comm_free(&three), MPI_Comm_free(&grid);
    }
    return NULL;
}

static void *copy(void *arg)
{
    int thread = (int)(long)arg;
    MPI_Comm comm;
    MPI_Comm_dup(parent[thread], &comm);
    use(comm, thread, 0);
    MPI_Comm_free(&comm);
    return NULL;
}

/* Two threads copy two communicators, begun in the opposite order by neighbours. */
static void in_opposite_order(void)
{
    pthread_t threads[2];
    int i;
    for (i = 0; i < 2; i++) {
        long thread = (i + rank) % 2;
        CHECK(pthread_create(&threads[thread], NULL, copy, (void *)thread) == 0);
    }
    for (i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

/* Buffered sends that are flushed by one thread, while another takes part in what the receiver does first. */
static void *flush(void *arg)
{
    int bytes = 0;
    void *buffer = NULL;
    (void)arg;
    MPI_Buffer_detach(&buffer, &bytes);
    CHECK(bytes > 0);
    free(buffer);
    return NULL;
}

static void beside_a_flush(void)
{
    enum { COUNT = 1 << 20 };
    int other = (rank + 1) % size, before = (rank + size - 1) % size, bytes = COUNT + MPI_BSEND_OVERHEAD, seen = -1;
    char *out = calloc(COUNT, 1), *in = calloc(COUNT, 1);
    pthread_t thread;
    MPI_Buffer_attach(malloc(bytes), bytes);
    out[COUNT - 1] = (char)rank;
    MPI_Bsend(out, COUNT, MPI_CHAR, other, TAG, MPI_COMM_WORLD);
    CHECK(pthread_create(&thread, NULL, flush, NULL) == 0);
    MPI_Sendrecv(&rank, 1, MPI_INT, other, TAG + 1, &seen, 1, MPI_INT, before, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(in, COUNT, MPI_CHAR, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(seen == before && in[COUNT - 1] == (char)before);
    pthread_join(thread, NULL);
    free(out), free(in);
}

int main(int argc, char **argv)
{
    int provided, i;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    for (i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &parent[i]);
    for (i = 0; i < 2 * ROUNDS; i++) in_opposite_order();
    /* Processes start their threads in another order each. */
    for (i = 0; i < THREADS; i++) {
        int thread = (i + rank) % THREADS;
        CHECK(pthread_create(&threads[thread], NULL, make, (void *)(long)thread) == 0);
    }
    for (i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    beside_a_flush();
    for (i = 0; i < THREADS; i++) MPI_Comm_free(&parent[i]);
    return finish("threads_comm");
}
