/* What operations on windows cost, for every MPI library: the same source, the same binding to cores, the same clock.
 * Rank 0 keeps the time; the window is allocated by MPI (MPI_Win_allocate), a new one for each measurement.
 *
 *   rma version          what the library calls itself
 *   rma [quick] KEY...   measures these between ranks 0 and 1; a key ends in the bytes of an operation:
 *
 *   put_8 get_8          an operation and a flush, us
 *   rate_8               1,000 puts and a flush, million puts per second; get_rate_8, accumulate_rate_8 and fetch_rate_8
 *                        likewise
 *   bandwidth_65536      64 puts and a flush, GB/s; get_bandwidth_65536 and accumulate_bandwidth_65536 likewise
 *   lock_8               an exclusive lock, a put, unlock, us
 *   fetch_8 swap_8       fetch_and_op (a sum) or compare_and_swap of a 64-bit integer and a flush, us
 *   accumulate_1024      a sum of doubles and a flush, us
 *   fence_0              a fence with nothing before it, us
 *   epoch_put_8 epoch_get_8   post, start, one operation, complete, wait; then the same the other way: half of it, us
 *   pattern1_65536       16 puts and 16 gets in one epoch of post, start, complete and wait, GB/s both ways together
 *   pattern2_65536       a put and a get in such an epoch, then the same the other way, us
 *
 * The patterns and the ping-pong of epochs are those of Huang, Santhanaraman, Jin and Panda, "Scheduling of MPI-2 One
 * Sided Operations over InfiniBand", 5.2 and 5.3.
 *
 * Data are new for each operation, read and checked where they arrive. Up to 1 KiB that happens within the measured
 * time or, at a target that takes no part, after a few thousand operations on 64 places; beyond, it is not counted. A
 * target that takes no part waits in a receive, so that a library makes progress that needs its target for it.
 *
 * A result is one line "key value" on standard output.
 */
#include "measure.h"

enum { PLACES = 64, PATTERN = 16, RATE_COUNT = 1000, STREAM_COUNT = 64, TURN_STEP = 1024 };
enum epochs { HELD, OWN }; /* both ranks hold lock_all during the measurement, or it has epochs of its own */
static const double CHUNK_QUICK_S = 0.01;

static MPI_Win win;
static char *memory; /* of this rank in the window: what others put comes first, what they get follows */
static size_t half;  /* bytes of either */
static size_t step;  /* from one place to the next */
static int put_count, get_count; /* of one epoch */
static int peer;                 /* the other rank */
static MPI_Group others;         /* it alone */

