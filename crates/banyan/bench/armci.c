/* What ARMCI's operations cost, for every library that has its interface: the same source, the same binding to cores, the
 * same clock. Two ranks; rank 0 operates on memory of rank 1, which waits in a receive of MPI meanwhile, and keeps the time.
 *
 *   armci version           what the MPI library below calls itself
 *   armci [quick] KEY...    measures these; a key ends in the bytes of an operation, or of a row of a strided one:
 *
 *   put_8                   puts; a fence ends each series, us for one
 *   put_fence_8 acc_fence_8 an operation and a fence, us
 *   get_8                   a get, us
 *   rmw_8                   fetch-and-add of a long, million per second
 *   put_bandwidth_65536     non-blocking operations, a wait for all, a fence, GB/s; get_bandwidth and acc_bandwidth likewise
 *   put_strided_1024        ROWS rows at a distance of STRIDE rows on both sides, and a fence, GB/s; get_strided and
 *                           acc_strided likewise
 *
 * Accumulates are of doubles, with a factor of 1. Data are new for each operation and checked where they arrive: up to 1 KiB
 * within the measured time or, at the target, after a few thousand operations on 64 places; beyond, it is not counted.
 *
 * A result is one line "key value" on standard output.
 */
#include "measure.h"
#include <armci.h>

enum { PLACES = 64, STREAM_COUNT = 32, ROWS = 256, STRIDE = 4, TURN_STEP = 1024 };
static const double CHUNK_QUICK_S = 0.01;

enum verb { PUT, GET, ACC };

static char *memory, *remote; /* of this rank, and where the other one's begins */
static int peer;
static double one = 1;

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

