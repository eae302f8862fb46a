/* Windows: how they are made and freed, on which communicators, and what belongs to them. */
#include "win.h"

static int right, left;

static void attributes_are(MPI_Win win, void *base, MPI_Aint bytes, int unit, int flavor)
{
    void *at = NULL;
    MPI_Aint *held = NULL;
    int *number = NULL, flag = 0;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &at, &flag);
    CHECK(flag);
    SAME((uintptr_t)at, (uintptr_t)base);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &held, &flag);
    SAME(flag ? *held : -1, bytes);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &number, &flag);
    SAME(flag ? *number : -1, unit);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &flag);
    SAME(flag ? *number : -1, flavor);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &number, &flag);
    CHECK(flag && (*number == MPI_WIN_UNIFIED || *number == MPI_WIN_SEPARATE));
}

/* Every rank counts in units of its own, and every third one has no memory. */
static void created(void)
{
    int unit = 1 << (rank % 4), theirs = 1 << (right % 4), has = rank % 3 != 1, i;
    unsigned char *memory = has ? malloc(64) : NULL, out[8], in[8] = {0};
    MPI_Win win;
    if (has)
        fill(memory, 64, rank, 1);
    fill(out, 8, rank, 2);
    MPI_Win_create(memory, has ? 8 * unit : 0, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    attributes_are(win, memory, has ? 8 * unit : 0, unit, MPI_WIN_FLAVOR_CREATE);
    MPI_Win_fence(0, win);
    if (right % 3 != 1) {
        MPI_Put(out, theirs, MPI_BYTE, right, 3, theirs, MPI_BYTE, win);
        MPI_Get(in, theirs, MPI_BYTE, right, 5, theirs, MPI_BYTE, win);
    } else { /* nothing fits into no memory */
        MPI_Put(out, 0, MPI_BYTE, right, 0, 0, MPI_BYTE, win);
        MPI_Get(in, 0, MPI_BYTE, right, 0, 0, MPI_BYTE, win);
    }
    MPI_Win_fence(0, win);
    for (i = 0; right % 3 != 1 && i < theirs; i++)
        SAME(in[i], byte_of(right, 1, (size_t)(5 * theirs + i)));
    for (i = 0; has && i < 64; i++)
        SAME(memory[i], i / unit == 3 ? byte_of(left, 2, (size_t)(i % unit)) : byte_of(rank, 1, (size_t)i));
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL);
    free(memory);
}