static void wrong(const char *what)
{
    fprintf(stderr, "rank %d: %s of %zu bytes gave wrong data\n", rank, what, message_bytes);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void tell(void)
{
    char byte = 0;
    MPI_Send(&byte, 1, MPI_BYTE, peer, 8, MPI_COMM_WORLD);
}

static void hear(void)
{
    char byte = 0;
    MPI_Recv(&byte, 1, MPI_BYTE, peer, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* What `producer` writes at a place in this turn. */
static inline uint64_t word_of(int producer, int place)
{
    return (turn + (uint64_t)place) << 1 | (uint64_t)producer;
}

static inline void put(const void *from, size_t at)
{
    MPI_Put(from, (int)message_bytes, MPI_BYTE, peer, (MPI_Aint)at, (int)message_bytes, MPI_BYTE, win);
}

static inline void get(void *into, size_t at)
{
    MPI_Get(into, (int)message_bytes, MPI_BYTE, peer, (MPI_Aint)at, (int)message_bytes, MPI_BYTE, win);
}

/* --- epochs in which all operations are checked --- */

static inline void fill_sources(void)
{
    for (int i = 0; i < put_count; i++)
        rewrite(send_buffer + (size_t)i * step, word_of(rank, i));
}

static inline void fill_window(void)
{
    for (int i = 0; i < get_count; i++)
        rewrite(memory + half + (size_t)i * step, word_of(rank, i));
}

static inline void operate(void)
{
    for (int i = 0; i < put_count; i++)
        put(send_buffer + (size_t)i * step, (size_t)i * step);
    for (int i = 0; i < get_count; i++)
        get(receive_buffer + (size_t)i * step, half + (size_t)i * step);
}

static inline void check_window(void)
{
    for (int i = 0; i < put_count; i++)
        read_back(memory + (size_t)i * step, word_of(peer, i));
}

static inline void check_got(void)
{
    for (int i = 0; i < get_count; i++)
        read_back(receive_buffer + (size_t)i * step, word_of(peer, i));
}

static inline void access_epoch(void)
{
    MPI_Win_start(others, 0, win);
    operate();
    MPI_Win_complete(win);
}

/* Operations and a flush. The target has filled its part before the clock starts and reads after it has stopped. */
static void flushed(long iterations)
{
    double start = now(), counted = 0;
    for (long i = 0; i < iterations; i++, turn += TURN_STEP) {
        if (rank == near_rank) {
            fill_sources();
            hear();
            double begun = now();
            operate();
            MPI_Win_flush(peer, win);
            counted += now() - begun;
            tell();
            check_got();
        } else {
            fill_window();
            MPI_Win_sync(win);
            tell();
            hear();
            MPI_Win_sync(win);
            check_window();
        }
    }
    not_counted_s += now() - start - counted;
}

/* One access epoch, until the target says that its exposure epoch is over. The clock starts when it has begun. */
static void one_way(long iterations)
{
    double start = now(), counted = 0;
    for (long i = 0; i < iterations; i++, turn += TURN_STEP) {
        if (rank == near_rank) {
            fill_sources();
            hear();
            double begun = now();
            access_epoch();
            hear();
            counted += now() - begun;
            check_got();
        } else {
            fill_window();
            MPI_Win_post(others, 0, win);
            tell();
            MPI_Win_wait(win);
            tell();
            check_window();
        }
    }
    not_counted_s += now() - start - counted;
}

/* The near rank accesses the far one's window, then the far rank the near one's. In a loop of nothing else the far rank's
 * post comes while the near one is still busy with the epoch before; here it comes before the clock starts. */
static void both_ways_large(long iterations)
{
    double start = now(), counted = 0;
    for (long i = 0; i < iterations; i++, turn += TURN_STEP) {
        fill_sources();
        fill_window();
        if (rank == near_rank) {
            hear();
            double begun = now();
            access_epoch();
            MPI_Win_post(others, 0, win);
            MPI_Win_wait(win);
            counted += now() - begun;
        } else {
            MPI_Win_post(others, 0, win);
            tell();
            MPI_Win_wait(win);
            access_epoch();
        }
        check_got();
        check_window();
    }
    not_counted_s += now() - start - counted;
}

static void both_ways_small(long iterations)
{
    for (long i = 0; i < iterations; i++, turn += TURN_STEP) {
        fill_sources();
        fill_window();
        if (rank == near_rank) {
            access_epoch();
            check_got();
            MPI_Win_post(others, 0, win);
            MPI_Win_wait(win);
            check_window();
        } else {
            MPI_Win_post(others, 0, win);
            MPI_Win_wait(win);
            check_window();
            access_epoch();
            check_got();
        }
    }
}

static void both_ways(long iterations)
{
    if (message_bytes <= TOUCH_FREE_MAX)
        both_ways_small(iterations);
    else
        both_ways_large(iterations);
}

/* --- operations on a target that takes no part; it waits in a receive --- */

static inline size_t place(uint64_t at_turn)
{
    return (size_t)(at_turn % PLACES) * step;
}

/* After puts in turn on all places, each holds the last one's word. */
static void check_places(void)
{
    uint64_t end = turn;
    for (int i = 0; i < PLACES && turn > 0; i++) {
        turn--;
        read_back(memory + place(turn), word_of(peer, 0));
    }
    turn = end;
}

/* The near rank has ended a series of puts, and the far rank looks at them. */
static void end_of_puts(enum epochs epochs)
{
    double start = now();
    if (rank == near_rank) {
        tell();
        hear();
    } else {
        hear();
        if (epochs == OWN)
            MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        else
            MPI_Win_sync(win);
        check_places();
        if (epochs == OWN)
            MPI_Win_unlock(rank, win);
        tell();
    }
    not_counted_s += now() - start;
}

static void put_small(long iterations)
{
    if (rank == near_rank) {
        for (long i = 0; i < iterations; i++, turn++) {
            rewrite(send_buffer, word_of(rank, 0));
            put(send_buffer, place(turn));
            MPI_Win_flush(peer, win);
        }
    } else {
        turn += (uint64_t)iterations;
    }
    end_of_puts(HELD);
}

static void put_locked(long iterations)
{
    if (rank == near_rank) {
        for (long i = 0; i < iterations; i++, turn++) {
            rewrite(send_buffer, word_of(rank, 0));
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, win);
            put(send_buffer, place(turn));
            MPI_Win_unlock(peer, win);
        }
    } else {
        turn += (uint64_t)iterations;
    }
    end_of_puts(OWN);
}

/* The target fills its places before the first get. */
static void get_small(long iterations)
{
    double start = now();
    if (rank == far_rank) {
        for (int i = 0; i < PLACES; i++)
            rewrite(memory + half + (size_t)i * step, word_of(rank, i));
        MPI_Win_sync(win);
        tell();
        hear();
        turn += (uint64_t)iterations;
        return;
    }
    hear();
    not_counted_s += now() - start;
    for (long i = 0; i < iterations; i++) {
        rewrite(receive_buffer, UINT64_MAX);
        get(receive_buffer, half + place((uint64_t)i));
        MPI_Win_flush(peer, win);
        read_back(receive_buffer, word_of(peer, (int)(i % PLACES)));
    }
    turn += (uint64_t)iterations;
    start = now();
    tell();
    not_counted_s += now() - start;
}

static void put_flush(long iterations)
{
    if (message_bytes <= TOUCH_FREE_MAX)
        put_small(iterations);
    else
        flushed(iterations);
}

static void get_flush(long iterations)
{
    if (message_bytes <= TOUCH_FREE_MAX)
        get_small(iterations);
    else
        flushed(iterations);
}

static int64_t added; /* what the target's first integer holds */

static void end_of_atomics(void)
{
    double start = now();
    if (rank == near_rank)
        tell();
    else
        hear();
    not_counted_s += now() - start;
}

/* Atomic operations that a flush ends. */
static inline int atomic_count(void)
{
    return put_count > 0 ? put_count : 1;
}

/* Those of one process to one place are done in order. */
static void fetch(long iterations)
{
    static int64_t more[RATE_COUNT], before[RATE_COUNT];
    int count = atomic_count();
    if (turn == 0)
        added = 0;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < count; k++, turn++) {
            more[k] = 1 + (int64_t)(turn % 7);
            before[k] = -1;
            if (rank == near_rank)
                MPI_Fetch_and_op(&more[k], &before[k], MPI_INT64_T, peer, 0, MPI_SUM, win);
        }
        if (rank == near_rank)
            MPI_Win_flush(peer, win);
        for (int k = 0; k < count; k++) {
            if (rank == near_rank && before[k] != added)
                wrong("fetch_and_op");
            added += more[k];
        }
    }
    end_of_atomics();
}