static void wrong(const char *what)
{
    fprintf(stderr, "rank %d: %s of %zu bytes gave wrong data\n", rank, what, message_bytes);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void must(int code, const char *what)
{
    if (code != 0) {
        fprintf(stderr, "rank %d: %s gave %d\n", rank, what, code);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

/* --- small operations, one by one --- */

static inline size_t place(uint64_t at_turn)
{
    return (size_t)(at_turn % PLACES) * TOUCH_FREE_MAX;
}

/* After puts in turn on all places, each holds the last one's word. The target looks at them. */
static void end_of_puts(void)
{
    double start = now();
    if (rank == near_rank) {
        tell();
        hear();
    } else {
        uint64_t end = turn;
        hear();
        for (int i = 0; i < PLACES && turn > 0; i++) {
            turn--;
            read_back(memory + place(turn), turn);
        }
        turn = end;
        tell();
    }
    not_counted_s += now() - start;
}

static void put_series(long iterations, int fence_each)
{
    if (rank == near_rank) {
        for (long i = 0; i < iterations; i++, turn++) {
            rewrite(send_buffer, turn);
            ARMCI_Put(send_buffer, remote + place(turn), (int)message_bytes, peer);
            if (fence_each)
                ARMCI_Fence(peer);
        }
        ARMCI_Fence(peer);
    } else {
        turn += (uint64_t)iterations;
    }
    end_of_puts();
}

static void put(long iterations)
{
    put_series(iterations, 0);
}

static void put_fence(long iterations)
{
    put_series(iterations, 1);
}

/* The target fills its places before the first get. */
static void get(long iterations)
{
    double start = now();
    if (rank == far_rank) {
        for (int i = 0; i < PLACES; i++)
            rewrite(memory + place((uint64_t)i), turn + (uint64_t)i);
        tell();
        hear();
        turn += TURN_STEP;
        return;
    }
    hear();
    not_counted_s += now() - start;
    for (long i = 0; i < iterations; i++) {
        rewrite(receive_buffer, UINT64_MAX);
        ARMCI_Get(remote + place((uint64_t)i), receive_buffer, (int)message_bytes, peer);
        read_back(receive_buffer, turn + (uint64_t)(i % PLACES));
    }
    turn += TURN_STEP;
    start = now();
    tell();
    not_counted_s += now() - start;
}

/* Adds a number to the same doubles again and again. */
static void acc_fence(long iterations)
{
    int doubles = (int)(message_bytes / sizeof(double));
    double *sums = (double *)memory, *source = (double *)send_buffer;
    if (turn == 0 && rank == far_rank)
        memset(memory, 0, message_bytes);
    meet();
    if (rank == near_rank) {
        for (int i = 0; i < doubles; i++)
            source[i] = 1 + i % 4;
        for (long i = 0; i < iterations; i++) {
            ARMCI_Acc(ARMCI_ACC_DBL, &one, source, remote, (int)message_bytes, peer);
            ARMCI_Fence(peer);
        }
    }
    turn += (uint64_t)iterations;
    double start = now();
    if (rank == near_rank)
        tell();
    else
        hear();
    for (int i = 0; i < doubles && rank == far_rank; i++)
        if (sums[i] != (double)turn * (1 + i % 4))
            wrong("acc");
    not_counted_s += now() - start;
}

static void rmw(long iterations)
{
    static long sum;
    if (turn == 0) {
        sum = 0;
        memset(memory, 0, sizeof(long));
    }
    meet();
    for (long i = 0; i < iterations; i++, turn++) {
        int more = 1 + (int)(turn % 7);
        long before = -1;
        if (rank == near_rank) {
            ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &before, remote, more, peer);
            if (before != sum)
                wrong("rmw");
        }
        sum += more;
    }
    double start = now();
    if (rank == near_rank)
        tell();
    else
        hear();
    not_counted_s += now() - start;
}

/* --- many bytes --- */

static enum verb verb;
static int pieces;          /* messages, or rows */
static size_t piece_step;   /* from one to the next */

static inline uint64_t word_of(int piece)
{
    return turn + (uint64_t)piece;
}

/* Sources of puts and gets have new words each time. Those of accumulates are doubles: each sum is checked. */
static void fill(char *bytes)
{
    for (int i = 0; i < pieces; i++) {
        double *source = (double *)(bytes + (size_t)i * piece_step);
        if (verb != ACC)
            rewrite(bytes + (size_t)i * piece_step, word_of(i));
        else
            for (size_t k = 0; k < message_bytes / sizeof *source; k += LINE / sizeof *source)
                source[k] = (double)(word_of(i) % 1024);
    }
}

static void check_all(const char *bytes)
{
    for (int i = 0; i < pieces; i++) {
        const double *sums = (const double *)(bytes + (size_t)i * piece_step);
        if (verb != ACC)
            read_back(bytes + (size_t)i * piece_step, word_of(i));
        else
            for (size_t k = 0; k < message_bytes / sizeof *sums; k += LINE / sizeof *sums)
                if (sums[k] != (double)(word_of(i) % 1024))
                    wrong("acc");
    }
}

static void operate_stream(void)
{
    for (int i = 0; i < pieces; i++) {
        size_t at = (size_t)i * piece_step;
        int bytes = (int)message_bytes;
        switch (verb) {
        case PUT:
            ARMCI_NbPut(send_buffer + at, remote + at, bytes, peer, NULL);
            break;
        case GET:
            ARMCI_NbGet(remote + at, receive_buffer + at, bytes, peer, NULL);
            break;
        case ACC:
            ARMCI_NbAcc(ARMCI_ACC_DBL, &one, send_buffer + at, remote + at, bytes, peer, NULL);
        }
    }
    ARMCI_WaitAll();
}

static void operate_rows(void)
{
    int stride[1] = {(int)piece_step}, count[2] = {(int)message_bytes, pieces};
    switch (verb) {
    case PUT:
        ARMCI_PutS(send_buffer, stride, remote, stride, count, 1, peer);
        break;
    case GET:
        ARMCI_GetS(remote, stride, receive_buffer, stride, count, 1, peer);
        break;
    case ACC:
        ARMCI_AccS(ARMCI_ACC_DBL, &one, send_buffer, stride, remote, stride, count, 1, peer);
    }
}

/* The clock runs from the first operation to the end of the fence. */
static void transfer(long iterations, void (*operate)(void))
{
    double start = now(), counted = 0;
    for (long i = 0; i < iterations; i++, turn += TURN_STEP) {
        if (rank == near_rank) {
            fill(send_buffer);
            hear();
            double begun = now();
            operate();
            if (verb != GET)
                ARMCI_Fence(peer);
            counted += now() - begun;
            tell();
            if (verb == GET)
                check_all(receive_buffer);
        } else {
            if (verb == GET)
                fill(memory);
            else if (verb == ACC)
                memset(memory, 0, (size_t)pieces * piece_step);
            tell();
            hear();
            if (verb != GET)
                check_all(memory);
        }
    }
    not_counted_s += now() - start - counted;
}

static void stream(long iterations)
{
    transfer(iterations, operate_stream);
}

static void rows(long iterations)
{
    transfer(iterations, operate_rows);
}

/* --- what can be asked for --- */

enum unit { US, M_S, GB_S };

static const struct kind {
    const char *name;
    void (*body)(long);
    enum verb verb;
    enum unit unit;
} kinds[] = {
    {"put", put, PUT, US},
    {"put_fence", put_fence, PUT, US},
    {"get", get, GET, US},
    {"acc_fence", acc_fence, ACC, US},
    {"rmw", rmw, ACC, M_S},
    {"put_bandwidth", stream, PUT, GB_S},
    {"get_bandwidth", stream, GET, GB_S},
    {"acc_bandwidth", stream, ACC, GB_S},
    {"put_strided", rows, PUT, GB_S},
    {"get_strided", rows, GET, GB_S},
    {"acc_strided", rows, ACC, GB_S}};

static void run(const struct kind *kind, const char *key, size_t bytes)
{
    void *all[2];
    message_bytes = bytes;
    verb = kind->verb;
    pieces = kind->body == rows ? ROWS : STREAM_COUNT;
    piece_step = kind->body == rows ? STRIDE * bytes : bytes;
    size_t needed = (size_t)pieces * piece_step;
    if (needed < (size_t)PLACES * TOUCH_FREE_MAX)
        needed = (size_t)PLACES * TOUCH_FREE_MAX;
    if (needed > WINDOW_BYTES_MAX || bytes % sizeof(double) != 0 || bytes == 0)
        must(1, key);
    must(ARMCI_Malloc(all, (armci_size_t)needed), "ARMCI_Malloc");
    memory = all[rank];
    remote = all[peer];
    memset(memory, 0, needed);
    ARMCI_Barrier();
    double seconds = measure_pair(kind->body);
    ARMCI_Barrier();
    must(ARMCI_Free(memory), "ARMCI_Free");
    double bytes_each = (double)message_bytes * pieces;
    report(key, kind->unit == US ? 1e6 * seconds : kind->unit == M_S ? 1e-6 / seconds : 1e-9 * bytes_each / seconds);
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
    fprintf(stderr, "armci: '%s' cannot be measured\n", key);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return NULL;
}

int main(int argc, char **argv)
{
    begin(early_rank());
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ARMCI_Init();
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        if (rank == 0)
            print_version();
    } else if (argc < 2 || size != 2) {
        fprintf(stderr, "usage: armci version | armci [quick] KEY... (on 2 ranks)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    } else {
        make_buffers();
        peer = 1 - rank;
    }
    for (int i = 1; i < argc && send_buffer; i++) {
        size_t bytes = 0;
        if (strcmp(argv[i], "quick") == 0) {
            chunk_s = CHUNK_QUICK_S;
            continue;
        }
        const struct kind *kind = find(argv[i], &bytes);
        run(kind, argv[i], bytes);
    }
    ARMCI_Finalize();
    return MPI_Finalize();
}
