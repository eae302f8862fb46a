/* What messages between two ranks cost, one by one, to be held against perftest.
 *
 *   verbs version            what the library calls itself
 *   verbs p2p ROUND_TRIPS    ranks 0 and 1: the first round trip, then latency and bandwidth by size
 *
 * A result is one line "key value" on standard output. A latency is half the median of so many round trips, as perftest's
 * typical latency is: where a scheduler is in the way, a mean tells of nothing else.
 */
#include "measure.h"

enum { KI = 1024, MI = KI * KI, NAP_US = 200000, ROUND_TRIPS_MAX = 100000 };

static double trips[ROUND_TRIPS_MAX];

/* Half the median of `count` round trips in us, without what both sides take for their bytes. */
static double typical_us(size_t bytes, int count)
{
    double touched_far = 0;
    message_bytes = bytes;
    turn = 0;
    for (int i = 0; i < count; i++, turn++) {
        if (rank == near_rank) {
            rewrite(send_buffer, turn);
            double start = now();
            send_to(far_rank);
            receive_from(far_rank);
            trips[i] = now() - start;
            read_back(receive_buffer, turn);
        } else {
            receive_from(near_rank);
            double start = bytes > TOUCH_FREE_MAX ? now() : 0;
            read_back(receive_buffer, turn);
            rewrite(send_buffer, turn);
            touched_far += bytes > TOUCH_FREE_MAX ? now() - start : 0;
            send_to(near_rank);
        }
    }
    if (rank != near_rank) {
        MPI_Send(&touched_far, 1, MPI_DOUBLE, near_rank, 4, MPI_COMM_WORLD);
        return 0;
    }
    MPI_Recv(&touched_far, 1, MPI_DOUBLE, far_rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    qsort(trips, (size_t)count, sizeof *trips, by_value);
    return 0.5e6 * (trips[count / 2] - touched_far / count);
}

static void run_p2p(int count)
{
    struct timespec nap = {0, NAP_US * 1000};
    if (rank > 1)
        return;
    if (rank == near_rank)
        nanosleep(&nap, NULL); /* the other one waits by then */
    double first = 2 * typical_us(8, 1);
    typical_us(8, count / 10 + 1);
    double latency = typical_us(8, count);
    report("connect", first - 2 * latency);
    report("latency_8", latency);
    report("latency_4096", typical_us(4 * KI, count));
    report("bandwidth_65536", 1e-6 * 64 * KI / per_message_s(64 * KI)); /* MB/s */
    report("bandwidth_1048576", 1e-6 * MI / per_message_s(MI));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 1000;
    begin(early_rank());
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    window_bytes_max = 16 * MI; /* an emulated device takes seconds for more */
    if (strcmp(what, "version") == 0) {
        if (rank == 0)
            print_version();
    } else if (strcmp(what, "p2p") == 0 && size >= 2 && count > 0 && count <= ROUND_TRIPS_MAX) {
        make_buffers();
        run_p2p(count);
    } else {
        fprintf(stderr, "usage: verbs version | p2p ROUND_TRIPS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