static void swap(long iterations)
{
    if (turn == 0)
        added = 0;
    for (long i = 0; i < iterations; i++, turn++) {
        int64_t next = added + 1 + (int64_t)(turn % 7), before = -1;
        if (rank == near_rank) {
            MPI_Compare_and_swap(&next, &added, &before, MPI_INT64_T, peer, 0, win);
            MPI_Win_flush(peer, win);
            if (before != added)
                wrong("compare_and_swap");
        }
        added = next;
    }
    end_of_atomics();
}

/* In each cache line the first double is new in each turn, and the others say which they are. */
enum { DOUBLES_IN_LINE = LINE / sizeof(double), CYCLE = 1024 };

static void check_sums(void)
{
    uint64_t cycles = turn / CYCLE, rest = turn % CYCLE;
    double of_turns = (double)(cycles * (CYCLE * (CYCLE - 1) / 2) + rest * (rest - 1) / 2); /* rest 0: 0 * -1 is 0 */
    const double *sums = (const double *)memory;
    for (size_t i = 0; i < message_bytes / sizeof *sums; i++)
        if (sums[i] != (i % DOUBLES_IN_LINE == 0 ? of_turns : (double)i * (double)turn))
            wrong("accumulate");
}

static void accumulate(long iterations)
{
    double *sources = (double *)send_buffer;
    int doubles = (int)(message_bytes / sizeof *sources), count = atomic_count();
    if (rank == far_rank) {
        turn += (uint64_t)iterations * (uint64_t)count;
        hear();
        MPI_Win_sync(win);
        check_sums();
        tell();
        return;
    }
    for (int i = 0; i < count * doubles; i++)
        sources[i] = i % doubles;
    for (long i = 0; i < iterations; i++) {
        for (int c = 0; c < count; c++, turn++) {
            double *source = sources + (size_t)c * (size_t)doubles;
            for (int k = 0; k < doubles; k += DOUBLES_IN_LINE)
                source[k] = (double)(turn % CYCLE);
            MPI_Accumulate(source, doubles, MPI_DOUBLE, peer, 0, doubles, MPI_DOUBLE, MPI_SUM, win);
        }
        MPI_Win_flush(peer, win);
    }
    double start = now();
    tell();
    hear();
    not_counted_s += now() - start;
}

