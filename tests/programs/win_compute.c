/* Rank 1 puts into the memory of rank 0, once while that computes without calling MPI and once while it waits in MPI.
 *
 *   win_compute [SECONDS]     rank 1 prints what 1,000 times a put of 8 bytes and a flush took, in both cases
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PUTS = 1000 };

static int rank, size;
static double took[PUTS];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static volatile double computed; /* so that the loop has a result */

static void compute(double seconds)
{
    double end = now() + seconds, x = 1;
    while (now() < end)
        for (int i = 0; i < 10000; i++)
            x = x * 0.999999 + 1e-6;
    computed = x;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void put(const char *target, double phase, MPI_Win win)
{
    double start = now(), last = start, total;
    for (int i = 0; i < PUTS; i++) {
        double value = phase + i;
        MPI_Put(&value, 1, MPI_DOUBLE, 0, i, 1, MPI_DOUBLE, win);
        MPI_Win_flush(0, win);
        took[i] = now() - last;
        last += took[i];
    }
    total = last - start;
    qsort(took, PUTS, sizeof *took, by_value);
    printf("win_compute: target %s: median %.2f us, total %.6f s\n", target, 1e6 * took[PUTS / 2], total);
    fflush(stdout);
}

static void check(const double *cells, double phase)
{
    for (int i = 0; i < PUTS; i++) {
        if (cells[i] == phase + i)
            continue;
        fprintf(stderr, "win_compute: rank %d: cell %d: expected %g, found %g\n", rank, i, phase + i, cells[i]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    double *cells, seconds = argc > 1 ? atof(argv[1]) : 1;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "win_compute needs 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Aint bytes = rank == 0 ? PUTS * sizeof(double) : 0;
    MPI_Win_allocate(bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    MPI_Win_lock_all(0, win);
    for (int waits = 0; waits < 2; waits++) {
        double phase = 10000 * (waits + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0 && !waits)
            compute(seconds);
        if (rank == 1)
            put(waits ? "waits" : "computes", phase, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(win);
        if (rank == 0)
            check(cells, phase);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
