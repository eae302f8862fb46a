/* Processes that take several locks in one order, which must not end in a circle of waits, wherever their targets are.
 *
 *   win_order   wants 3 ranks or more; prints "win_order: ok"
 */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 200 };

static int rank, size;
static MPI_Win one, two;

static long one_more(int target, MPI_Win win) {
    long seen = -1;
    MPI_Get(&seen, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
    MPI_Win_flush(target, win);
    return seen + 1;
}

/* Adds one to the cells of two ranks, both of which are locked alone; first 0, then 1. */
static void of_two_ranks(void) {
    long cells[2] = {-1, -1};
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, one);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, one);
    for (int target = 0; target < 2; target++) MPI_Get(&cells[target], 1, MPI_LONG, target, 0, 1, MPI_LONG, one);
    MPI_Win_flush_all(one);
    for (int target = 0; target < 2; target++) {
        cells[target]++;
        MPI_Put(&cells[target], 1, MPI_LONG, target, 0, 1, MPI_LONG, one);
    }
    MPI_Win_unlock(1, one);
    MPI_Win_unlock(0, one);
}

/* The same with one lock in each of two windows; what was locked last is used first. */
static void of_two_windows(void) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, one);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, two);
    long second = one_more(1, two), first = one_more(0, one);
    MPI_Put(&second, 1, MPI_LONG, 1, 0, 1, MPI_LONG, two);
    MPI_Put(&first, 1, MPI_LONG, 0, 0, 1, MPI_LONG, one);
    MPI_Win_unlock(0, one);
    MPI_Win_unlock(1, two);
}

/* One has the locks of 0 and 1 alone, one after the other; others share those of all. */
static void beside_all(void) {
    long seen = -1;
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, two);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, two);
        MPI_Win_unlock(1, two);
        MPI_Win_unlock(0, two);
    } else {
        MPI_Win_lock_all(0, two);
        MPI_Get(&seen, 1, MPI_LONG, 0, 0, 1, MPI_LONG, two);
        MPI_Win_unlock_all(two);
    }
}

static long cell_of(int target, MPI_Win win) {
    long value = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Get(&value, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
    MPI_Win_unlock(target, win);
    return value;
}

static int is(const char *what, long found, long expected) {
    if (found != expected) fprintf(stderr, "win_order: rank %d: %s is %ld, not %ld\n", rank, what, found, expected);
    return found == expected;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long *first, *second;
    MPI_Win_allocate(sizeof *first, sizeof *first, MPI_INFO_NULL, MPI_COMM_WORLD, &first, &one);
    MPI_Win_allocate(sizeof *second, sizeof *second, MPI_INFO_NULL, MPI_COMM_WORLD, &second, &two);
    *first = *second = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) of_two_ranks();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) of_two_windows();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) beside_all();
    MPI_Barrier(MPI_COMM_WORLD);
    int right = is("the cell of rank 0", cell_of(0, one), 2L * ROUNDS * size) &
                is("the cell of rank 1", cell_of(1, one), (long)ROUNDS * size) &
                is("the other cell of rank 1", cell_of(1, two), (long)ROUNDS * size);
    int all;
    MPI_Reduce(&right, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    if (rank == 0 && all) printf("win_order: ok\n");
    MPI_Win_free(&one);
    MPI_Win_free(&two);
    MPI_Finalize();
    return !right;
}
