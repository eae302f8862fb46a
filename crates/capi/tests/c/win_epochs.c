/* Epochs of every kind, puts and gets of every length in them, many operations at a time, and those with requests. */
#include "win.h"

static int right, left;
static int few; /* ranks are few, so that much can be moved */

enum how { FENCE, GENERAL, LOCK, LOCK_ALL };

static int neighbours[3], neighbour_count;
static MPI_Group around;

/* Left, right and oneself, each once. */
static void find_neighbours(void)
{
    MPI_Group world;
    int all[3] = {rank, right, left}, i, j;
    for (i = 0; i < 3; i++) {
        for (j = 0; j < neighbour_count && neighbours[j] != all[i]; j++)
            ;
        if (j == neighbour_count)
            neighbours[neighbour_count++] = all[i];
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, neighbour_count, neighbours, &around);
    MPI_Group_free(&world);
}

static int passive(enum how how)
{
    return how == LOCK || how == LOCK_ALL;
}

static void open_epoch(enum how how, int round, MPI_Win win)
{
    int i;
    if (passive(how))
        MPI_Barrier(MPI_COMM_WORLD); /* what they have stored is there */
    switch (how) {
    case FENCE:
        MPI_Win_fence(round % 3 == 2 || round == 0 ? MPI_MODE_NOPRECEDE : 0, win);
        break;
    case GENERAL:
        MPI_Win_post(around, 0, win);
        MPI_Win_start(around, 0, win);
        break;
    case LOCK:
        for (i = 0; i < neighbour_count; i++)
            MPI_Win_lock(MPI_LOCK_SHARED, neighbours[i], 0, win);
        break;
    case LOCK_ALL:
        MPI_Win_lock_all(round % 2 ? MPI_MODE_NOCHECK : 0, win);
        break;
    }
}

static void close_epoch(enum how how, int round, MPI_Win win)
{
    int i;
    switch (how) {
    case FENCE:
        MPI_Win_fence(round % 3 == 0   ? 0
                      : round % 3 == 1 ? MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED
                                       : MPI_MODE_NOSTORE | MPI_MODE_NOPUT,
                      win);
        break;
    case GENERAL:
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        break;
    case LOCK:
        for (i = neighbour_count - 1; i >= 0; i--)
            MPI_Win_unlock(neighbours[i], win);
        break;
    case LOCK_ALL:
        MPI_Win_unlock_all(win);
        break;
    }
    if (passive(how))
        MPI_Barrier(MPI_COMM_WORLD); /* what they have put is there */
}

/* Own memory is [from the left | from oneself | to be read], each of `most` bytes and one more. */
static void move(enum how how, int n, int round, unsigned char *memory, int most, unsigned char *local, MPI_Win win)
{
    MPI_Aint place = most + 1;
    unsigned char *out = local, *from_left = local + place, *from_self = local + 2 * place;
    if (passive(how))
        open_own(win);
    memset(memory, 0xee, (size_t)(2 * place));
    fill(memory + 2 * place, (size_t)n, rank, round + 1);
    if (passive(how))
        close_own(win);
    fill(out, (size_t)n, rank, round);
    memset(from_left, 0xee, (size_t)(2 * place));
    open_epoch(how, round, win);
    MPI_Put(out, n, MPI_BYTE, right, 0, n, MPI_BYTE, win);
    MPI_Get(from_left, n, MPI_BYTE, left, 2 * place, n, MPI_BYTE, win);
    MPI_Put(out, n, MPI_BYTE, rank, place, n, MPI_BYTE, win);
    MPI_Get(from_self, n, MPI_BYTE, rank, 2 * place, n, MPI_BYTE, win);
    close_epoch(how, round, win);
    BYTES(from_left, (size_t)n, left, round + 1);
    BYTES(from_self, (size_t)n, rank, round + 1);
    SAME(from_left[n], 0xee);
    SAME(from_self[n], 0xee);
    if (passive(how))
        open_own(win);
    BYTES(memory, (size_t)n, left, round);
    BYTES(memory + place, (size_t)n, rank, round);
    SAME(memory[n], 0xee);
    SAME(memory[place + n], 0xee);
    if (passive(how))
        close_own(win);
}

