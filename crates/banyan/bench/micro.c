/* One microbenchmark for every MPI library: the same source, the same binding to cores, the same clock.
 *
 *   micro version          what the library calls itself
 *   micro p2p              latency, bandwidth and message rate between ranks 0 and 1 (needs 2 ranks)
 *   micro allreduce        allreduce of 8 bytes over all ranks
 *   micro init             every rank: time from main to the end of the first barrier
 *   micro memory           every rank: its proportional set size after init, a barrier and a ring
 *
 * A result is one line "key value" on standard output. A measurement is calibrated to take about 0.2 s
 * (at least 3 iterations), because libraries differ by a factor of 1,000 when ranks share cores.
 * Compiled with -DBARE it is the program without MPI that memory is compared with.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef BARE

int main(void)
{
    char line[16];
    puts("ready");
    fflush(stdout);
    return read(0, line, sizeof line) < 0; /* stays until the runner has looked at it */
}

#else

#include <mpi.h>

enum { WINDOW = 64, CHUNKS = 5, CHUNKS_SLOW = 3, LARGE = 1 << 20 };

static const double CHUNK_S = 0.04;      /* CHUNKS of them are one measurement */
static const double CALIBRATION_S = 0.01; /* long enough to trust the clock */

static int rank, size;
static char *send_buffer, *receive_buffer; /* LARGE bytes; WINDOW * LARGE bytes */
static size_t message_bytes;

static double now(void)
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

/* Rank i runs on the i-th core that this job may use, modulo their number. */
static void bind_to_core(void)
{
    cpu_set_t allowed, mine;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    int wanted = early_rank() % CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || wanted-- > 0)
            continue;
        CPU_ZERO(&mine);
        CPU_SET(cpu, &mine);
        sched_setaffinity(0, sizeof mine, &mine);
        return;
    }
}

static void result(const char *key, double value)
{
    char line[96];
    int length = snprintf(line, sizeof line, "%s %.9g\n", key, value);
    if (write(1, line, (size_t)length) != length) /* one write: lines of several ranks must not mix */
        _exit(3);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double timed(void (*body)(long), long iterations)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    body(iterations);
    return now() - start;
}

/* Seconds per iteration, as rank 0 sees it: the median of CHUNKS chunks. */
static double measure(void (*body)(long))
{
    double chunk[CHUNKS];
    long plan[2] = {1, 0}; /* iterations; chunks, once calibrated */
    body(1);               /* connects, and warms caches */
    while (plan[1] == 0) {
        double per = timed(body, plan[0]) / (double)plan[0];
        if (per * (double)plan[0] < CALIBRATION_S) {
            plan[0] *= 4;
        } else {
            plan[0] = per < CHUNK_S ? (long)(CHUNK_S / per) : 1;
            plan[1] = per < CHUNK_S ? CHUNKS : CHUNKS_SLOW;
        }
        MPI_Bcast(plan, 2, MPI_LONG, 0, MPI_COMM_WORLD); /* rank 0's view counts */
    }
    for (long i = 0; i < plan[1]; i++)
        chunk[i] = timed(body, plan[0]) / (double)plan[0];
    qsort(chunk, (size_t)plan[1], sizeof *chunk, by_value);
    return chunk[plan[1] / 2];
}

static void ping_pong(long iterations)
{
    int count = (int)message_bytes;
    for (long i = 0; i < iterations; i++) {
        if (rank == 0) {
            MPI_Send(send_buffer, count, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(receive_buffer, count, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(receive_buffer, count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(send_buffer, count, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
}

/* WINDOW messages one way, then one small answer. Receive buffers are distinct, as MPI demands. */
static void windows(long iterations)
{
    MPI_Request request[WINDOW];
    int count = (int)message_bytes;
    char answer = 0;
    for (long i = 0; i < iterations; i++) {
        if (rank == 0) {
            for (int w = 0; w < WINDOW; w++)
                MPI_Isend(send_buffer, count, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request[w]);
            MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
            MPI_Recv(&answer, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (int w = 0; w < WINDOW; w++)
                MPI_Irecv(receive_buffer + (size_t)w * message_bytes, count, MPI_BYTE, 0, 2, MPI_COMM_WORLD,
                          &request[w]);
            MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
            MPI_Send(&answer, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        }
    }
}

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

static void report(const char *key, double value)
{
    if (rank == 0)
        result(key, value);
}

static void run_p2p(void)
{
    static const struct { const char *key; size_t bytes; } sizes[] = {
        {"latency_8", 8}, {"latency_4096", 4096}, {"latency_65536", 65536}, {"latency_1048576", LARGE}};
    send_buffer = malloc(LARGE);
    receive_buffer = malloc((size_t)WINDOW * LARGE);
    memset(send_buffer, 1, LARGE);
    memset(receive_buffer, 2, (size_t)WINDOW * LARGE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        message_bytes = sizes[i].bytes;
        report(sizes[i].key, 0.5e6 * measure(ping_pong)); /* us, one way */
    }
    message_bytes = LARGE;
    report("bandwidth", 1e-9 * WINDOW * LARGE / measure(windows)); /* GB/s */
    message_bytes = 8;
    report("rate", 1e-6 * WINDOW / measure(windows)); /* million messages per second */
}

static void run_memory(void)
{
    static char text[4096];
    char out = 1, in = 0;
    long pss = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv(&out, 1, MPI_BYTE, (rank + 1) % size, 4, &in, 1, MPI_BYTE, (rank + size - 1) % size, 4,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    char *line = length > 0 ? strstr(text, "\nPss:") : NULL;
    if (line)
        pss = atol(line + 5);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody leaves before everybody has looked */
    result("pss_kib", (double)pss);
}

static void run_version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    printf("version %.*s\n", (int)strcspn(text, "\n"), text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *limit = getenv("BENCH_LIMIT_S");
    alarm(limit ? (unsigned)atoi(limit) : 120); /* no orphan outlives a launcher that was killed */
    bind_to_core();
    double start = now();
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
    } else if (strcmp(what, "allreduce") == 0) {
        report("allreduce", 1e6 * measure(allreduce)); /* us */
    } else if (strcmp(what, "memory") == 0) {
        run_memory();
    } else if (strcmp(what, "version") == 0) {
        if (rank == 0)
            run_version();
    } else {
        fprintf(stderr, "usage: micro version | p2p | allreduce | init | memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}

#endif
