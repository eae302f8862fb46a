/* The targets of one-sided operations do not call MPI until all of these have been done: each looks at its own memory, and the
 * data server of its node (--data-server) has to do what others ask for. Without servers this never ends, but inside a node.
 *
 *   win_served [ROUNDS]   each rank in turn is the target; prints "win_served: ok"
 *   win_served hold FILE  rank 0 waits outside of MPI until FILE is there, the others ask for its memory until then
 */
#include <mpi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CELLS = 64, LARGE = 1 << 18 };

/* What the window of each rank has. */
struct room {
    _Atomic long done;            /* ranks that have done everything */
    _Atomic long sum;             /* of what they have added */
    _Atomic long locked;          /* counted under the exclusive lock, by a get and a put */
    _Atomic long tickets;         /* given out by compare and swap */
    double floats[CELLS];         /* added to by accumulates: no instruction of the processor does that */
    long rows[CELLS][CELLS];      /* a column for each rank */
    unsigned char large[LARGE];   /* of the last rank */
};

static int rank, size, rounds = 50;
static struct room *room;
static MPI_Win win;

#define AT(field) ((MPI_Aint)offsetof(struct room, field))
#define CHECK(what, found, expected) check(__LINE__, what, (double)(found), (double)(expected))

static void check(int line, const char *what, double found, double expected)
{
    if (found == expected)
        return;
    fprintf(stderr, "win_served: rank %d, line %d: %s is %g, not %g\n", rank, line, what, found, expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What a target has sent need not have left when the call returns that sent it, and it is about to leave MPI. So it stays
 * until it has heard of everybody. */
static void settle(int target)
{
    if (rank != target)
        MPI_Send(NULL, 0, MPI_BYTE, target, 0, MPI_COMM_WORLD);
    for (int other = 0; rank == target && other < size; other++)
        if (other != rank)
            MPI_Recv(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Under a lock alone: nobody else may come between the get and the put. */
static void count_locked(int target)
{
    long now;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    MPI_Get(&now, 1, MPI_LONG, target, AT(locked), 1, MPI_LONG, win);
    MPI_Win_flush(target, win);
    now++;
    MPI_Put(&now, 1, MPI_LONG, target, AT(locked), 1, MPI_LONG, win);
    MPI_Win_unlock(target, win);
}

static void take_ticket(int target)
{
    long seen = -1, expected = 0, next = 1;
    for (;;) {
        MPI_Compare_and_swap(&next, &expected, &seen, MPI_LONG, target, AT(tickets), win);
        MPI_Win_flush(target, win);
        if (seen == expected)
            return;
        expected = seen, next = seen + 1;
    }
}

/* What a rank does to a target that is not in MPI. */
static void access_target(int target)
{
    static unsigned char large[LARGE], back[LARGE];
    long one = 1, before, column[CELLS], again[CELLS];
    double halves[CELLS];
    MPI_Datatype place;
    for (int i = 0; i < rounds; i++)
        count_locked(target);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < CELLS; i++)
        halves[i] = 0.5, column[i] = 1000 * rank + i;
    MPI_Type_vector(CELLS, 1, CELLS, MPI_LONG, &place);
    MPI_Type_commit(&place);
    for (int i = 0; i < rounds; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, target, AT(sum), MPI_SUM, win);
        MPI_Accumulate(halves, CELLS, MPI_DOUBLE, target, AT(floats), CELLS, MPI_DOUBLE, MPI_SUM, win);
        take_ticket(target);
        MPI_Win_flush(target, win);
    }
    MPI_Put(column, CELLS, MPI_LONG, target, AT(rows) + (MPI_Aint)(rank * sizeof(long)), 1, place, win);
    MPI_Win_flush(target, win);
    MPI_Get(again, CELLS, MPI_LONG, target, AT(rows) + (MPI_Aint)(rank * sizeof(long)), 1, place, win);
    MPI_Win_flush(target, win);
    CHECK("a column that was put", memcmp(again, column, sizeof column), 0);
    if (rank == (target + 1) % size) {
        for (int i = 0; i < LARGE; i++)
            large[i] = (unsigned char)(i * 7 + target);
        MPI_Put(large, LARGE, MPI_BYTE, target, AT(large), LARGE, MPI_BYTE, win);
        MPI_Win_flush(target, win);
        MPI_Get(back, LARGE, MPI_BYTE, target, AT(large), LARGE, MPI_BYTE, win);
        MPI_Win_flush(target, win);
        CHECK("what was put and got", memcmp(back, large, LARGE), 0);
    }
    MPI_Type_free(&place);
    MPI_Accumulate(&one, 1, MPI_LONG, target, AT(done), 1, MPI_LONG, MPI_SUM, win);
    MPI_Win_unlock_all(win);
}

/* The target looks at its memory, and calls nothing. */
static void be_target(long others)
{
    while (atomic_load(&room->done) != others)
        usleep(50); /* more ranks than cores */
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK("the sum", room->sum, others * rounds);
    CHECK("the count under the lock", room->locked, others * rounds);
    CHECK("the number of tickets", room->tickets, others * rounds);
    for (int i = 0; i < CELLS; i++)
        CHECK("a sum of floats", room->floats[i], 0.5 * (double)others * rounds);
    for (int other = 0; other < size; other++)
        for (int i = 0; other != rank && i < CELLS; i++)
            CHECK("a cell of a column", room->rows[i][other], 1000 * other + i);
    MPI_Win_unlock(rank, win);
}

static void passive(int target)
{
    if (rank == target)
        memset(room, 0, sizeof *room);
    MPI_Barrier(MPI_COMM_WORLD);
    settle(target);
    if (rank == target)
        be_target(size - 1);
    else
        access_target(target);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The target posts, and waits in MPI only when everything is in its memory: what completes an access has it done. */
static void active(int target)
{
    MPI_Group world, one, others;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &target, &one);
    MPI_Group_difference(world, one, &others);
    if (rank == target) {
        memset(room, 0, sizeof *room);
        MPI_Win_post(others, 0, win);
        settle(target);
        for (int other = 0; other < size; other++)
            while (other != rank && *(volatile long *)&room->rows[0][other] != 77 + other)
                usleep(50);
        MPI_Win_wait(win);
        CHECK("the sum", room->sum, (size - 1) * (size + 76));
    } else {
        long value = 77 + rank, more = size + 76;
        MPI_Win_start(one, 0, win);
        settle(target);
        MPI_Accumulate(&more, 1, MPI_LONG, target, AT(sum), 1, MPI_LONG, MPI_SUM, win);
        MPI_Put(&value, 1, MPI_LONG, target, AT(rows) + (MPI_Aint)(rank * sizeof(long)), 1, MPI_LONG, win);
        MPI_Win_complete(win);
    }
    MPI_Group_free(&others);
    MPI_Group_free(&one);
    MPI_Group_free(&world);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Everybody puts to everybody between fences. */
static void fences(void)
{
    memset(room, 0, sizeof *room);
    MPI_Win_fence(0, win);
    for (int round = 1; round <= rounds; round++) {
        long value = 100 * round + rank;
        for (int to = 0; to < size; to++)
            MPI_Put(&value, 1, MPI_LONG, to, AT(rows) + (MPI_Aint)(rank * sizeof(long)), 1, MPI_LONG, win);
        MPI_Win_fence(0, win);
        for (int from = 0; from < size; from++)
            CHECK("what was put before a fence", room->rows[0][from], 100 * round + from);
        MPI_Win_fence(0, win);
    }
}

static void hold(const char *file)
{
    long one = 1;
    if (rank == 0) {
        printf("win_served: holding\n");
        fflush(stdout);
        while (access(file, F_OK) != 0)
            usleep(1000);
        return;
    }
    MPI_Win_lock_all(0, win);
    do {
        MPI_Accumulate(&one, 1, MPI_LONG, 0, AT(sum), 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_flush(0, win);
        usleep(1000);
    } while (access(file, F_OK) != 0);
    MPI_Win_unlock_all(win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2 || size > CELLS) {
        fprintf(stderr, "win_served needs 2 to %d ranks\n", CELLS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Win_allocate(sizeof *room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &room, &win);
    memset(room, 0, sizeof *room);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 2 && strcmp(argv[1], "hold") == 0) {
        hold(argv[2]);
    } else {
        if (argc > 1)
            rounds = atoi(argv[1]);
        for (int target = 0; target < size; target++) {
            passive(target);
            active(target);
        }
        fences();
        /* Windows come and go. */
        for (int i = 0; i < rounds; i++) {
            long *cell, value = i;
            MPI_Win other;
            MPI_Win_allocate(sizeof *cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &other);
            MPI_Win_lock_all(0, other);
            MPI_Put(&value, 1, MPI_LONG, (rank + 1) % size, 0, 1, MPI_LONG, other);
            MPI_Win_unlock_all(other);
            MPI_Barrier(MPI_COMM_WORLD);
            CHECK("a cell of a short window", *(volatile long *)cell, i);
            MPI_Win_free(&other);
        }
    }
    MPI_Win_free(&win);
    if (rank == 0)
        printf("win_served: ok (%d ranks)\n", size);
    MPI_Finalize();
    return 0;
}