static void lengths(void)
{
    static const int list[] = {0, 1, 3, 8, 100, 4096, 10000, 65536, 1 << 20};
    int most = few ? 1 << 20 : 65536, how, k;
    unsigned char *memory, *local = malloc(3 * (size_t)(most + 1));
    MPI_Win win;
    for (how = FENCE; how <= LOCK_ALL; how++) {
        int round = 0;
        MPI_Win_allocate(3 * (MPI_Aint)(most + 1), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        for (k = few ? 0 : how % 2; k < (int)(sizeof list / sizeof *list) && list[k] <= most; k += few ? 1 : 2)
            move((enum how)how, list[k], round++, memory, most, local, win);
        MPI_Win_free(&win);
    }
    free(local);
}

/* Fences that say what they can about epochs in which only gets, only puts, or nothing happens. */
static void asserts(void)
{
    int cells[2] = {rank, -1}, seen = -1, out = 300 + rank;
    MPI_Win win;
    MPI_Win_create(cells, sizeof cells, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE, win);
    MPI_Get(&seen, 1, MPI_INT, right, 0, 1, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSTORE, win);
    SAME(seen, right);
    MPI_Put(&out, 1, MPI_INT, right, 1, 1, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win);
    SAME(cells[1], 300 + left);
    MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE, win);
    MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED, win);
    SAME(cells[1], 300 + left);
    /* after fences, locks, as soon as all have looked */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, left, 0, win);
    out = 400 + rank;
    MPI_Put(&out, 1, MPI_INT, left, 1, 1, MPI_INT, win);
    MPI_Win_unlock(left, win);
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(win);
    SAME(cells[1], 400 + right);
    close_own(win);
    MPI_Win_free(&win);
}

/* Post, start, complete, wait: who takes part is another each time. */

static MPI_Group group_of(const int *list, int n)
{
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, n, list, &group);
    MPI_Group_free(&world);
    return group;
}

typedef struct {
    int ranks[64], count;
} set;

static void add(set *set, int member)
{
    if (set->count < 64)
        set->ranks[set->count++] = member;
}

/* Who accesses whom, in a round: the ring at some distance, all to one, one to all, evens to odds. */
static int accesses(int round, int origin, int target)
{
    static const int distances[] = {1, 2, -1, 5};
    switch (round) {
    case 0: case 1: case 2: case 3: return ((target - origin - distances[round]) % size) == 0;
    case 4: return target == 0;
    case 5: return origin == size - 1;
    case 6: return origin % 2 == 0 && target % 2 == 1 && (target - origin + size) % size < 16;
    case 7: return origin == 0 && target != 0;
    default: return target == size - 1 && origin != target;
    }
}

static void general_round(int round, int *cells, MPI_Win win)
{
    set to = {{0}, 0}, from = {{0}, 0};
    int i, out = 1000 * round + rank, flag = 0;
    MPI_Group access, exposure;
    for (i = 0; i < size; i++) {
        if (accesses(round, rank, i))
            add(&to, i);
        if (accesses(round, i, rank))
            add(&from, i);
        cells[i] = -1;
    }
    access = group_of(to.ranks, to.count);
    exposure = group_of(from.ranks, from.count);
    if (from.count)
        MPI_Win_post(exposure, 0, win);
    if (to.count) {
        MPI_Win_start(access, 0, win);
        for (i = to.count - 1; i >= 0; i--)
            MPI_Put(&out, 1, MPI_INT, to.ranks[i], rank, 1, MPI_INT, win);
        MPI_Win_complete(win);
    }
    MPI_Group_free(&access);
    if (from.count && round % 2)
        MPI_Win_wait(win);
    while (from.count && round % 2 == 0 && !flag)
        MPI_Win_test(win, &flag);
    MPI_Group_free(&exposure);
    for (i = 0; i < size; i++)
        SAME(cells[i], accesses(round, i, rank) ? 1000 * round + i : -1);
}

