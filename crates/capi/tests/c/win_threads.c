/* MPI_THREAD_MULTIPLE and windows: two threads of each process at a time, on one window and on two, and each of them
 * waits while the other does what ends the wait somewhere else. */
#include "win.h"
#include <pthread.h>

enum { THREADS = 2 };

static int right, left, few;
static MPI_Win wins[THREADS];
static long *words[THREADS];
static long cells[THREADS];
static MPI_Group to_right, to_left;

static void both(void *(*first)(void *), void *(*second)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, first, (void *)0L) == 0);
    second((void *)1L);
    pthread_join(thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int rounds(void)
{
    return few ? 100 : 4;
}

/* Every process has a counter for all, and a word for each thread. */
static void make_windows(void)
{
    MPI_Aint bytes = (1 + THREADS * size) * (MPI_Aint)sizeof(long);
    for (int t = 0; t < THREADS; t++) {
        MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &words[t], &wins[t]);
        open_own(wins[t]);
        memset(words[t], 0, (size_t)bytes);
        close_own(wins[t]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void use(MPI_Win win, int thread)
{
    static const long one = 1;
    for (int i = 0; i < rounds(); i++) {
        int target = at_distance(i), place = 1 + THREADS * rank + thread;
        long before = -1, out = 1000 * rank + 10 * i + thread, in = -1, total = -1;
        MPI_Fetch_and_op(&one, &before, MPI_LONG, target, 0, MPI_SUM, win);
        MPI_Put(&out, 1, MPI_LONG, target, place, 1, MPI_LONG, win);
        MPI_Win_flush(target, win);
        CHECK(before >= 0);
        MPI_Get(&in, 1, MPI_LONG, target, place, 1, MPI_LONG, win);
        MPI_Fetch_and_op(NULL, &total, MPI_LONG, target, 0, MPI_NO_OP, win);
        MPI_Win_flush_local(target, win);
        SAME(in, out);
        CHECK(total > before);
    }
}

/* How often a process was the target of one thread of each. */
static long hits(void)
{
    long n = 0;
    for (int origin = 0; origin < size; origin++)
        for (int i = 0; i < rounds(); i++)
            n += (origin + i) % size == rank;
    return n;
}

static void *on_one(void *arg)
{
    use(wins[0], (int)(long)arg);
    return NULL;
}

static void *on_its_own(void *arg)
{
    int thread = (int)(long)arg;
    MPI_Win_lock_all(0, wins[thread]);
    use(wins[thread], thread);
    MPI_Win_unlock_all(wins[thread]);
    return NULL;
}

static void counted(int window, long expected)
{
    open_own(wins[window]);
    SAME(words[window][0], expected);
    close_own(wins[window]);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One thread locks the right, the other the left; two ranks have but one neighbour. */
static void *on_one_side(void *arg)
{
    int thread = (int)(long)arg, target = thread ? left : right, i;
    for (i = 0; i < rounds(); i++) {
        long out = 5000 * rank + 10 * i + thread, in = -1;
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, wins[0]);
        MPI_Put(&out, 1, MPI_LONG, target, 1 + THREADS * rank + thread, 1, MPI_LONG, wins[0]);
        MPI_Win_flush(target, wins[0]);
        MPI_Get(&in, 1, MPI_LONG, target, 1 + THREADS * rank + thread, 1, MPI_LONG, wins[0]);
        MPI_Win_unlock(target, wins[0]);
        SAME(in, out);
    }
    return NULL;
}

static void *fences(void *arg)
{
    int thread = (int)(long)arg, i;
    MPI_Win win = wins[thread];
    for (i = 0; i < (few ? 20 : 3); i++) {
        long out = 100 * i + rank;
        MPI_Win_fence(0, win);
        MPI_Put(&out, 1, MPI_LONG, right, 0, 1, MPI_LONG, win);
        MPI_Win_fence(0, win);
        SAME(words[thread][0], 100 * i + left);
    }
    return NULL;
}

/* In opposite order: a thread gives on the second window before it waits for the first; the other waits for the second
 * before it gives on the first. */
static void *gives_then_waits(void *arg)
{
    (void)arg;
    for (long i = 0; i < (few ? 50 : 4); i++) {
        long out = 1000 * i + rank;
        MPI_Win_start(to_right, 0, wins[1]);
        MPI_Put(&out, 1, MPI_LONG, right, 0, 1, MPI_LONG, wins[1]);
        MPI_Win_complete(wins[1]);
        MPI_Win_post(to_left, 0, wins[0]);
        MPI_Win_wait(wins[0]);
        SAME(cells[0], 2000 * i + left);
    }
    return NULL;
}

static void *waits_then_gives(void *arg)
{
    (void)arg;
    for (long i = 0; i < (few ? 50 : 4); i++) {
        long out = 2000 * i + rank;
        MPI_Win_post(to_left, 0, wins[1]);
        MPI_Win_wait(wins[1]);
        SAME(cells[1], 1000 * i + left);
        MPI_Win_start(to_right, 0, wins[0]);
        MPI_Put(&out, 1, MPI_LONG, right, 0, 1, MPI_LONG, wins[0]);
        MPI_Win_complete(wins[0]);
    }
    return NULL;
}

static void opposite(void)
{
    MPI_Group world;
    int t;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &right, &to_right);
    MPI_Group_incl(world, 1, &left, &to_left);
    MPI_Group_free(&world);
    for (t = 0; t < THREADS; t++)
        MPI_Win_create(&cells[t], sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &wins[t]);
    both(gives_then_waits, waits_then_gives);
    for (t = 0; t < THREADS; t++)
        MPI_Win_free(&wins[t]);
    MPI_Group_free(&to_right);
    MPI_Group_free(&to_left);
}

/* Rank 0 holds its lock until it has heard from a thread of each of some others, whose other threads wait for the
 * lock. */
static int some(void)
{
    return size < 8 ? size : 8;
}

static void *waits_for_lock(void *arg)
{
    long value = -1;
    (void)arg;
    if (rank == 0 || rank >= some())
        return NULL;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, wins[0]);
    MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, wins[0]);
    MPI_Win_flush(0, wins[0]);
    value++;
    MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, wins[0]);
    MPI_Win_unlock(0, wins[0]);
    return NULL;
}