static void allocated(void)
{
    MPI_Aint bytes = 100 * (rank % 4);
    unsigned char *memory = NULL, out[4];
    MPI_Win win;
    int k;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    CHECK(bytes == 0 || memory != NULL);
    if (bytes && !lenient) /* MPI-5 12.2.2: as MPI_Alloc_mem has it, at every rank */
        SAME((uintptr_t)memory % _Alignof(long double), 0);
    if (bytes)
        attributes_are(win, memory, bytes, 1, MPI_WIN_FLAVOR_ALLOCATE);
    MPI_Win_lock_all(0, win);
    for (k = 0; k < 4 && k < size; k++) {
        out[k] = byte_of(rank, k, 0);
        if (at_distance(k) % 4)
            MPI_Put(&out[k], 1, MPI_BYTE, at_distance(k), 99 - k, 1, MPI_BYTE, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(win);
    for (k = 0; bytes && k < 4 && k < size; k++)
        SAME(memory[99 - k], byte_of(at_distance(-k), k, 0));
    close_own(win);
    MPI_Win_free(&win);
}

/* The first rank of a node has no memory if there are others; each of those has another size. */
static int shared_words(int me, int n)
{
    return n > 1 && me == 0 ? 0 : me + 3;
}

static void shared_layout(MPI_Win win, int me, int n, const int *mine, int apart)
{
    int *base, *end = NULL, unit, i, first = n > 1;
    MPI_Aint bytes;
    for (i = 0; i < n; i++) {
        int words = shared_words(i, n);
        MPI_Win_shared_query(win, i, &bytes, &unit, &base);
        SAME(bytes, words * (int)sizeof(int));
        SAME(unit, sizeof(int));
        CHECK((base == NULL) == !words);
        if (!words)
            continue;
        CHECK(i != me || base == mine);
        CHECK(apart || end == NULL || base == end); /* MPI-5 12.2.3: one after the other */
        end = base + words;
        if (i == first) {
            int *lowest;
            MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &lowest);
            CHECK(lowest == base);
            SAME(bytes, words * (int)sizeof(int));
            SAME(unit, sizeof(int));
        }
    }
}

/* Loads and stores, and puts and gets, see each other. */
static void shared_access(MPI_Win win, MPI_Comm node, int me, int n, int *mine)
{
    int next = (me + 1) % n, previous = (me + n - 1) % n, *theirs, unit, i, seen = -1, out = 5000 + me;
    MPI_Aint bytes;
    MPI_Win_shared_query(win, next, &bytes, &unit, &theirs);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (i = 0; i < shared_words(next, n); i++)
        theirs[i] = 100 * me + i;
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    for (i = 0; i < shared_words(me, n); i++)
        SAME(mine[i], 100 * previous + i);
    MPI_Barrier(node);
    if (shared_words(next, n)) {
        MPI_Get(&seen, 1, MPI_INT, next, 2, 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        SAME(seen, 100 * me + 2);
        MPI_Put(&out, 1, MPI_INT, next, 1, 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        SAME(theirs[0], 100 * me);
    }
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    if (shared_words(me, n))
        SAME(mine[1], 5000 + previous);
    MPI_Win_unlock_all(win);
}

static void shared(const char *apart)
{
    MPI_Comm node;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Win win;
    int me, n, *mine, words;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &n);
    if (apart) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "alloc_shared_noncontig", apart);
    }
    words = shared_words(me, n);
    MPI_Win_allocate_shared(words * (MPI_Aint)sizeof(int), sizeof(int), info, node, &mine, &win);
    if (words)
        attributes_are(win, mine, words * (MPI_Aint)sizeof(int), sizeof(int), MPI_WIN_FLAVOR_SHARED);
    shared_layout(win, me, n, mine, apart != NULL);
    shared_access(win, node, me, n, mine);
    MPI_Win_free(&win);
    if (apart)
        MPI_Info_free(&info);
    MPI_Comm_free(&node);
}

