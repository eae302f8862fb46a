/* Two who share the locks of two targets, or of one target in two windows, while two others wait to have one each alone: who has
 * the one lock and asks for the other must get it, or each of the four waits for the next.
 *
 *   win_cross   wants 6 ranks; prints "win_cross: ok"
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { ONE, TWO, FIRST, SECOND, FOR_TWO, FOR_ONE, RANKS };

static MPI_Win win, other;

static int seen(int target, MPI_Win win) {
    int value = -1;
    MPI_Get(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win);
    MPI_Win_flush(target, win);
    return value;
}

/* Both who wait to have a lock alone are about to ask for it; that they have is likely after a while, and nothing hangs where it
 * is not so. */
static void await_askers(void) {
    char token;
    MPI_Recv(&token, 1, MPI_CHAR, FOR_TWO, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&token, 1, MPI_CHAR, FOR_ONE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
}

static int share(int near, int far, int all) {
    if (all) {
        MPI_Win_lock_all(0, win);
    } else {
        MPI_Win_lock(MPI_LOCK_SHARED, near, 0, win);
        MPI_Win_lock(MPI_LOCK_SHARED, far, 0, win);
    }
    int wrong = seen(near, win) != near;
    MPI_Barrier(MPI_COMM_WORLD);
    await_askers();
    wrong += seen(far, win) != far;
    if (all) {
        MPI_Win_unlock_all(win);
    } else {
        MPI_Win_unlock(near, win);
        MPI_Win_unlock(far, win);
    }
    return wrong;
}

static int share_windows(MPI_Win first, MPI_Win second) {
    MPI_Win_lock(MPI_LOCK_SHARED, ONE, 0, first);
    int wrong = seen(ONE, first) != ONE;
    MPI_Barrier(MPI_COMM_WORLD);
    await_askers();
    MPI_Win_lock(MPI_LOCK_SHARED, ONE, 0, second);
    wrong += seen(ONE, second) != ONE;
    MPI_Win_unlock(ONE, first);
    MPI_Win_unlock(ONE, second);
    return wrong;
}

static int alone(int target, MPI_Win win) {
    MPI_Barrier(MPI_COMM_WORLD);
    char token = 0;
    MPI_Send(&token, 1, MPI_CHAR, FIRST, 1, MPI_COMM_WORLD);
    MPI_Send(&token, 1, MPI_CHAR, SECOND, 1, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    int wrong = seen(target, win) != target;
    MPI_Win_unlock(target, win);
    return wrong;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS) {
        fprintf(stderr, "win_cross needs %d ranks\n", RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int *mine, *mine_too;
    MPI_Win_allocate(sizeof *mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    MPI_Win_allocate(sizeof *mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &mine_too, &other);
    *mine = *mine_too = rank;
    MPI_Barrier(MPI_COMM_WORLD);
    int wrong = 0;
    for (int round = 0; round < 6; round++) {
        int windows = round % 3 == 2;
        switch (rank) {
            case FIRST: wrong += windows ? share_windows(win, other) : share(ONE, TWO, round % 3); break;
            case SECOND: wrong += windows ? share_windows(other, win) : share(TWO, ONE, round % 3); break;
            case FOR_TWO: wrong += windows ? alone(ONE, other) : alone(TWO, win); break;
            case FOR_ONE: wrong += alone(ONE, win); break;
            default: MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    int all;
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && all == 0) printf("win_cross: ok\n");
    MPI_Win_free(&win);
    MPI_Win_free(&other);
    MPI_Finalize();
    return wrong != 0;
}
