/* One microbenchmark for every MPI library: the same source, the same binding to cores, the same clock.
 *
 *   micro version          what the library calls itself
 *   micro p2p              latency, bandwidth and message rate between ranks 0 and 1 (needs 2 ranks)
 *   micro strided          latency between ranks 0 and 1 of doubles that stand in a strided vector, alone or 8 together
 *   micro overlap          how much of a transfer from rank 0 to rank 1 hides behind computing
 *   micro threads          latency and message rate between ranks 0 and 1 of two threads each, at the same time
 *   micro sizes            latency of messages of many lengths between ranks 0 and 1
 *   micro allreduce        allreduce of 8 bytes over all ranks
 *   micro coll             other collectives over all ranks, small and large
 *   micro blocks           collectives with a block for each rank: allgather and reduce-scatter, small and large
 *   micro many             collectives as they are called by many ranks that share few cores
 *   micro crowd            what p2p and overlap measure, while all other ranks are connected to ranks 0 and 1, and sleep
 *   micro init             every rank: time from main to the end of the first barrier
 *   micro memory           every rank: its proportional set size after init, a barrier and a ring
 *   micro pack             packing doubles that stand in a strided vector, in blocks of 1 to 8, in a part of a cube
 *
 * A result is one line "key value" on standard output; the value is "nan" where a library does not offer it. A
 * measurement is calibrated to take about 0.2 s (at least 3 iterations), because libraries differ by a factor of 1,000
 * when ranks share cores.
 * Compiled with -DBARE it is the program without MPI that memory is compared with.
 */
#ifdef BARE

#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char line[16];
    puts("ready");
    fflush(stdout);
    return read(0, line, sizeof line) < 0; /* stays until the runner has looked at it */
}

#else

#include "measure.h"
#include "overlap.h"
#include "threads.h"

enum { LARGE = 1 << 20 };

