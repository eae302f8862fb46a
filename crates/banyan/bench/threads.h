/* Small messages of several threads at once: thread t of rank 0 talks with thread t of rank 1, over a communicator of
 * their own, which is what lets a library keep them apart. Where cores suffice each thread has one; on two cores the
 * threads of a rank share the rank's, so that the two that talk are on different ones.
 *
 * Needs MPI_THREAD_MULTIPLE. The bytes are so few that all time counts.
 */
#include <math.h>
#include <pthread.h>

enum { LANES = 2, LANE_BYTES = 4096 };

/* One thread's part. */
struct lane {
    int index;
    MPI_Comm comm;
    char *out, *in;
    long iterations;
};

static struct lane lanes[LANES];
static void (*lane_body)(struct lane *);
static pthread_barrier_t all_lanes;

static void lane_send(const struct lane *lane, int peer)
{
    MPI_Send(lane->out, (int)message_bytes, MPI_BYTE, peer, 1, lane->comm);
}

static void lane_receive(const struct lane *lane, int peer)
{
    MPI_Recv(lane->in, (int)message_bytes, MPI_BYTE, peer, 1, lane->comm, MPI_STATUS_IGNORE);
}

/* Words differ between lanes, so a message in the wrong one is found. */
static uint64_t lane_word(const struct lane *lane, long number)
{
    return (uint64_t)number * LANES + (uint64_t)lane->index;
}

static void lane_ping_pong(struct lane *lane)
{
    for (long i = 0; i < lane->iterations; i++) {
        uint64_t word = lane_word(lane, i);
        if (rank == near_rank) {
            rewrite(lane->out, word);
            lane_send(lane, far_rank);
            lane_receive(lane, far_rank);
            read_back(lane->in, word);
        } else {
            lane_receive(lane, near_rank);
            read_back(lane->in, word);
            rewrite(lane->out, word);
            lane_send(lane, near_rank);
        }
    }
}

/* A window of messages one way, then one small answer. */
static void lane_windows(struct lane *lane)
{
    MPI_Request request[WINDOW_MAX];
    for (long i = 0; i < lane->iterations; i++) {
        for (int w = 0; w < WINDOW_MAX; w++) {
            size_t at = (size_t)w * message_bytes;
            if (rank == near_rank) {
                rewrite(lane->out + at, lane_word(lane, i * WINDOW_MAX + w));
                MPI_Isend(lane->out + at, (int)message_bytes, MPI_BYTE, far_rank, 2, lane->comm, &request[w]);
            } else {
                MPI_Irecv(lane->in + at, (int)message_bytes, MPI_BYTE, near_rank, 2, lane->comm, &request[w]);
            }
        }
        MPI_Waitall(WINDOW_MAX, request, MPI_STATUSES_IGNORE);
        if (rank == near_rank) {
            lane_receive(lane, far_rank);
        } else {
            lane_send(lane, near_rank);
            for (int w = 0; w < WINDOW_MAX; w++)
                read_back(lane->in + (size_t)w * message_bytes, lane_word(lane, i * WINDOW_MAX + w));
        }
    }
}

static void *lane_main(void *argument)
{
    struct lane *lane = argument;
    bind_to_core(rank + size * lane->index);
    pthread_barrier_wait(&all_lanes);
    lane_body(lane);
    return NULL;
}

/* All lanes at once, the first one in this thread. Making the others is not counted. */
static void all_lanes_body(long iterations)
{
    pthread_t other[LANES];
    double start = now();
    for (int t = 0; t < LANES; t++) {
        lanes[t].iterations = iterations;
        if (t > 0 && pthread_create(&other[t], NULL, lane_main, &lanes[t]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 4);
    }
    pthread_barrier_wait(&all_lanes);
    not_counted_s += now() - start;
    lane_body(&lanes[0]);
    for (int t = 1; t < LANES; t++)
        pthread_join(other[t], NULL);
}

static double lanes_s(void (*body)(struct lane *))
{
    lane_body = body;
    return measure_pair(all_lanes_body);
}

/* A library that does not let threads call it has no figures here, and that is no failure. */
static void run_threads(int provided)
{
    if (provided < MPI_THREAD_MULTIPLE) {
        report("threads_latency", NAN);
        report("threads_rate", NAN);
        return;
    }
    make_buffers();
    for (int t = 0; t < LANES; t++) {
        lanes[t].index = t;
        lanes[t].out = send_buffer + (size_t)t * LANE_BYTES;
        lanes[t].in = receive_buffer + (size_t)t * LANE_BYTES;
        MPI_Comm_dup(MPI_COMM_WORLD, &lanes[t].comm);
    }
    pthread_barrier_init(&all_lanes, NULL, LANES);
    message_bytes = 8;
    if (rank < 2) {
        report("threads_latency", 0.5e6 * lanes_s(lane_ping_pong));                 /* us */
        report("threads_rate", 1e-6 * LANES * WINDOW_MAX / lanes_s(lane_windows)); /* million messages per second */
    }
    for (int t = 0; t < LANES; t++)
        MPI_Comm_free(&lanes[t].comm);
}
