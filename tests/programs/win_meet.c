/* Windows of two jobs: those that this one has spawned, and its own processes; each job may have data servers, which serve
   their own job's ranks only. Everybody works on everybody's memory, in every way. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 3000 };
static int me, size;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "win_meet: rank %d, line %d: %s\n", me, __LINE__, #condition);                             \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                                              \
        }                                                                                                              \
    } while (0)

static int number(int from, int to, int k) { return from * 1000000 + to * 10000 + k; }

/* What everybody has put into this process's memory is there. */
static void arrived(const int *memory) {
    for (int from = 0; from < size; from++)
        for (int k = 0; k < EACH; k += 7)
            CHECK(memory[from * EACH + k] == number(from, me, k));
}

static void fences(MPI_Win win, int *memory) {
    int *mine = malloc(size * EACH * sizeof *mine);
    for (int to = 0; to < size; to++)
        for (int k = 0; k < EACH; k++)
            mine[to * EACH + k] = number(me, to, k);
    MPI_Win_fence(0, win);
    for (int to = 0; to < size; to++)
        MPI_Put(mine + to * EACH, EACH, MPI_INT, to, me * EACH, EACH, MPI_INT, win);
    MPI_Win_fence(0, win);
    arrived(memory);
    MPI_Win_fence(0, win);
    memset(mine, 0, size * EACH * sizeof *mine);
    for (int to = 0; to < size; to++)
        MPI_Get(mine + to * EACH, EACH, MPI_INT, to, me * EACH, EACH, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int to = 0; to < size; to++)
        for (int k = 0; k < EACH; k += 7)
            CHECK(mine[to * EACH + k] == number(me, to, k));
    free(mine);
}

/* A counter and sums under shared locks; then a word that is read and written under exclusive ones. */
static void locks(MPI_Win win, int *memory) {
    int one = 1, old = -1, last = -1, ones[100];
    for (int k = 0; k < 100; k++)
        ones[k] = 1;
    MPI_Win_lock_all(0, win);
    for (int k = 0; k < 50; k++) {
        MPI_Fetch_and_op(&one, &old, MPI_INT, size - 1, 0, MPI_SUM, win);
        MPI_Win_flush(size - 1, win);
        CHECK(old > last && old < 50 * size);
        last = old;
        int to = (me + k) % size;
        MPI_Accumulate(ones, 100, MPI_INT, to, 100, 100, MPI_INT, MPI_SUM, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_fence(0, win);
    int expected = 0;
    for (int from = 0; from < size; from++)
        for (int k = 0; k < 50; k++)
            expected += (from + k) % size == me;
    for (int k = 100; k < 200; k++)
        CHECK(memory[k] == expected);
    CHECK(me != size - 1 || memory[0] == 50 * size);
    MPI_Win_fence(0, win);
    for (int k = 0; k < 10; k++) {
        int to = (me + k) % size;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Get(&old, 1, MPI_INT, to, 300, 1, MPI_INT, win);
        MPI_Win_flush(to, win);
        old++;
        MPI_Put(&old, 1, MPI_INT, to, 300, 1, MPI_INT, win);
        MPI_Win_unlock(to, win);
    }
    MPI_Win_fence(0, win);
    expected = 0;
    for (int from = 0; from < size; from++)
        for (int k = 0; k < 10; k++)
            expected += (from + k) % size == me;
    CHECK(memory[300] == expected);
}

/* Each exposes its memory to the next, which is of the other job for two of them. */
static void posts(MPI_Comm comm, MPI_Win win, int *memory) {
    int right = (me + 1) % size, left = (me + size - 1) % size, word = number(me, right, 5);
    MPI_Group all, to, from;
    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, 1, &right, &to);
    MPI_Group_incl(all, 1, &left, &from);
    for (int round = 0; round < 10; round++) {
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        word++;
        MPI_Put(&word, 1, MPI_INT, right, 400 + round, 1, MPI_INT, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        CHECK(memory[400 + round] == number(left, me, 6 + round));
    }
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
}

static void work(MPI_Comm comm, int is_allocated) {
    int *memory;
    MPI_Win win;
    MPI_Aint bytes = size * EACH * sizeof *memory;
    if (is_allocated)
        MPI_Win_allocate(bytes, sizeof *memory, MPI_INFO_NULL, comm, &memory, &win);
    else {
        memory = malloc(bytes);
        MPI_Win_create(memory, bytes, sizeof *memory, MPI_INFO_NULL, comm, &win);
    }
    fences(win, memory);
    memset(memory, 0, bytes);
    MPI_Win_fence(0, win);
    locks(win, memory);
    MPI_Win_fence(0, win);
    posts(comm, win, memory);
    MPI_Win_free(&win);
    if (!is_allocated)
        free(memory);
}

int main(int argc, char **argv) {
    int ranks, high;
    MPI_Comm parents, others, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parents);
    high = parents != MPI_COMM_NULL;
    others = parents;
    if (!high)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(others, high, &all);
    MPI_Comm_rank(all, &me);
    MPI_Comm_size(all, &size);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(size > ranks);
    work(all, 1);
    work(all, 0);
    if (me == 0)
        printf("win_meet: ok (%d ranks of two jobs)\n", size);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
    MPI_Finalize();
    return 0;
}