static void allreduce(long iterations)
{
    for (long i = 0; i < iterations; i++) {
        double mine = rank + 1, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (sum != 0.5 * size * (size + 1)) {
            fprintf(stderr, "rank %d: the allreduce gave %g\n", rank, sum);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
}

/* What all ranks take for their bytes, on the cores that they share, is no part of a collective. */
static double touched;

static void not_touched(void)
{
    double all = 0;
    MPI_Allreduce(&touched, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (message_bytes > TOUCH_FREE_MAX)
        not_counted_s += all / (cores < size ? cores : size);
    touched = 0;
}

/* Few bytes are touched without a look at the clock, which would be counted and cost more than they do. */
static double touch_start(void)
{
    return message_bytes > TOUCH_FREE_MAX ? now() : 0;
}

static void touch_end(double start)
{
    if (message_bytes > TOUCH_FREE_MAX)
        touched += now() - start;
}

static void touch_out(char *bytes, uint64_t word)
{
    double start = touch_start();
    rewrite(bytes, word);
    touch_end(start);
}

static void touch_in(const char *bytes, uint64_t word)
{
    double start = touch_start();
    read_back(bytes, word);
    touch_end(start);
}

static void bcast(long iterations)
{
    for (long i = 0; i < iterations; i++, turn++) {
        if (rank == 0)
            touch_out(send_buffer, turn);
        MPI_Bcast(send_buffer, (int)message_bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (rank > 0)
            touch_in(send_buffer, turn);
    }
    not_touched();
}

/* Every rank is the root in its turn, so that nobody runs ahead. */
static void bcast_turns(long iterations)
{
    for (long i = 0; i < iterations; i++, turn++) {
        int root = (int)(turn % (uint64_t)size);
        if (rank == root)
            touch_out(send_buffer, turn);
        MPI_Bcast(send_buffer, (int)message_bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        if (rank != root)
            touch_in(send_buffer, turn);
    }
    not_touched();
}

static void allreduce_words(long iterations)
{
    for (long i = 0; i < iterations; i++, turn++) {
        touch_out(send_buffer, turn);
        MPI_Allreduce(send_buffer, receive_buffer, (int)(message_bytes / 8), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        touch_in(receive_buffer, turn * (uint64_t)size);
    }
    not_touched();
}

static void reduce_words(long iterations)
{
    for (long i = 0; i < iterations; i++, turn++) {
        touch_out(send_buffer, turn);
        MPI_Reduce(send_buffer, receive_buffer, (int)(message_bytes / 8), MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            touch_in(receive_buffer, turn * (uint64_t)size);
    }
    not_touched();
}

static void alltoall(long iterations)
{
    for (long i = 0; i < iterations; i++, turn++) {
        for (int r = 0; r < size; r++)
            touch_out(send_buffer + (size_t)r * message_bytes, turn + (uint64_t)(rank * size + r));
        MPI_Alltoall(send_buffer, (int)message_bytes, MPI_BYTE, receive_buffer, (int)message_bytes, MPI_BYTE,
                     MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            touch_in(receive_buffer + (size_t)r * message_bytes, turn + (uint64_t)(r * size + rank));
    }
    not_touched();
}

static void allgather(long iterations)
{
    for (long i = 0; i < iterations; i++, turn++) {
        touch_out(send_buffer, turn + (uint64_t)rank);
        MPI_Allgather(send_buffer, (int)message_bytes, MPI_BYTE, receive_buffer, (int)message_bytes, MPI_BYTE,
                      MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            touch_in(receive_buffer + (size_t)r * message_bytes, turn + (uint64_t)r);
    }
    not_touched();
}

static void reduce_scatter(long iterations)
{
    for (long i = 0; i < iterations; i++, turn++) {
        for (int r = 0; r < size; r++)
            touch_out(send_buffer + (size_t)r * message_bytes, turn + (uint64_t)r);
        MPI_Reduce_scatter_block(send_buffer, receive_buffer, (int)(message_bytes / 8), MPI_UINT64_T, MPI_SUM,
                                 MPI_COMM_WORLD);
        touch_in(receive_buffer, (turn + (uint64_t)rank) * (uint64_t)size);
    }
    not_touched();
}

struct call {
    const char *key;
    size_t bytes;
    void (*body)(long);
};

static void run_calls(const struct call *calls, size_t count)
{
    make_buffers();
    memset(send_buffer, 0, LARGE);
    for (size_t i = 0; i < count; i++) {
        message_bytes = calls[i].bytes;
        report(calls[i].key, 1e6 * measure_all(calls[i].body)); /* us */
    }
}

static void run_coll(void)
{
    static const struct call calls[] = {
        {"bcast_8", 8, bcast},
        {"bcast_1048576", LARGE, bcast},
        {"allreduce_1048576", LARGE, allreduce_words},
        {"reduce_1048576", LARGE, reduce_words},
        {"alltoall_65536", 65536, alltoall}};
    run_calls(calls, sizeof calls / sizeof *calls);
}

/* A run of their own: where ranks share cores some libraries take seconds for one call, and a run has a time limit. */
static void run_blocks(void)
{
    static const struct call calls[] = {
        {"allgather_8", 8, allgather},
        {"allgather_65536", 65536, allgather},
        {"reduce_scatter_8", 8, reduce_scatter},
        {"reduce_scatter_65536", 65536, reduce_scatter}};
    run_calls(calls, sizeof calls / sizeof *calls);
}

static void run_many(void)
{
    make_buffers();
    message_bytes = 8;
    bcast_turns(size); /* from each root once: meeting is none of it */
    static const struct call calls[] = {
        {"many_allreduce_8", 8, allreduce},
        {"many_allreduce_1048576", LARGE, allreduce_words},
        {"many_bcast_8", 8, bcast},
        {"many_bcast_turns_8", 8, bcast_turns},
        {"many_bcast_1048576", LARGE, bcast},
        {"many_alltoall_1024", 1024, alltoall}};
    run_calls(calls, sizeof calls / sizeof *calls);
}

static void run_alltoall(void)
{
    static const struct call calls[] = {{"alltoall_1024", 1024, alltoall}};
    run_calls(calls, 1);
}

static void run_p2p(void)
{
    static const struct { const char *key; size_t bytes; } sizes[] = {
        {"latency_8", 8}, {"latency_4096", 4096}, {"latency_65536", 65536}, {"latency_1048576", LARGE}};
    make_buffers();
    if (rank > 1)
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        report(sizes[i].key, latency_us(sizes[i].bytes));
    report("bandwidth", 1e-9 * LARGE / per_message_s(LARGE)); /* GB/s */
    report("bandwidth_4194304", 1e-9 * (4 * LARGE) / per_message_s(4 * LARGE));
    report("rate", 1e-6 / per_message_s(8)); /* million messages per second */
}

/* Ranks 0 and 1 meet everybody; then all others wait for a last word of rank 0. */
static void run_crowd(void)
{
    char byte = 0;
    for (int busy = 0; busy < 2; busy++) {
        for (int r = 2; rank == busy && r < size; r++) {
            MPI_Send(&byte, 1, MPI_BYTE, r, 8, MPI_COMM_WORLD);
            MPI_Recv(&byte, 1, MPI_BYTE, r, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (rank > 1) {
            MPI_Recv(&byte, 1, MPI_BYTE, busy, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&byte, 1, MPI_BYTE, busy, 8, MPI_COMM_WORLD);
        }
    }
    if (rank > 1) {
        MPI_Recv(&byte, 1, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    run_p2p();
    run_overlap(LARGE);
    for (int r = 2; rank == 0 && r < size; r++)
        MPI_Send(&byte, 1, MPI_BYTE, r, 9, MPI_COMM_WORLD);
}

static void run_sizes(void)
{
    static const size_t LENGTHS[] = {8192, 12288, 16384, 24576, 32768, 65536, 131072, 262144, 524288, 1048576, 4194304};
    make_buffers();
    if (rank > 1)
        return;
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        char key[32];
        snprintf(key, sizeof key, "latency_%zu", LENGTHS[i]);
        report(key, latency_us(LENGTHS[i]));
    }
}

/* The ping-pong of 64 KiB in `blocks` blocks of so many doubles, each followed by as much that is not sent. */
static double strided_us(int blocks, int doubles)
{
    size_t gap_bytes = (size_t)doubles * sizeof(double), block_step = 2 * gap_bytes;
    MPI_Type_vector(blocks, doubles, 2 * doubles, MPI_DOUBLE, &message_type);
    MPI_Type_commit(&message_type);
    message_step = block_step > LINE ? block_step : LINE; /* every line that holds data, and never a gap */
    double us = latency_us((size_t)blocks * block_step - gap_bytes);
    MPI_Type_free(&message_type);
    message_type = MPI_BYTE;
    message_step = LINE;
    return us;
}

static void run_strided(void)
{
    make_buffers();
    if (rank > 1)
        return;
    report("strided_8", strided_us(8192, 1));
    report("strided_64", strided_us(1024, 8));
}

static void run_memory(void)
{
    char out = 1, in = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv(&out, 1, MPI_BYTE, (rank + 1) % size, 4, &in, 1, MPI_BYTE, (rank + size - 1) % size, 4,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    long pss = memory_kib("\nPss:");
    MPI_Barrier(MPI_COMM_WORLD); /* nobody leaves before everybody has looked */
    result("pss_kib", (double)pss);
}

enum { DOUBLES = 1 << 16 };
static double spread[DOUBLES], packed[DOUBLES];
static int place[DOUBLES]; /* of each packed double */
static MPI_Datatype packed_type;

static void pack(long iterations)
{
    for (long i = 0; i < iterations; i++) {
        int position = 0;
        MPI_Pack(spread, 1, packed_type, packed, (int)sizeof packed, &position, MPI_COMM_SELF);
    }
}

/* Packs `count` doubles, whose places are known, until the time is known; and looks at them afterwards. */
static void pack_type(const char *key, MPI_Datatype type, int count)
{
    packed_type = type;
    MPI_Type_commit(&packed_type);
    memset(packed, 0, sizeof packed);
    report(key, 1e9 * measure_all(pack));
    for (int i = 0; i < count; i++) {
        if (packed[i] != spread[place[i]]) {
            fprintf(stderr, "%s: double %d is %g\n", key, i, packed[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Type_free(&packed_type);
}

/* What fits in a core's own cache: beyond it every library waits for memory alike. */
static void run_pack(void)
{
    enum { COUNT = 512, STRIDE = 17, BLOCKS = 128, EDGE = 16, ROOM = 2 * EDGE };
    MPI_Datatype type;
    int i, j, k, n = 0, at = 0, lengths[BLOCKS], starts[BLOCKS];
    for (i = 0; i < DOUBLES; i++)
        spread[i] = i + 0.5;
    for (i = 0; i < COUNT; i++)
        place[i] = i * STRIDE;
    MPI_Type_vector(COUNT, 1, STRIDE, MPI_DOUBLE, &type);
    pack_type("pack_vector", type, COUNT);

    uint64_t state = 88172645463325252ULL;
    for (i = 0; i < BLOCKS; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        lengths[i] = 1 + (int)(state >> 20 & 7);
        starts[i] = at;
        for (j = 0; j < lengths[i]; j++)
            place[n++] = at++;
        at += 1 + (int)(state >> 40 & 7);
    }
    MPI_Type_indexed(BLOCKS, lengths, starts, MPI_DOUBLE, &type);
    pack_type("pack_indexed", type, n);

    int room[3] = {ROOM, ROOM, ROOM}, part[3] = {EDGE, EDGE, EDGE}, start[3] = {5, 6, 7};
    for (i = n = 0; i < EDGE; i++)
        for (j = 0; j < EDGE; j++)
            for (k = 0; k < EDGE; k++)
                place[n++] = ((i + 5) * ROOM + j + 6) * ROOM + k + 7;
    MPI_Type_create_subarray(3, room, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    pack_type("pack_cube", type, n);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    begin(early_rank());
    double start = now();
    int threads = strcmp(what, "threads") == 0, provided = MPI_THREAD_SINGLE;
    if (threads) /* only here: a library may be slower when it has to expect threads */
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    if (strcmp(what, "init") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        result("init_ms", 1e3 * (now() - start));
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "p2p") == 0 && size >= 2) {
        run_p2p();
    } else if (strcmp(what, "sizes") == 0 && size >= 2) {
        run_sizes();
    } else if (strcmp(what, "strided") == 0 && size >= 2) {
        run_strided();
    } else if (strcmp(what, "overlap") == 0 && size >= 2) {
        run_overlap(LARGE);
    } else if (threads && size >= 2) {
        run_threads(provided);
    } else if (strcmp(what, "allreduce") == 0) {
        report("allreduce", 1e6 * measure_all(allreduce)); /* us */
    } else if (strcmp(what, "coll") == 0) {
        run_coll();
    } else if (strcmp(what, "blocks") == 0) {
        run_blocks();
    } else if (strcmp(what, "many") == 0) {
        run_many();
    } else if (strcmp(what, "crowd") == 0 && size >= 2) {
        run_crowd();
    } else if (strcmp(what, "alltoall") == 0) {
        run_alltoall();
    } else if (strcmp(what, "memory") == 0) {
        run_memory();
    } else if (strcmp(what, "pack") == 0) {
        run_pack();
    } else if (strcmp(what, "version") == 0) {
        if (rank == 0)
            print_version();
    } else {
        fprintf(stderr, "usage: micro version | p2p | strided | overlap | threads | allreduce | coll | blocks |"
                        " many | crowd | alltoall | init | memory | pack\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}

#endif
