/* What the microbenchmarks share: binding to cores, the clock, calibrated measurements, and messages whose bytes are
 * new each time.
 *
 * Every message is rewritten before it is sent and read after it has arrived, one word in each cache line: a program
 * that sends the same clean bytes again and again finds them in the receiver's cache, and flatters some libraries by a
 * factor of three. The words are checked too. What that takes is not counted where it would show (see ping_pong).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW_MAX = 64, CHUNKS = 5, CHUNKS_SLOW = 3, LINE = 64 };
enum { WINDOW_BYTES_MAX = 64 << 20 }; /* a window of very large messages has fewer of them */
enum { TOUCH_FREE_MAX = 1024 };       /* up to here, reading the clock would cost more than touching the bytes */

static double chunk_s = 0.04;             /* CHUNKS of them are one measurement */
static const double CALIBRATION_S = 0.01; /* long enough to trust the clock */

static int rank, size;
static int cores = 1; /* that the ranks of the job share */
static char *send_buffer, *receive_buffer; /* WINDOW_BYTES_MAX each */
static size_t message_bytes;                 /* from a message's first byte to its last */
static size_t message_step = LINE;           /* from one word that is written and read to the next */
static MPI_Datatype message_type = MPI_BYTE; /* of the ping-pong; one of any other type is a whole message */
static int near_rank, far_rank; /* the two that exchange messages; the near one keeps the time */
static uint64_t turn;           /* counts messages; what their words say */
static size_t window_bytes_max = WINDOW_BYTES_MAX;
static double not_counted_s;    /* time in a body that is no part of the measurement */

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The rank before MPI_Init, from whichever launcher started us. */
static int early_rank(void)
{
    static const char *names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MPI_LOCALRANKID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text)
            return atoi(text);
    }
    return 0;
}

/* Runs this thread on the i-th core that this job may use, modulo their number. Those are asked for once: a new thread
 * would be told only the core of the thread that made it. */
static void bind_to_core(int i)
{
    static cpu_set_t allowed;
    cpu_set_t mine;
    if (CPU_COUNT(&allowed) == 0 && sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    cores = CPU_COUNT(&allowed);
    int wanted = i % cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || wanted-- > 0)
            continue;
        CPU_ZERO(&mine);
        CPU_SET(cpu, &mine);
        sched_setaffinity(0, sizeof mine, &mine);
        return;
    }
}

/* What every benchmark does first: a core for each, and no orphan outlives a launcher that was killed. */
static void begin(int core)
{
    const char *limit = getenv("BENCH_LIMIT_S");
    alarm(limit ? (unsigned)atoi(limit) : 120);
    bind_to_core(core);
}

static void result(const char *key, double value)
{
    char line[96];
    int length = snprintf(line, sizeof line, "%s %.9g\n", key, value);
    if (write(1, line, (size_t)length) != length) /* one write: lines of several ranks must not mix */
        _exit(3);
}

static void report(const char *key, double value)
{
    if (rank == 0)
        result(key, value);
}

static void make_buffers(void)
{
    near_rank = 0;
    far_rank = 1;
    send_buffer = aligned_alloc(4096, WINDOW_BYTES_MAX);
    receive_buffer = aligned_alloc(4096, WINDOW_BYTES_MAX);
    if (!send_buffer || !receive_buffer)
        MPI_Abort(MPI_COMM_WORLD, 4);
}

static inline void rewrite(char *bytes, uint64_t word)
{
    for (size_t at = 0; at + sizeof word <= message_bytes; at += message_step)
        memcpy(bytes + at, &word, sizeof word);
}