static void *asks_for_it(void *arg)
{
    int i, x = rank;
    (void)arg;
    if (rank > 0 && rank < some())
        MPI_Send(&x, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    for (i = 1; rank == 0 && i < some(); i++)
        MPI_Recv(&x, 1, MPI_INT, i, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) {
        SAME(words[0][0], 0);
        MPI_Win_unlock(0, wins[0]);
    }
    return NULL;
}

static void held(void)
{
    open_own(wins[0]);
    words[0][0] = 0;
    if (rank > 0)
        close_own(wins[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    both(waits_for_lock, asks_for_it);
    counted(0, rank == 0 ? some() - 1 : 0);
}

/* One thread gives the lock of one target back behind a long put, while the other has everything flushed. (Only at one
 * rank: what is flushed may wait for a lock, and whoever has that must not flush as well.) */
enum { LONG = 1 << 16 };
static MPI_Win long_window;

static void *puts_and_unlocks(void *arg)
{
    static char bytes[LONG];
    (void)arg;
    for (int i = 0; rank == 0 && i < rounds(); i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, long_window);
        MPI_Put(bytes, LONG, MPI_CHAR, right, 0, LONG, MPI_CHAR, long_window);
        MPI_Win_unlock(right, long_window);
    }
    return NULL;
}

static void *flushes_all(void *arg)
{
    char byte = 1;
    (void)arg;
    for (int i = 0; rank == 0 && i < rounds(); i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, left, 0, long_window);
        MPI_Put(&byte, 1, MPI_CHAR, left, LONG + rank, 1, MPI_CHAR, long_window);
        for (int k = 0; k < 4; k++)
            MPI_Win_flush_all(long_window);
        MPI_Win_unlock(left, long_window);
    }
    return NULL;
}

/* One thread flushes while the other begins operations that nothing else has leave. */
static void *puts_a_little(void *arg)
{
    static char bytes[LONG];
    (void)arg;
    for (int i = 0; i < rounds(); i++)
        MPI_Put(bytes, i % 5 ? 8 : LONG, MPI_CHAR, right, 0, i % 5 ? 8 : LONG, MPI_CHAR, long_window);
    return NULL;
}

static void *flushes_one(void *arg)
{
    (void)arg;
    for (int i = 0; i < rounds(); i++)
        MPI_Win_flush(right, long_window);
    return NULL;
}

static void flushed_meanwhile(void)
{
    char *bytes;
    MPI_Win_allocate(LONG + size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &bytes, &long_window);
    if (size > 2)
        both(puts_and_unlocks, flushes_all);
    MPI_Win_lock_all(0, long_window);
    for (int i = 0; i < (few ? 20 : 2); i++)
        both(puts_a_little, flushes_one);
    MPI_Win_unlock_all(long_window);
    MPI_Win_free(&long_window);
}

int main(int argc, char **argv)
{
    int provided, t;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    right = at_distance(1);
    left = at_distance(-1);
    few = size <= 8;
    make_windows();
    MPI_Win_lock_all(0, wins[0]);
    both(on_one, on_one);
    MPI_Win_unlock_all(wins[0]);
    counted(0, 2 * hits());
    both(on_its_own, on_its_own);
    counted(0, 3 * hits());
    counted(1, hits());
    if (size > 2)
        both(on_one_side, on_one_side);
    held();
    both(fences, fences);
    for (t = 0; t < THREADS; t++)
        MPI_Win_free(&wins[t]);
    opposite();
    flushed_meanwhile();
    return finish("win_threads");
}