/* Memory is attached later than the window is made, and detached earlier than it is freed. */
static void dynamic(void)
{
    int first[4] = {-1, -1, -1, -1}, *second = malloc(400), third[2] = {-3, -3}, out[3] = {rank, 10 + rank, 20 + rank};
    int in[2] = {-1, -1};
    MPI_Aint mine[2], *all = malloc(sizeof(MPI_Aint) * 2 * (size_t)size);
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    attributes_are(win, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
    memset(second, 0, 400);
    second[70] = 7000 + rank, second[71] = 8000 + rank;
    MPI_Win_attach(win, first, sizeof first);
    MPI_Win_attach(win, second, 200); /* two pieces, side by side: an operation may be on both */
    MPI_Win_attach(win, second + 50, 200);
    MPI_Get_address(first, &mine[0]);
    MPI_Get_address(second, &mine[1]);
    MPI_Allgather(mine, 2, MPI_AINT, all, 2, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    MPI_Put(out, 2, MPI_INT, right, MPI_Aint_add(all[2 * right], 4), 2, MPI_INT, win);
    MPI_Put(&out[2], 1, MPI_INT, right, MPI_Aint_add(all[2 * right + 1], 396), 1, MPI_INT, win);
    MPI_Get(in, 2, MPI_INT, left, MPI_Aint_add(all[2 * left + 1], 280), 2, MPI_INT, win);
    MPI_Accumulate(out, 3, MPI_INT, right, MPI_Aint_add(all[2 * right + 1], 196), 3, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    SAME(second[49], left);
    SAME(second[51], 20 + left);
    SAME(first[0], -1);
    SAME(first[1], left);
    SAME(first[2], 10 + left);
    SAME(first[3], -1);
    SAME(second[99], 20 + left);
    SAME(in[0], 7000 + left);
    SAME(in[1], 8000 + left);

    MPI_Win_detach(win, first);
    MPI_Win_attach(win, third, sizeof third);
    MPI_Get_address(third, &mine[0]);
    MPI_Allgather(mine, 2, MPI_AINT, all, 2, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    MPI_Put(out, 1, MPI_INT, right, all[2 * right], 1, MPI_INT, win);
    MPI_Put(out, 1, MPI_INT, right, all[2 * right + 1], 1, MPI_INT, win);
    MPI_Win_unlock(right, win);
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(win);
    SAME(third[0], left);
    SAME(third[1], -3);
    SAME(second[0], left);
    close_own(win);
    SAME(first[1], left); /* as it was left */
    MPI_Win_detach(win, second);
    MPI_Win_detach(win, second + 50);
    MPI_Win_free(&win); /* detaches the third */
    free(second);
    free(all);
}

static int deletions;

static int deleted(MPI_Win win, int key, void *value, void *extra)
{
    (void)win;
    (void)key;
    deletions++;
    *(int *)extra += *(int *)value;
    return MPI_SUCCESS;
}

static void own_attributes(void)
{
    int keys[2], sum = 0, one = 1, ten = 10, hundred = 100, flag;
    void *value;
    MPI_Win win;
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deleted, &keys[0], &sum);
    MPI_Win_create_keyval(MPI_WIN_DUP_FN, deleted, &keys[1], &sum);
    MPI_Win_get_attr(win, keys[0], &value, &flag);
    CHECK(!flag);
    MPI_Win_set_attr(win, keys[0], &one);
    MPI_Win_set_attr(win, keys[1], &ten);
    MPI_Win_get_attr(win, keys[0], &value, &flag);
    CHECK(flag && value == &one);
    MPI_Win_set_attr(win, keys[0], &hundred); /* deletes the former value */
    SAME(sum, 1);
    MPI_Win_delete_attr(win, keys[1]);
    SAME(sum, 11);
    MPI_Win_get_attr(win, keys[1], &value, &flag);
    CHECK(!flag);
    MPI_Win_set_attr(win, keys[1], &ten);
    MPI_Win_free_keyval(&keys[1]); /* it lives on as long as the value */
    SAME(keys[1], MPI_KEYVAL_INVALID);
    SAME(deletions, 2);
    MPI_Win_free(&win);
    SAME(deletions, 4);
    SAME(sum, 121);
    MPI_Win_free_keyval(&keys[0]);
}

static void names_and_group(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "x";
    int length = -1, result = -1;
    MPI_Win win;
    MPI_Group of_win, of_comm;
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, part, &win);
    MPI_Win_get_name(win, name, &length);
    CHECK(length == 0 && name[0] == 0);
    MPI_Win_set_name(win, "shutter");
    MPI_Win_get_name(win, name, &length);
    CHECK(length == 7 && strcmp(name, "shutter") == 0);
    MPI_Win_get_group(win, &of_win);
    MPI_Comm_group(part, &of_comm);
    MPI_Group_compare(of_win, of_comm, &result);
    SAME(result, MPI_IDENT);
    MPI_Group_free(&of_win);
    MPI_Group_free(&of_comm);
    MPI_Comm_free(&part); /* the window lives on */
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

/* If the window has the hint, its value is one of two. */
static void hint_is(MPI_Info info, const char *key, const char *one, const char *other)
{
    char value[64] = "";
    int length = sizeof value, flag = 0;
    MPI_Info_get_string(info, key, &length, value, &flag);
    if (flag && strcmp(value, one) != 0 && strcmp(value, other) != 0) {
        failures++;
        fprintf(stderr, "rank %d: hint %s: expected %s or %s, found %s\n", rank, key, one, other, value);
    }
}

/* A window keeps working with every hint that is true of the program. */
static void hints(void)
{
    static const char *const given[][2] = {{"no_locks", "true"}, {"same_size", "true"}, {"same_disp_unit", "true"},
                                           {"accumulate_ordering", "none"}, {"accumulate_ops", "same_op"},
                                           {"mpi_accumulate_granularity", "4"}};
    int *sum, i, count = 0, one = rank + 1;
    MPI_Info info, used;
    MPI_Win win;
    MPI_Info_create(&info);
    for (i = 0; i < (int)(sizeof given / sizeof *given); i++)
        MPI_Info_set(info, given[i][0], given[i][1]);
    MPI_Win_allocate(sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &sum, &win);
    MPI_Info_free(&info);
    MPI_Win_get_info(win, &used);
    MPI_Info_get_nkeys(used, &count);
    CHECK(count > 0);
    hint_is(used, "no_locks", "true", "false");
    hint_is(used, "same_size", "true", "false");
    hint_is(used, "same_disp_unit", "true", "false");
    hint_is(used, "accumulate_ordering", "none", "rar,raw,war,waw");
    hint_is(used, "accumulate_ops", "same_op", "same_op_no_op");
    MPI_Info_free(&used);
    *sum = 0;
    MPI_Win_fence(0, win);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    SAME(*sum, rank == 0 ? size * (size + 1) / 2 : 0);
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "false");
    MPI_Win_set_info(win, info);
    MPI_Info_free(&info);
    MPI_Win_get_info(win, &used);
    hint_is(used, "no_locks", "true", "false");
    MPI_Info_free(&used);
    MPI_Win_free(&win);
}

/* Windows on several communicators at a time, some of which are gone before they are used. */
static void several(void)
{
    enum { N = 5 };
    static const int order[N] = {2, 0, 4, 1, 3};
    MPI_Comm comms[N];
    MPI_Win wins[N];
    int cells[N][2], out[N], me[N], n[N], k;
    comms[0] = MPI_COMM_WORLD, comms[1] = MPI_COMM_SELF;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[3]); /* backwards */
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &comms[4]);
    for (k = 0; k < N; k++) {
        cells[k][0] = cells[k][1] = -1;
        MPI_Comm_rank(comms[k], &me[k]);
        MPI_Comm_size(comms[k], &n[k]);
        MPI_Win_create(cells[k], sizeof cells[k], sizeof(int), MPI_INFO_NULL, comms[k], &wins[k]);
        if (k >= 2)
            MPI_Comm_free(&comms[k]);
    }
    for (k = 0; k < N; k++)
        MPI_Win_fence(0, wins[k]);
    for (k = 0; k < N; k++) {
        out[k] = 1000 * k + me[k];
        MPI_Put(&out[k], 1, MPI_INT, (me[k] + 1) % n[k], k % 2, 1, MPI_INT, wins[k]);
    }
    for (k = N - 1; k >= 0; k--)
        MPI_Win_fence(0, wins[k]);
    for (k = 0; k < N; k++) {
        SAME(cells[k][k % 2], 1000 * k + (me[k] + n[k] - 1) % n[k]);
        SAME(cells[k][1 - k % 2], -1);
    }
    for (k = 0; k < N; k++)
        MPI_Win_free(&wins[order[k]]);
}

int main(int argc, char **argv)
{
    begin_windows(&argc, &argv);
    right = at_distance(1);
    left = at_distance(-1);
    created();
    allocated();
    shared(NULL);
    shared("true");
    dynamic();
    own_attributes();
    names_and_group();
    hints();
    several();
    return finish("win");
}