static inline void read_back(const char *bytes, uint64_t word)
{
    uint64_t wrong = 0, seen;
    for (size_t at = 0; at + sizeof word <= message_bytes; at += message_step) {
        memcpy(&seen, bytes + at, sizeof seen);
        wrong |= seen ^ word;
    }
    if (wrong) {
        fprintf(stderr, "rank %d: a message of %zu bytes is not what was sent\n", rank, message_bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static inline int message_count(void)
{
    return message_type == MPI_BYTE ? (int)message_bytes : 1;
}

static inline void send_to(int peer)
{
    MPI_Send(send_buffer, message_count(), message_type, peer, 1, MPI_COMM_WORLD);
}

static inline void receive_from(int peer)
{
    MPI_Recv(receive_buffer, message_count(), message_type, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ping_pong_small(long iterations)
{
    for (long i = 0; i < iterations; i++, turn++) {
        if (rank == near_rank) {
            rewrite(send_buffer, turn);
            send_to(far_rank);
            receive_from(far_rank);
            read_back(receive_buffer, turn);
        } else {
            receive_from(near_rank);
            read_back(receive_buffer, turn);
            rewrite(send_buffer, turn);
            send_to(near_rank);
        }
    }
}

/* Nothing overlaps here, so what both sides take for their bytes can be subtracted. */
static void ping_pong_large(long iterations)
{
    double touched = 0, touched_far = 0, start;
    for (long i = 0; i < iterations; i++, turn++) {
        if (rank == near_rank) {
            start = now();
            rewrite(send_buffer, turn);
            touched += now() - start;
            send_to(far_rank);
            receive_from(far_rank);
            start = now();
            read_back(receive_buffer, turn);
            touched += now() - start;
        } else {
            receive_from(near_rank);
            start = now();
            read_back(receive_buffer, turn);
            rewrite(send_buffer, turn);
            touched += now() - start;
            send_to(near_rank);
        }
    }
    if (rank == near_rank) {
        start = now();
        MPI_Recv(&touched_far, 1, MPI_DOUBLE, far_rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        not_counted_s += touched + touched_far + now() - start;
    } else {
        MPI_Send(&touched, 1, MPI_DOUBLE, near_rank, 4, MPI_COMM_WORLD);
    }
}

/* There and back. Ranks that do not take part return at once. */
static void ping_pong(long iterations)
{
    if (rank != near_rank && rank != far_rank)
        return;
    if (message_bytes <= TOUCH_FREE_MAX)
        ping_pong_small(iterations);
    else
        ping_pong_large(iterations);
}

static int window(void)
{
    size_t fit = window_bytes_max / message_bytes;
    return fit < WINDOW_MAX ? (int)fit : WINDOW_MAX;
}

/* A window of messages one way, then one small answer. Each message has a buffer of its own on both sides. They are
 * filled before the clock starts, when the receives have been posted, and read after it has stopped. */
static void window_near(int messages, double *counted)
{
    MPI_Request request[WINDOW_MAX];
    char answer = 0;
    for (int w = 0; w < messages; w++)
        rewrite(send_buffer + (size_t)w * message_bytes, turn + (uint64_t)w);
    MPI_Recv(&answer, 1, MPI_BYTE, far_rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double start = now();
    for (int w = 0; w < messages; w++)
        MPI_Isend(send_buffer + (size_t)w * message_bytes, (int)message_bytes, MPI_BYTE, far_rank, 2, MPI_COMM_WORLD,
                  &request[w]);
    MPI_Waitall(messages, request, MPI_STATUSES_IGNORE);
    MPI_Recv(&answer, 1, MPI_BYTE, far_rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *counted += now() - start;
}

static void window_far(int messages)
{
    MPI_Request request[WINDOW_MAX];
    char answer = 0;
    for (int w = 0; w < messages; w++)
        MPI_Irecv(receive_buffer + (size_t)w * message_bytes, (int)message_bytes, MPI_BYTE, near_rank, 2, MPI_COMM_WORLD,
                  &request[w]);
    MPI_Send(&answer, 1, MPI_BYTE, near_rank, 5, MPI_COMM_WORLD);
    MPI_Waitall(messages, request, MPI_STATUSES_IGNORE);
    MPI_Send(&answer, 1, MPI_BYTE, near_rank, 3, MPI_COMM_WORLD);
    for (int w = 0; w < messages; w++)
        read_back(receive_buffer + (size_t)w * message_bytes, turn + (uint64_t)w);
}

static void windows(long iterations)
{
    double start = now(), counted = 0;
    int messages = window();
    for (long i = 0; i < iterations; i++, turn += (uint64_t)messages) {
        if (rank == near_rank)
            window_near(messages, &counted);
        else if (rank == far_rank)
            window_far(messages);
    }
    not_counted_s += now() - start - counted;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The two of a measurement meet here; others need not be awake. */
static void meet(void)
{
    char byte = 0, other = 0;
    int peer = rank == near_rank ? far_rank : near_rank;
    MPI_Sendrecv(&byte, 1, MPI_BYTE, peer, 6, &other, 1, MPI_BYTE, peer, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Seconds that `iterations` take, and how long they took with everything. */
static double timed(void (*body)(long), long iterations, double *spent)
{
    not_counted_s = 0;
    double start = now();
    body(iterations);
    *spent = now() - start;
    return *spent - not_counted_s;
}

/* The near rank's plan is also the far rank's. */
static void agree(long plan[2])
{
    if (rank == near_rank)
        MPI_Send(plan, 2, MPI_LONG, far_rank, 7, MPI_COMM_WORLD);
    else
        MPI_Recv(plan, 2, MPI_LONG, near_rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Everybody's plan is rank 0's, and everybody begins together. */
static void agree_all(long plan[2])
{
    MPI_Bcast(plan, 2, MPI_LONG, 0, MPI_COMM_WORLD);
}
static void meet_all(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Seconds per iteration, as the rank sees it that keeps the time: the median of CHUNKS chunks. */
static double measure_with(void (*body)(long), void (*together)(void), void (*plan_of_all)(long[2]))
{
    double chunk[CHUNKS], spent;
    long plan[2] = {1, 0}; /* iterations; chunks, once calibrated */
    turn = 0;              /* the two may have measured with others before */
    body(1);               /* connects, and warms caches */
    while (plan[1] == 0) {
        together();
        timed(body, plan[0], &spent);
        double per = spent / (double)plan[0];
        if (spent < CALIBRATION_S) {
            plan[0] *= 4;
        } else {
            plan[0] = per < chunk_s ? (long)(chunk_s / per) : 1;
            plan[1] = per < chunk_s ? CHUNKS : CHUNKS_SLOW;
        }
        plan_of_all(plan);
    }
    for (long i = 0; i < plan[1]; i++) {
        together();
        chunk[i] = timed(body, plan[0], &spent) / (double)plan[0];
    }
    qsort(chunk, (size_t)plan[1], sizeof *chunk, by_value);
    return chunk[plan[1] / 2];
}

/* Between the near and the far rank only. */
static double measure_pair(void (*body)(long))
{
    return measure_with(body, meet, agree);
}

static double measure_all(void (*body)(long))
{
    return measure_with(body, meet_all, agree_all);
}

static double latency_us(size_t bytes)
{
    message_bytes = bytes;
    return 0.5e6 * measure_pair(ping_pong);
}

/* Seconds that a message of a window takes. */
static double per_message_s(size_t bytes)
{
    message_bytes = bytes;
    return measure_pair(windows) / window();
}

/* A line of /proc/self/smaps_rollup, in KiB; -1 if there is none. */
static long memory_kib(const char *what)
{
    static char text[4096];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    char *line = strstr(text, what);
    return line ? atol(line + strlen(what)) : -1;
}

static void print_version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    printf("version %.*s\n", (int)strcspn(text, "\n"), text);
    fflush(stdout);
}