static void fence(long iterations)
{
    for (long i = 0; i < iterations; i++)
        MPI_Win_fence(0, win);
}

/* --- what can be asked for --- */

enum unit { US, HALF_US, M_S, GB_S };

static const struct kind {
    const char *name;
    void (*body)(long);
    enum epochs epochs;
    int puts, gets;
    enum unit unit;
} kinds[] = {
    {"put", put_flush, HELD, 1, 0, US},
    {"get", get_flush, HELD, 0, 1, US},
    {"rate", flushed, HELD, RATE_COUNT, 0, M_S},
    {"bandwidth", flushed, HELD, STREAM_COUNT, 0, GB_S},
    {"get_rate", flushed, HELD, 0, RATE_COUNT, M_S},
    {"get_bandwidth", flushed, HELD, 0, STREAM_COUNT, GB_S},
    {"lock", put_locked, OWN, 1, 0, US},
    {"fetch", fetch, HELD, 0, 0, US},
    {"swap", swap, HELD, 0, 0, US},
    {"accumulate", accumulate, HELD, 0, 0, US},
    {"fetch_rate", fetch, HELD, RATE_COUNT, 0, M_S},
    {"accumulate_rate", accumulate, HELD, RATE_COUNT, 0, M_S},
    {"accumulate_bandwidth", accumulate, HELD, STREAM_COUNT, 0, GB_S},
    {"fence", fence, OWN, 0, 0, US},
    {"epoch_put", both_ways, OWN, 1, 0, HALF_US},
    {"epoch_get", both_ways, OWN, 0, 1, HALF_US},
    {"pattern1", one_way, OWN, PATTERN, PATTERN, GB_S},
    {"pattern2", both_ways, OWN, 1, 1, US}};

static void make_window(void)
{
    int most = put_count > get_count ? put_count : get_count;
    step = message_bytes;
    half = (size_t)(most > 0 ? most : 1) * step;
    if (message_bytes <= TOUCH_FREE_MAX && half < PLACES * TOUCH_FREE_MAX)
        half = PLACES * TOUCH_FREE_MAX;
    MPI_Win_allocate((MPI_Aint)(2 * half), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    memset(memory, 0, 2 * half);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static double in_unit(enum unit unit, double seconds)
{
    switch (unit) {
    case HALF_US:
        return 0.5e6 * seconds;
    case M_S:
        return 1e-6 * (put_count + get_count) / seconds;
    case GB_S:
        return 1e-9 * (double)message_bytes * (put_count + get_count) / seconds;
    default:
        return 1e6 * seconds;
    }
}

static void run(const struct kind *kind, const char *key, size_t bytes)
{
    message_bytes = bytes;
    put_count = kind->puts;
    get_count = kind->gets;
    make_window();
    if (kind->epochs == HELD)
        MPI_Win_lock_all(0, win);
    double seconds = measure_pair(kind->body);
    if (kind->epochs == HELD)
        MPI_Win_unlock_all(win);
    if (kind->body == fence)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_free(&win);
    report(key, in_unit(kind->unit, seconds));
}

/* The kind that is named before the last underscore. */
static const struct kind *find(const char *key, size_t *bytes)
{
    const char *end = strrchr(key, '_');
    for (size_t i = 0; end && i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = kinds[i].name;
        if (strlen(name) == (size_t)(end - key) && strncmp(name, key, strlen(name)) == 0) {
            *bytes = (size_t)strtoul(end + 1, NULL, 10);
            return &kinds[i];
        }
    }
    fprintf(stderr, "rma: '%s' cannot be measured\n", key);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return NULL;
}

static void prepare(void)
{
    MPI_Group world;
    make_buffers();
    peer = 1 - rank;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &peer, &others);
    MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
    begin(early_rank());
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        if (rank == 0)
            print_version();
        return MPI_Finalize();
    }
    if (argc < 2 || size != 2) {
        fprintf(stderr, "usage: rma version | rma [quick] KEY... (on 2 ranks)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    prepare();
    for (int i = 1; i < argc; i++) {
        size_t bytes = 0;
        if (strcmp(argv[i], "quick") == 0) {
            chunk_s = CHUNK_QUICK_S;
            continue;
        }
        const struct kind *kind = find(argv[i], &bytes);
        run(kind, argv[i], bytes);
    }
    MPI_Group_free(&others);
    return MPI_Finalize();
}
