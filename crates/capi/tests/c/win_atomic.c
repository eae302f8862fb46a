/* Atomic operations: counters that all change at once, the order of one origin's operations, and locks and lists that
 * programs make of them. */
#include "win.h"
#include <sched.h>
#include <stddef.h>

static int right, few;

/* Who takes part where all want the same: where ranks are many, some. */
static int players(void)
{
    return size < 8 ? size : 8;
}

static int turns(void)
{
    return few ? 8 : 2;
}

/* A counter gives each number once. */

enum { TICKETS_MAX = 2030 };

static void draw(long *tickets, int rounds, MPI_Win win)
{
    static const long one = 1;
    MPI_Request request;
    int i;
    for (i = 0; i < rounds; i++) {
        switch (i % 3) {
        case 0: MPI_Fetch_and_op(&one, &tickets[i], MPI_LONG, 0, 0, MPI_SUM, win); break;
        case 1:
            MPI_Get_accumulate(&one, 1, MPI_LONG, &tickets[i], 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
            break;
        default:
            MPI_Rget_accumulate(&one, 1, MPI_LONG, &tickets[i], 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    MPI_Win_flush(0, win);
    for (i = 1; i < rounds; i++)
        if (tickets[i] <= tickets[i - 1])
            report(__FILE__, __LINE__, "a ticket, at least", tickets[i - 1] + 1, tickets[i]);
}

static void draw_by_swaps(long *tickets, int rounds, MPI_Win win)
{
    long seen = 0, next, old;
    for (int i = 0; i < rounds; i++) {
        for (;; seen = old) {
            next = seen + 1;
            MPI_Compare_and_swap(&next, &seen, &old, MPI_LONG, 0, 0, win);
            MPI_Win_flush(0, win);
            if (old == seen)
                break;
        }
        tickets[i] = seen;
        seen = next;
    }
}

static void tickets(void)
{
    int rounds = size <= 4 ? 2000 : few ? 500 : 12, swaps = few ? 30 : 2, each = rounds + swaps, i;
    int total = rounds * size + swaps * players();
    long mine[TICKETS_MAX], *all = malloc(sizeof(long) * (size_t)(each * size)), *counter;
    int *times = calloc((size_t)total + 1, sizeof(int));
    MPI_Win win;
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &win);
    open_own(win);
    *counter = 0;
    close_own(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    draw(mine, rounds, win);
    /* Not at the same time: MPI-5 12.2.1, accumulate_ops, lets only one operation change a place at a time. */
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = rounds; i < each; i++)
        mine[i] = total; /* none */
    if (rank < players())
        draw_by_swaps(mine + rounds, swaps, win);
    MPI_Win_unlock_all(win);
    MPI_Gather(mine, each, MPI_LONG, all, each, MPI_LONG, 0, MPI_COMM_WORLD);
    for (i = 0; rank == 0 && i < each * size; i++) {
        CHECK(all[i] >= 0 && all[i] <= total);
        if (all[i] >= 0 && all[i] <= total)
            times[all[i]]++;
    }
    for (i = 0; rank == 0 && i < total; i++)
        SAME(times[i], 1);
    open_own(win);
    SAME(*counter, rank == 0 ? total : 0);
    close_own(win);
    MPI_Win_free(&win);
    free(all);
    free(times);
}

/* Counters everywhere, changed in all ways at once; the small ones are neighbours within a word. */

typedef struct {
    double real;
    int whole, unused;
    uint8_t bytes[8];
    uint16_t shorts[4];
} counters;

static void add(int i, int target, MPI_Win win)
{
    static const int by[5] = {1, 2, 3, 4, 5};
    static const double half = 0.5;
    static const uint8_t byte = 1;
    static const uint16_t two = 300;
    MPI_Aint whole = offsetof(counters, whole);
    const int *one = &by[i % 5];
    int old = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    switch (i % 5) {
    case 0: MPI_Accumulate(one, 1, MPI_INT, target, whole, 1, MPI_INT, MPI_SUM, win); break;
    case 1: MPI_Fetch_and_op(one, &old, MPI_INT, target, whole, MPI_SUM, win); break;
    case 2: MPI_Get_accumulate(one, 1, MPI_INT, &old, 1, MPI_INT, target, whole, 1, MPI_INT, MPI_SUM, win); break;
    case 3: MPI_Raccumulate(one, 1, MPI_INT, target, whole, 1, MPI_INT, MPI_SUM, win, &request); break;
    default:
        MPI_Rget_accumulate(one, 1, MPI_INT, &old, 1, MPI_INT, target, whole, 1, MPI_INT, MPI_SUM, win, &request);
    }
    MPI_Accumulate(&half, 1, MPI_DOUBLE, target, offsetof(counters, real), 1, MPI_DOUBLE, MPI_SUM, win);
    MPI_Accumulate(&byte, 1, MPI_UINT8_T, target, offsetof(counters, bytes) + rank % 8, 1, MPI_UINT8_T, MPI_SUM, win);
    MPI_Accumulate(&two, 1, MPI_UINT16_T, target, offsetof(counters, shorts) + 2 * (rank % 4), 1, MPI_UINT16_T, MPI_SUM,
                   win);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush_local(target, win);
    CHECK(i % 5 == 0 || i % 5 == 3 || old >= 0);
}

static void everywhere(void)
{
    int rounds = size <= 4 ? 1000 : few ? 200 : 20, i, origin;
    counters *mine, expected;
    MPI_Win win;
    memset(&expected, 0, sizeof expected);
    MPI_Win_allocate(sizeof *mine, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    open_own(win);
    memset(mine, 0, sizeof *mine);
    close_own(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (i = 0; i < rounds; i++)
        add(i, (rank + i * i) % size, win);
    MPI_Win_unlock_all(win);
    for (origin = 0; origin < size; origin++) {
        for (i = 0; i < rounds; i++) {
            if ((origin + i * i) % size != rank)
                continue;
            expected.whole += i % 5 + 1;
            expected.real += 0.5;
            expected.bytes[origin % 8]++;
            expected.shorts[origin % 4] = (uint16_t)(expected.shorts[origin % 4] + 300);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(win);
    SAME(mine->whole, expected.whole);
    SAME(mine->real, expected.real);
    for (i = 0; i < 8; i++)
        SAME(mine->bytes[i], expected.bytes[i]);
    for (i = 0; i < 4; i++)
        SAME(mine->shorts[i], expected.shorts[i]);
    close_own(win);
    MPI_Win_free(&win);
}

/* One origin's accumulates of one place take effect in the order of the program (MPI-5 12.7.2). */

static void ordered_words(int target, MPI_Aint place, MPI_Win win)
{
    enum { ROUNDS = 20 };
    static const int one = 1, three = 3, five = 5, seven = 7;
    int i, set[ROUNDS], again[ROUNDS], compare[ROUNDS], seen[ROUNDS][5];
    MPI_Request requests[ROUNDS];
    for (i = 0; i < ROUNDS; i++) {
        set[i] = i, again[i] = 100 + i, compare[i] = 101 + i;
        MPI_Accumulate(&five, 1, MPI_INT, target, place, 1, MPI_INT, MPI_SUM, win);
        MPI_Accumulate(&set[i], 1, MPI_INT, target, place, 1, MPI_INT, MPI_REPLACE, win);
        MPI_Get_accumulate(&one, 1, MPI_INT, &seen[i][0], 1, MPI_INT, target, place, 1, MPI_INT, MPI_SUM, win);
        MPI_Accumulate(&three, 1, MPI_INT, target, place, 1, MPI_INT, MPI_PROD, win);
        MPI_Fetch_and_op(NULL, &seen[i][1], MPI_INT, target, place, MPI_NO_OP, win);
        MPI_Raccumulate(&again[i], 1, MPI_INT, target, place, 1, MPI_INT, MPI_REPLACE, win, &requests[i]);
        MPI_Fetch_and_op(&one, &seen[i][2], MPI_INT, target, place, MPI_SUM, win);
        MPI_Compare_and_swap(&seven, &compare[i], &seen[i][3], MPI_INT, target, place, win);
        MPI_Get_accumulate(NULL, 0, MPI_INT, &seen[i][4], 1, MPI_INT, target, place, 1, MPI_INT, MPI_NO_OP, win);
    }
    MPI_Waitall(ROUNDS, requests, MPI_STATUSES_IGNORE);
    MPI_Win_flush(target, win);
    for (i = 0; i < ROUNDS; i++) {
        SAME(seen[i][0], i);
        SAME(seen[i][1], 3 * (i + 1));
        SAME(seen[i][2], 100 + i);
        SAME(seen[i][3], 101 + i);
        SAME(seen[i][4], 7);
    }
}

/* Long ones, short ones and those with gaps overtake each other no more than the same ones do. */
static void ordered_arrays(int target, MPI_Aint place, int n, MPI_Win win)
{
    static const int one = 1, big = 1000000;
    int *out = malloc(sizeof(int) * (size_t)n), *all = malloc(sizeof(int) * (size_t)n), i, last = -1, first = -1;
    MPI_Datatype every_second;
    MPI_Type_vector(n / 2, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    for (i = 0; i < n; i++)
        out[i] = 10 * i + rank;
    MPI_Accumulate(out, n, MPI_INT, target, place, n, MPI_INT, MPI_REPLACE, win);
    MPI_Fetch_and_op(&one, &last, MPI_INT, target, place + n - 1, MPI_SUM, win);
    MPI_Accumulate(out, n / 2, MPI_INT, target, place, 1, every_second, MPI_SUM, win);
    MPI_Fetch_and_op(&big, &first, MPI_INT, target, place, MPI_REPLACE, win);
    MPI_Get_accumulate(NULL, 0, MPI_INT, all, n, MPI_INT, target, place, n, MPI_INT, MPI_NO_OP, win);
    MPI_Accumulate(&one, 1, MPI_INT, target, place + n / 2, 1, MPI_INT, MPI_REPLACE, win);
    MPI_Win_flush(target, win);
    SAME(last, out[n - 1]);
    SAME(first, 2 * out[0]);
    SAME(all[0], 1000000);
    for (i = 1; i < n; i++)
        SAME(all[i], out[i] + (i % 2 == 0 ? out[i / 2] : 0) + (i == n - 1));
    MPI_Type_free(&every_second);
    free(out);
    free(all);
}

static void ordered(void)
{
    int n = few ? 20000 : 1000, *memory, k;
    MPI_Win win;
    MPI_Win_allocate(2 * (n + 1) * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    for (k = 0; k < 2; k++) {
        int target = k ? rank : right;
        ordered_words(target, k * (n + 1), win);
        ordered_arrays(target, k * (n + 1) + 1, n, win);
        ordered_arrays(target, k * (n + 1) + 1, 100, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Locks of three kinds around a counter that is read and written by gets and puts. */

enum { LOCK_WORD, FIRST_COUNT, SECOND_COUNT, WORDS };

/* Not one step: somebody else in between would be seen. */
static void count_up(int target, int word, MPI_Win win)
{
    long value = -1;
    MPI_Get(&value, 1, MPI_LONG, target, word, 1, MPI_LONG, win);
    MPI_Win_flush(target, win);
    value++;
    MPI_Put(&value, 1, MPI_LONG, target, word, 1, MPI_LONG, win);
    MPI_Win_flush(target, win);
}

static long swap_word(long compare, long with, MPI_Win win)
{
    long old = -1;
    MPI_Compare_and_swap(&with, &compare, &old, MPI_LONG, 0, LOCK_WORD, win);
    MPI_Win_flush(0, win);
    return old;
}

static void by_swaps(MPI_Win win)
{
    MPI_Win_lock_all(0, win);
    for (int i = 0; rank < players() && i < turns(); i++) {
        while (swap_word(0, rank + 1, win) != 0)
            sched_yield();
        count_up(0, FIRST_COUNT, win);
        count_up(size - 1, SECOND_COUNT, win);
        SAME(swap_word(rank + 1, 0, win), rank + 1);
    }
    MPI_Win_unlock_all(win);
}

static void by_exclusive_locks(MPI_Win win)
{
    for (int i = 0; rank < players() && i < turns(); i++) {
        int target = i % 2 ? size - 1 : 0, word = i % 2 ? SECOND_COUNT : FIRST_COUNT;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        count_up(target, word, win);
        MPI_Win_unlock(target, win);
    }
}

static void guarded(void (*count)(MPI_Win), long expected)
{
    long *words;
    int i;
    MPI_Win win;
    MPI_Win_allocate(WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &win);
    open_own(win);
    for (i = 0; i < WORDS; i++)
        words[i] = 0;
    close_own(win);
    MPI_Barrier(MPI_COMM_WORLD);
    count(win);
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(win);
    SAME(words[LOCK_WORD], 0);
    SAME(words[FIRST_COUNT], rank == 0 ? expected : 0);
    SAME(words[SECOND_COUNT], rank == size - 1 ? expected : 0);
    close_own(win);
    MPI_Win_free(&win);
}

/* A queue of those who wait, each for the one before, in memory that is attached: the lock of Mellor-Crummey and
 * Scott. */

enum { NOBODY = -1 };

typedef struct {
    long next, waits; /* of everyone */
    long tail, count; /* of the first */
} station;

static MPI_Aint *stations;
static MPI_Win queue;

static void write_word(int target, size_t member, long value)
{
    MPI_Aint place = MPI_Aint_add(stations[target], (MPI_Aint)member);
    MPI_Accumulate(&value, 1, MPI_LONG, target, place, 1, MPI_LONG, MPI_REPLACE, queue);
    MPI_Win_flush(target, queue);
}

static long read_own(size_t member)
{
    long value = 0;
    MPI_Fetch_and_op(NULL, &value, MPI_LONG, rank, MPI_Aint_add(stations[rank], (MPI_Aint)member), MPI_NO_OP, queue);
    MPI_Win_flush(rank, queue);
    return value;
}

static void enter_queue(void)
{
    long me = rank, before = NOBODY;
    write_word(rank, offsetof(station, next), NOBODY);
    write_word(rank, offsetof(station, waits), 1);
    MPI_Fetch_and_op(&me, &before, MPI_LONG, 0, MPI_Aint_add(stations[0], offsetof(station, tail)), MPI_REPLACE, queue);
    MPI_Win_flush(0, queue);
    if (before == NOBODY)
        return;
    CHECK(before >= 0 && before < size && before != rank);
    write_word((int)before, offsetof(station, next), rank);
    while (read_own(offsetof(station, waits)))
        sched_yield();
}

static void leave_queue(void)
{
    long me = rank, nobody = NOBODY, last, next;
    MPI_Compare_and_swap(&nobody, &me, &last, MPI_LONG, 0, MPI_Aint_add(stations[0], offsetof(station, tail)), queue);
    MPI_Win_flush(0, queue);
    if (last == rank)
        return;
    while ((next = read_own(offsetof(station, next))) == NOBODY)
        sched_yield();
    write_word((int)next, offsetof(station, waits), 0);
}

static void by_queue(void)
{
    station *mine = malloc(sizeof *mine);
    MPI_Aint address;
    stations = malloc(sizeof(MPI_Aint) * (size_t)size);
    *mine = (station){NOBODY, 0, NOBODY, 0};
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &queue);
    MPI_Win_attach(queue, mine, sizeof *mine);
    MPI_Get_address(mine, &address);
    MPI_Allgather(&address, 1, MPI_AINT, stations, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_lock_all(0, queue);
    for (int i = 0; rank < players() && i < turns(); i++) {
        long value;
        MPI_Aint count = MPI_Aint_add(stations[0], offsetof(station, count));
        enter_queue();
        MPI_Get(&value, 1, MPI_LONG, 0, count, 1, MPI_LONG, queue);
        MPI_Win_flush(0, queue);
        value++;
        MPI_Put(&value, 1, MPI_LONG, 0, count, 1, MPI_LONG, queue);
        MPI_Win_flush(0, queue);
        leave_queue();
    }
    MPI_Win_unlock_all(queue);
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(queue);
    SAME(mine->tail, NOBODY);
    SAME(mine->count, rank == 0 ? players() * turns() : 0);
    close_own(queue);
    MPI_Win_detach(queue, mine);
    MPI_Win_free(&queue);
    free(mine);
    free(stations);
}

/* A list to which several push what they have; the first rank walks along it. */

enum { NODES = 3, END = -1 };

typedef struct {
    long value, next;
} node;

static void push(long id, MPI_Aint own, MPI_Aint head, MPI_Win win)
{
    node made = {1000 + id, END};
    long seen;
    for (;;) {
        MPI_Put(&made, 2, MPI_LONG, rank, own, 2, MPI_LONG, win);
        MPI_Win_flush(rank, win);
        MPI_Compare_and_swap(&id, &made.next, &seen, MPI_LONG, 0, head, win);
        MPI_Win_flush(0, win);
        if (seen == made.next)
            return;
        made.next = seen;
    }
}

static void walk(const MPI_Aint *places, MPI_Win win)
{
    int *times = calloc((size_t)(players() * NODES), sizeof(int)), i, steps = 0;
    node at = {0, END};
    long id = END;
    MPI_Fetch_and_op(NULL, &id, MPI_LONG, 0, places[NODES], MPI_NO_OP, win);
    MPI_Win_flush(0, win);
    for (; id >= 0 && id < players() * NODES && steps < players() * NODES; id = at.next, steps++) {
        int owner = (int)(id / NODES);
        MPI_Get(&at, 2, MPI_LONG, owner, places[owner * (NODES + 1) + id % NODES], 2, MPI_LONG, win);
        MPI_Win_flush(owner, win);
        SAME(at.value, 1000 + id);
        times[id]++;
    }
    SAME(id, END);
    SAME(steps, players() * NODES);
    for (i = 0; i < players() * NODES; i++)
        SAME(times[i], 1);
    free(times);
}

static void list(void)
{
    long head = END;
    node *mine[NODES];
    MPI_Aint own[NODES + 1], *places = malloc(sizeof(MPI_Aint) * (NODES + 1) * (size_t)size);
    MPI_Win win;
    int i;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (i = 0; i < NODES; i++) {
        mine[i] = malloc(sizeof(node));
        MPI_Win_attach(win, mine[i], sizeof(node));
        MPI_Get_address(mine[i], &own[i]);
    }
    MPI_Win_attach(win, &head, sizeof head);
    MPI_Get_address(&head, &own[NODES]);
    MPI_Allgather(own, NODES + 1, MPI_AINT, places, NODES + 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (i = 0; i < NODES && rank < players(); i++)
        push(rank * NODES + i, own[i], places[NODES], win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        walk(places, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    for (i = 0; i < NODES; i++)
        MPI_Win_detach(win, mine[i]);
    MPI_Win_detach(win, &head);
    MPI_Win_free(&win);
    for (i = 0; i < NODES; i++)
        free(mine[i]);
    free(places);
}

int main(int argc, char **argv)
{
    begin_windows(&argc, &argv);
    right = at_distance(1);
    few = size <= 8;
    tickets();
    everywhere();
    ordered();
    guarded(by_swaps, players() * turns());
    guarded(by_exclusive_locks, players() * turns() / 2);
    by_queue();
    list();
    return finish("win_atomic");
}