static void general(void)
{
    int *cells, round, i, out = 77 + rank;
    MPI_Win win;
    MPI_Group group;
    if (size > 64)
        return; /* groups are kept in sets of 64 */
    MPI_Win_allocate(size * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    for (i = 0; i < (few ? 3 : 1); i++)
        for (round = 0; round < 9; round++) {
            general_round(round, cells, win);
            if (lenient) /* it counts what is posted, whoever does it and for which epoch */
                MPI_Barrier(MPI_COMM_WORLD);
        }
    /* Everybody knows that the others have posted. */
    group = group_of(&left, 1);
    MPI_Win_post(group, MPI_MODE_NOCHECK, win);
    MPI_Group_free(&group);
    MPI_Barrier(MPI_COMM_WORLD);
    group = group_of(&right, 1);
    MPI_Win_start(group, MPI_MODE_NOCHECK, win);
    MPI_Group_free(&group);
    MPI_Put(&out, 1, MPI_INT, right, 0, 1, MPI_INT, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    SAME(cells[0], 77 + left);
    MPI_Win_free(&win);
}

/* Locks and flushes. */

static void locks(void)
{
    int *cells, k, i, out[3], seen[2] = {-1, -1}, last = size - 1;
    MPI_Win win;
    MPI_Win_allocate((size + 1) * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    open_own(win);
    for (i = 0; i < size; i++)
        cells[i] = -1;
    cells[size] = 10 * rank;
    close_own(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (k = 0; k < 3 && k < size; k++) {
        int target = at_distance(k);
        out[k] = 100 * rank + k;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Put(&out[k], 1, MPI_INT, target, rank, 1, MPI_INT, win);
        MPI_Win_unlock(target, win);
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        MPI_Get(seen, 1, MPI_INT, target, rank, 1, MPI_INT, win);
        MPI_Win_unlock(target, win);
        SAME(seen[0], 100 * rank + k);
    }
    /* two at a time, all of them reading */
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    if (last)
        MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win);
    MPI_Get(&seen[0], 1, MPI_INT, 0, size, 1, MPI_INT, win);
    MPI_Get(&seen[1], 1, MPI_INT, last, size, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    SAME(seen[0], 0);
    if (last)
        MPI_Win_unlock(last, win);
    SAME(seen[1], 10 * last);
    MPI_Barrier(MPI_COMM_WORLD);
    /* nobody else locks it */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, MPI_MODE_NOCHECK, win);
    MPI_Put(&rank, 1, MPI_INT, right, size, 1, MPI_INT, win);
    MPI_Win_unlock(right, win);
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(win);
    SAME(cells[size], left);
    for (i = 0; i < size; i++) {
        int distance = (rank - i + size) % size;
        SAME(cells[i], distance < 3 ? 100 * i + distance : -1);
    }
    close_own(win);
    MPI_Win_free(&win);
}

/* Puts and gets while a lock on all is held, completed in all ways there are. */
static void flushes(void)
{
    int *cells, k, out, seen;
    MPI_Win win;
    MPI_Win_allocate(4 * size * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    MPI_Win_lock_all(0, win);
    for (k = 0; k < 4; k++) {
        int target = at_distance(k), place = 4 * rank + k;
        out = 50 * rank + k;
        MPI_Put(&out, 1, MPI_INT, target, place, 1, MPI_INT, win);
        if (k % 2)
            MPI_Win_flush_local(target, win);
        else
            MPI_Win_flush_local_all(win);
        out = -1; /* it was read before */
        if (k < 2)
            MPI_Win_flush(target, win);
        else
            MPI_Win_flush_all(win);
        seen = -2;
        MPI_Get(&seen, 1, MPI_INT, target, place, 1, MPI_INT, win);
        switch (k) { /* a get that is complete here is complete */
        case 0: MPI_Win_flush_local(target, win); break;
        case 1: MPI_Win_flush_local_all(win); break;
        case 2: MPI_Win_flush(target, win); break;
        default: MPI_Win_flush_all(win); break;
        }
        SAME(seen, 50 * rank + k);
    }
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (k = 0; k < 4; k++)
        SAME(cells[4 * at_distance(-k) + k], 50 * at_distance(-k) + k);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void null_targets(void)
{
    int cell = 5, in = 6, out = 7, old = 8;
    MPI_Request requests[4];
    MPI_Win win;
    MPI_Win_create(&cell, sizeof cell, sizeof cell, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win);
    MPI_Get(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win);
    MPI_Accumulate(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    MPI_Get_accumulate(&out, 1, MPI_INT, &in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Fetch_and_op(&out, &in, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win);
    MPI_Compare_and_swap(&out, &old, &in, MPI_INT, MPI_PROC_NULL, 0, win);
    MPI_Rput(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[0]);
    MPI_Rget(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[1]);
    MPI_Raccumulate(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &requests[2]);
    MPI_Rget_accumulate(&out, 1, MPI_INT, &in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Win_unlock_all(win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, 0, win);
    MPI_Rput(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[0]);
    MPI_Win_unlock(MPI_PROC_NULL, win);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    SAME(cell, 5);
    SAME(in, 6);
    MPI_Win_free(&win);
}

/* Many operations in one epoch, to targets by chance: the first ranks put and get 2,000 times, the others less
 * often. */

enum { MANY = 2000, LESS = 100, MANY_RANKS = 8, TABLE = 256 };

static int how_many(int origin)
{
    return origin < MANY_RANKS ? MANY : LESS;
}

static int place_of(int origin)
{
    return origin < MANY_RANKS ? origin * MANY : MANY_RANKS * MANY + (origin - MANY_RANKS) * LESS;
}

/* The sequence of an origin's targets and of places to read. */
static int next_target(uint64_t *state, int *read)
{
    int target = (int)(next_random(state) % (unsigned)size);
    *read = (int)(next_random(state) % TABLE);
    return target;
}

static void issue(const int *out, int *in, MPI_Win win)
{
    uint64_t state = 1000 + (uint64_t)rank;
    int i, read;
    for (i = 0; i < how_many(rank); i++) {
        int target = next_target(&state, &read);
        MPI_Put(&out[i], 1, MPI_INT, target, TABLE + place_of(rank) + i, 1, MPI_INT, win);
        MPI_Get(&in[i], 1, MPI_INT, target, read, 1, MPI_INT, win);
    }
}

static void arrived(const int *cells, const int *in, int epoch)
{
    int i, read, origin, wrong = 0;
    uint64_t state = 1000 + (uint64_t)rank;
    for (i = 0; i < how_many(rank); i++) {
        int target = next_target(&state, &read);
        SAME(in[i], 1000 * target + read);
    }
    for (origin = 0; origin < size; origin++) {
        state = 1000 + (uint64_t)origin;
        for (i = 0; i < how_many(origin); i++) {
            int to_me = next_target(&state, &read) == rank;
            int expected = to_me ? 1000000 * epoch + 5000 * origin + i : -1;
            wrong += cells[TABLE + place_of(origin) + i] != expected;
        }
    }
    SAME(wrong, 0);
}

static void outstanding(void)
{
    int words = TABLE + place_of(size), *cells, i, epoch, *out = malloc(sizeof(int) * MANY);
    int *in = malloc(sizeof(int) * MANY);
    MPI_Win win;
    MPI_Win_allocate(words * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    for (i = 0; i < words; i++)
        cells[i] = i < TABLE ? 1000 * rank + i : -1;
    for (epoch = 1; epoch <= 2; epoch++) {
        for (i = 0; i < how_many(rank); i++) {
            out[i] = 1000000 * epoch + 5000 * rank + i;
            in[i] = -1;
        }
        if (epoch == 1) {
            MPI_Win_fence(0, win);
            issue(out, in, win);
            MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
            arrived(cells, in, epoch);
            MPI_Barrier(MPI_COMM_WORLD); /* all have looked */
        } else {
            MPI_Win_lock_all(0, win);
            issue(out, in, win);
            MPI_Win_unlock_all(win);
            MPI_Barrier(MPI_COMM_WORLD);
            open_own(win);
            arrived(cells, in, epoch);
            close_own(win);
        }
    }
    MPI_Win_free(&win);
    free(out);
    free(in);
}

/* Operations with requests, which are waited for in any order. */

enum { REQUESTS = 40, PLACES = 2 * REQUESTS + 8 };

static void wait_for(MPI_Request *requests, int n, int way)
{
    int i, flag, index;
    for (i = 0; i < n; i++) {
        switch (way) {
        case 0: MPI_Wait(&requests[i], MPI_STATUS_IGNORE); break;
        case 1: MPI_Wait(&requests[n - 1 - i], MPI_STATUS_IGNORE); break;
        case 2: MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE); break;
        case 3:
            for (flag = 0; !flag;)
                MPI_Test(&requests[(i * 7) % n], &flag, MPI_STATUS_IGNORE);
            break;
        default: MPI_Waitall(n, requests, MPI_STATUSES_IGNORE); break;
        }
    }
    for (i = 0; i < n; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL);
}

static void with_requests(int way, MPI_Win win)
{
    int out[REQUESTS], in[REQUESTS], i, target = at_distance(way), base = rank * PLACES;
    long sums[4] = {1, 2, 3, 4}, old[4];
    MPI_Request requests[REQUESTS], two[2];
    for (i = 0; i < REQUESTS; i++) {
        out[i] = 10000 * way + 100 * rank + i;
        in[i] = -1;
        MPI_Rput(&out[i], 1, MPI_INT, target, base + i, 1, MPI_INT, win, &requests[i]);
    }
    if (way % 2)
        MPI_Win_flush(target, win); /* before they are waited for */
    wait_for(requests, REQUESTS, way);
    for (i = 0; i < REQUESTS; i++)
        out[i] = -5;
    MPI_Win_flush(target, win);
    for (i = 0; i < REQUESTS; i++)
        MPI_Rget(&in[i], 1, MPI_INT, target, base + REQUESTS - 1 - i, 1, MPI_INT, win, &requests[i]);
    wait_for(requests, REQUESTS, way);
    for (i = 0; i < REQUESTS; i++)
        SAME(in[i], 10000 * way + 100 * rank + REQUESTS - 1 - i);
    /* the last 8 places hold 4 longs, which are set and added to */
    MPI_Raccumulate(sums, 4, MPI_LONG, target, base + 2 * REQUESTS, 4, MPI_LONG, MPI_REPLACE, win, &two[0]);
    MPI_Rget_accumulate(sums, 4, MPI_LONG, old, 4, MPI_LONG, target, base + 2 * REQUESTS, 4, MPI_LONG, MPI_SUM, win,
                        &two[1]);
    wait_for(two, 2, way % 2 ? 1 : 4);
    MPI_Get_accumulate(NULL, 0, MPI_LONG, sums, 4, MPI_LONG, target, base + 2 * REQUESTS, 4, MPI_LONG, MPI_NO_OP, win);
    MPI_Win_flush(target, win);
    for (i = 0; i < 4; i++) {
        SAME(old[i], i + 1);
        SAME(sums[i], 2 * (i + 1));
    }
}

static void requests(void)
{
    int *cells, way;
    MPI_Win win;
    MPI_Win_allocate(PLACES * size * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    MPI_Win_lock_all(0, win);
    for (way = 0; way < 5; way++)
        with_requests(way, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Long operations end by their requests, without any synchronization. */
static void long_requests(void)
{
    static const size_t lengths[] = {1, 4096, 65536, 1 << 20};
    enum { LENGTHS = 4 };
    size_t most = few ? lengths[LENGTHS - 1] : 65536, n;
    unsigned char *mine, *out = malloc(most), *in = malloc(most);
    MPI_Win win;
    MPI_Request request;
    int i;
    MPI_Win_allocate((MPI_Aint)most, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    MPI_Win_lock_all(0, win);
    for (i = 0; i < LENGTHS && (n = lengths[i]) <= most; i++) {
        fill(out, n, rank, i);
        memset(in, 0, n);
        MPI_Rput(out, (int)n, MPI_BYTE, right, 0, (int)n, MPI_BYTE, win, &request);
        if (i % 2)
            wait_for(&request, 1, 4);
        else
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        memset(out, 255, n); /* it is this process's again */
        MPI_Win_flush(right, win);
        MPI_Rget(in, (int)n, MPI_BYTE, right, 0, (int)n, MPI_BYTE, win, &request);
        if (i % 2)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        else
            wait_for(&request, 1, 3);
        BYTES(in, n, rank, i);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(out);
    free(in);
}

/* Accesses that are completed, one behind the other: nobody asks what has become of one, and together they send more than may be
 * under way. */
static void completes(void)
{
    enum { COUNT = 8000, TURNS = 100 };
    double *memory = calloc(COUNT, sizeof *memory), *own = calloc(COUNT, sizeof *own);
    MPI_Win win;
    int wrong = 0, i;
    for (i = 0; i < COUNT; i++)
        own[i] = rank + i;
    MPI_Win_create(memory, COUNT * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (i = 0; i < TURNS; i++) {
        open_epoch(GENERAL, i, win);
        MPI_Accumulate(own, COUNT, MPI_DOUBLE, right, 0, COUNT, MPI_DOUBLE, MPI_SUM, win);
        close_epoch(GENERAL, i, win);
    }
    for (i = 0; i < COUNT; i++)
        wrong += memory[i] != TURNS * (double)(left + i);
    CHECK(wrong == 0);
    MPI_Win_free(&win);
    free(memory);
    free(own);
}

int main(int argc, char **argv)
{
    begin_windows(&argc, &argv);
    right = at_distance(1);
    left = at_distance(-1);
    few = size <= 8;
    find_neighbours();
    lengths();
    asserts();
    general();
    completes();
    locks();
    flushes();
    null_targets();
    outstanding();
    requests();
    long_requests();
    MPI_Group_free(&around);
    return finish("win_epochs");
}
