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
    report("rate", 1e-6 / per_message_s(8));                  /* million messages per second */
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

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    begin(early_rank());
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
        report("allreduce", 1e6 * measure_all(allreduce)); /* us */
    } else if (strcmp(what, "memory") == 0) {
        run_memory();
    } else if (strcmp(what, "version") == 0) {
        if (rank == 0)
            print_version();
    } else {
        fprintf(stderr, "usage: micro version | p2p | allreduce | init | memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}

#endif
