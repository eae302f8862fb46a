/* Mistakes with windows: each is reported by the class that MPI has for it and changes nothing; the window works on. */
#include "win.h"

enum { CELLS = 8, FAR = 1 << 20, NO_RANK = -77, NO_ASSERT = 1 << 30, NO_LOCK_TYPE = 12345 };

static int memory[3 * CELLS], *cells = memory + CELLS; /* the window is in the middle */
static int right, x = 5, y = 6, z = 7;
static MPI_Win win;
static MPI_Group self;

static void class_is(const char *file, int line, const char *call, int code, int one, int other)
{
    int found = class_of(code), length;
    char text[MPI_MAX_ERROR_STRING], right_text[MPI_MAX_ERROR_STRING];
    if (found == one || found == other)
        return;
    MPI_Error_string(code, text, &length);
    MPI_Error_string(one, right_text, &length);
    failures++;
    fprintf(stderr, "rank %d: %s:%d: %s: expected class %d (%s), found %d (%s)\n", rank, file, line, call, one,
            right_text, found, text);
}

#define FAILS(call, class) class_is(__FILE__, __LINE__, #call, call, class, class)
#define FAILS_EITHER(call, one, other) class_is(__FILE__, __LINE__, #call, call, one, other)
#define WORKS(call) FAILS(call, MPI_SUCCESS)

#define PUT(target) MPI_Put(&x, 1, MPI_INT, target, 0, 1, MPI_INT, win)
#define GET(target) MPI_Get(&y, 1, MPI_INT, target, 0, 1, MPI_INT, win)
#define ADD(target) MPI_Accumulate(&x, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, win)

/* The window works: with fences, general epochs and locks. */
static void works(void)
{
    int in = -1, out = 100 + rank;
    cells[0] = -1;
    WORKS(MPI_Win_fence(0, win));
    WORKS(MPI_Put(&out, 1, MPI_INT, right, 0, 1, MPI_INT, win));
    WORKS(MPI_Win_fence(0, win));
    SAME(cells[0], 100 + at_distance(-1));
    WORKS(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    WORKS(MPI_Win_post(self, 0, win));
    WORKS(MPI_Win_start(self, 0, win));
    WORKS(MPI_Get(&in, 1, MPI_INT, rank, 0, 1, MPI_INT, win));
    WORKS(MPI_Win_complete(win));
    WORKS(MPI_Win_wait(win));
    SAME(in, 100 + at_distance(-1));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
    WORKS(MPI_Get(&in, 1, MPI_INT, right, 0, 1, MPI_INT, win));
    WORKS(MPI_Win_unlock(right, win));
    SAME(in, 100 + rank);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Operations without an epoch, and ends of epochs that have not begun. */
static void outside(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int flag;
    FAILS(PUT(right), MPI_ERR_RMA_SYNC);
    FAILS(GET(right), MPI_ERR_RMA_SYNC);
    FAILS(PUT(rank), MPI_ERR_RMA_SYNC);
    FAILS(ADD(right), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Get_accumulate(&x, 1, MPI_INT, &y, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Fetch_and_op(&x, &y, MPI_INT, right, 0, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Compare_and_swap(&x, &y, &z, MPI_INT, right, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Rput(&x, 1, MPI_INT, right, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Rget(&y, 1, MPI_INT, right, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Raccumulate(&x, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_SUM, win, &request), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(right, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush(right, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_local(right, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    SAME(cells[0], 0);
    SAME(y, 6);
}

/* What is between fences is no passive epoch; after the last fence there is no epoch at all. */
static void between_fences(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    WORKS(MPI_Win_fence(0, win));
    WORKS(GET(right));
    if (!lenient)
        FAILS(MPI_Rput(&x, 1, MPI_INT, right, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush(right, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(right, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    WORKS(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    FAILS(PUT(right), MPI_ERR_RMA_SYNC);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void in_general_epochs(void)
{
    WORKS(MPI_Win_post(self, 0, win));
    FAILS(MPI_Win_post(self, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    WORKS(MPI_Win_start(self, 0, win));
    FAILS(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush(rank, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(rank, win), MPI_ERR_RMA_SYNC);
    if (right != rank)
        FAILS_EITHER(PUT(right), MPI_ERR_RMA_SYNC, MPI_ERR_RANK);
    x = 77;
    WORKS(PUT(rank));
    WORKS(MPI_Win_complete(win));
    FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    FAILS(PUT(rank), MPI_ERR_RMA_SYNC);
    WORKS(MPI_Win_wait(win));
    FAILS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    SAME(cells[0], 77);
    cells[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void in_lock_epochs(void)
{
    WORKS(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    if (right != rank && !lenient) {
        FAILS(PUT(right), MPI_ERR_RMA_SYNC);
        FAILS(MPI_Win_flush(right, win), MPI_ERR_RMA_SYNC);
        FAILS(MPI_Win_unlock(right, win), MPI_ERR_RMA_SYNC);
    }
    WORKS(GET(rank));
    WORKS(MPI_Win_unlock(rank, win));
    FAILS(MPI_Win_unlock(rank, win), MPI_ERR_RMA_SYNC);
    WORKS(MPI_Win_lock_all(0, win));
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(rank, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    WORKS(GET(right));
    WORKS(MPI_Win_flush_all(win));
    WORKS(MPI_Win_unlock_all(win));
    FAILS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Ranks, counts, types, lock types and asserts that there are not. */
static void arguments(void)
{
    MPI_Datatype vague;
    int bad_assert = lenient ? MPI_ERR_ARG : MPI_ERR_ASSERT, bad_type = lenient ? MPI_ERR_ARG : MPI_ERR_LOCKTYPE;
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, NO_RANK, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_lock(NO_LOCK_TYPE, rank, 0, win), bad_type);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, rank, NO_ASSERT, win), bad_assert);
    FAILS(MPI_Win_lock_all(NO_ASSERT, win), bad_assert);
    FAILS(MPI_Win_fence(NO_ASSERT, win), bad_assert);
    FAILS(MPI_Win_post(self, NO_ASSERT, win), bad_assert);
    FAILS(MPI_Win_start(self, NO_ASSERT, win), bad_assert);
    FAILS(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    FAILS(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    WORKS(MPI_Win_lock_all(0, win));
    FAILS(PUT(size), MPI_ERR_RANK);
    FAILS(PUT(NO_RANK), MPI_ERR_RANK);
    FAILS(GET(size), MPI_ERR_RANK);
    FAILS(ADD(NO_RANK), MPI_ERR_RANK);
    FAILS(MPI_Fetch_and_op(&x, &y, MPI_INT, size, 0, MPI_SUM, win), MPI_ERR_RANK);
    FAILS(MPI_Compare_and_swap(&x, &y, &z, MPI_INT, size, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_flush(size, win), MPI_ERR_RANK);
    FAILS(MPI_Win_flush_local(NO_RANK, win), MPI_ERR_RANK);
    FAILS(MPI_Put(&x, -1, MPI_INT, right, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Put(&x, 1, MPI_INT, right, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Get(&y, -3, MPI_INT, right, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Accumulate(&x, 1, MPI_INT, right, 0, -1, MPI_INT, MPI_SUM, win), MPI_ERR_COUNT);
    FAILS(MPI_Put(&x, 1, MPI_DATATYPE_NULL, right, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    FAILS(MPI_Put(&x, 1, MPI_INT, right, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
    MPI_Type_contiguous(1, MPI_INT, &vague); /* not committed */
    FAILS(MPI_Put(&x, 1, vague, right, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    FAILS(MPI_Get(&y, 1, MPI_INT, right, 0, 1, vague, win), MPI_ERR_TYPE);
    MPI_Type_commit(&vague);
    FAILS(MPI_Fetch_and_op(&x, &y, vague, right, 0, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Compare_and_swap(&x, &y, &z, vague, right, 0, win), MPI_ERR_TYPE);
    FAILS(MPI_Compare_and_swap(&x, &y, &z, MPI_FLOAT, right, 0, win), MPI_ERR_TYPE);
    MPI_Type_free(&vague);
    WORKS(MPI_Win_unlock_all(win));
    SAME(y, 0); /* what was got when it was right */
    MPI_Barrier(MPI_COMM_WORLD);
}

static void own_sum(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)length;
    (void)type;
    CHECK(0); /* never called */
}

static void operations(void)
{
    MPI_Op own;
    double d = 1;
    MPI_Op_create(own_sum, 1, &own);
    WORKS(MPI_Win_lock_all(0, win));
    FAILS(MPI_Accumulate(&x, 1, MPI_INT, right, 0, 1, MPI_INT, own, win), MPI_ERR_OP);
    FAILS(MPI_Get_accumulate(&x, 1, MPI_INT, &y, 1, MPI_INT, right, 0, 1, MPI_INT, own, win), MPI_ERR_OP);
    FAILS(MPI_Fetch_and_op(&x, &y, MPI_INT, right, 0, own, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(&x, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    FAILS(MPI_Fetch_and_op(&x, &y, MPI_INT, right, 0, MPI_OP_NULL, win), MPI_ERR_OP);
    if (!lenient) {
        FAILS(MPI_Accumulate(&d, 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, MPI_BAND, win), MPI_ERR_OP);
        FAILS(MPI_Accumulate(&x, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
    }
    WORKS(MPI_Win_unlock_all(win));
    MPI_Op_free(&own);
    MPI_Barrier(MPI_COMM_WORLD);
    SAME(cells[0], 0);
}

/* An error of the operation, of what waits for it, or of the end of the epoch. */
static int first_error(int code, MPI_Request *request, int target, MPI_Win of)
{
    int waited = request && *request != MPI_REQUEST_NULL ? MPI_Wait(request, MPI_STATUS_IGNORE) : MPI_SUCCESS;
    int flushed = MPI_Win_flush(target, of), unlocked = MPI_Win_unlock(target, of);
    return code != MPI_SUCCESS ? code : waited != MPI_SUCCESS ? waited : flushed != MPI_SUCCESS ? flushed : unlocked;
}

#define OUT_OF(of, call)                                                                         \
    do {                                                                                         \
        MPI_Request request = MPI_REQUEST_NULL;                                                  \
        int code_;                                                                               \
        WORKS(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, of));                                      \
        code_ = call;                                                                            \
        code_ = first_error(code_, &request, right, of);                                         \
        class_is(__FILE__, __LINE__, #call, code_, MPI_ERR_RMA_RANGE, MPI_ERR_DISP);             \
    } while (0)

/* What is beyond the window at either end, or cannot be counted at all. */
static void out_of_range(void)
{
    static const MPI_Aint far[] = {CELLS, -1, FAR, (MPI_Aint)1 << 61, INTPTR_MAX, INTPTR_MIN};
    int many[CELLS + 1] = {0}, i;
    MPI_Datatype backwards, wide;
    MPI_Type_vector(2, 1, -1, MPI_INT, &backwards);
    MPI_Type_vector(2, 1, CELLS, MPI_INT, &wide);
    MPI_Type_commit(&backwards);
    MPI_Type_commit(&wide);
    for (i = size > 8 ? rank % 2 : 0; i < (int)(sizeof far / sizeof *far); i += size > 8 ? 2 : 1) {
        OUT_OF(win, MPI_Put(&x, 1, MPI_INT, right, far[i], 1, MPI_INT, win));
        OUT_OF(win, MPI_Get(&y, 1, MPI_INT, right, far[i], 1, MPI_INT, win));
        OUT_OF(win, MPI_Accumulate(&x, 1, MPI_INT, right, far[i], 1, MPI_INT, MPI_SUM, win));
        OUT_OF(win, MPI_Fetch_and_op(&x, &y, MPI_INT, right, far[i], MPI_SUM, win));
        OUT_OF(win, MPI_Compare_and_swap(&x, &y, &z, MPI_INT, right, far[i], win));
        OUT_OF(win, MPI_Rput(&x, 1, MPI_INT, right, far[i], 1, MPI_INT, win, &request));
        OUT_OF(win, MPI_Rget(&y, 1, MPI_INT, right, far[i], 1, MPI_INT, win, &request));
    }
    OUT_OF(win, MPI_Put(many, CELLS + 1, MPI_INT, right, 0, CELLS + 1, MPI_INT, win));
    OUT_OF(win, MPI_Put(many, 2, MPI_INT, right, CELLS - 1, 2, MPI_INT, win));
    OUT_OF(win, MPI_Put(many, 2, MPI_INT, right, 0, 1, backwards, win));
    OUT_OF(win, MPI_Put(many, 2, MPI_INT, right, 0, 1, wide, win));
    MPI_Type_free(&backwards);
    MPI_Type_free(&wide);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < 3 * CELLS; i++)
        SAME(memory[i], 0);
    SAME(y, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Memory that is not attached, or not any more. */
static void not_attached(void)
{
    int here[2] = {0, 0};
    MPI_Aint address, *all = malloc(sizeof(MPI_Aint) * (size_t)size);
    MPI_Win dynamic;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN);
    MPI_Get_address(here, &address);
    MPI_Allgather(&address, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    OUT_OF(dynamic, MPI_Put(&x, 1, MPI_INT, right, all[right], 1, MPI_INT, dynamic));
    OUT_OF(dynamic, MPI_Get(&y, 1, MPI_INT, right, all[right], 1, MPI_INT, dynamic));
    CHECK(MPI_Win_detach(dynamic, here) != MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_Win_attach(dynamic, here, sizeof(int)));
    MPI_Barrier(MPI_COMM_WORLD);
    OUT_OF(dynamic, MPI_Put(&x, 1, MPI_INT, right, all[right] + 4, 1, MPI_INT, dynamic)); /* the other half */
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_Win_detach(dynamic, here));
    MPI_Barrier(MPI_COMM_WORLD);
    OUT_OF(dynamic, MPI_Put(&x, 1, MPI_INT, right, all[right], 1, MPI_INT, dynamic));
    CHECK(MPI_Win_detach(dynamic, here) != MPI_SUCCESS);
    MPI_Win_free(&dynamic);
    SAME(here[0], 0);
    SAME(here[1], 0);
    free(all);
}

/* The only one of a group. */
static MPI_Group alone(int member)
{
    MPI_Group world, one;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &member, &one);
    MPI_Group_free(&world);
    return one;
}

/* What a target refuses is heard of by who put it, though the epoch is not one of locks: by the fence behind it, or at last when the
 * window is freed. A second one of these hears of nothing. */
static void refused(void)
{
    int here[2] = {0, 0}, code, over;
    MPI_Aint address, *all = malloc(sizeof(MPI_Aint) * (size_t)size);
    MPI_Win dynamic;
    MPI_Group origin = alone(at_distance(-1)), target = alone(right);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN);
    MPI_Get_address(here, &address);
    MPI_Allgather(&address, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    WORKS(MPI_Win_fence(0, dynamic));
    code = MPI_Put(&x, 1, MPI_INT, right, all[right], 1, MPI_INT, dynamic);
    over = MPI_Win_fence(0, dynamic);
    FAILS(code != MPI_SUCCESS ? code : over, MPI_ERR_RMA_RANGE);
    WORKS(MPI_Win_fence(MPI_MODE_NOSUCCEED, dynamic));
    WORKS(MPI_Win_post(origin, 0, dynamic));
    WORKS(MPI_Win_start(target, 0, dynamic));
    code = MPI_Put(&x, 1, MPI_INT, right, all[right], 1, MPI_INT, dynamic);
    over = MPI_Win_complete(dynamic);
    code = code != MPI_SUCCESS ? code : over;
    over = MPI_Win_wait(dynamic);
    code = code != MPI_SUCCESS ? code : over;
    /* Not by a lock, which would leave open whether it is had; nor by what else begins an access. */
    MPI_Barrier(MPI_COMM_WORLD);
    for (int again = 0; again < 2; again++) {
        WORKS(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, dynamic));
        over = MPI_Win_unlock(rank, dynamic);
        code = code != MPI_SUCCESS ? code : over;
        WORKS(MPI_Win_lock_all(again ? MPI_MODE_NOCHECK : 0, dynamic));
        over = MPI_Win_unlock_all(dynamic);
        code = code != MPI_SUCCESS ? code : over;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    over = MPI_Win_free(&dynamic);
    FAILS(code != MPI_SUCCESS ? code : over, MPI_ERR_RMA_RANGE);
    CHECK(dynamic == MPI_WIN_NULL);
    SAME(here[0], 0);
    SAME(here[1], 0);
    MPI_Group_free(&origin);
    MPI_Group_free(&target);
    free(all);
}

static void flavors(void)
{
    MPI_Aint bytes;
    int unit;
    void *base;
    MPI_Win dynamic;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN);
    FAILS(MPI_Win_shared_query(dynamic, rank, &bytes, &unit, &base), MPI_ERR_RMA_FLAVOR);
    FAILS(MPI_Win_attach(win, memory, 4), MPI_ERR_RMA_FLAVOR);
    FAILS(MPI_Win_detach(win, memory), MPI_ERR_RMA_FLAVOR);
    FAILS(MPI_Win_attach(dynamic, memory, -4), MPI_ERR_SIZE);
    /* What has no bytes overlaps nothing, and is attached as often as the program likes. */
    WORKS(MPI_Win_attach(dynamic, memory, 0));
    WORKS(MPI_Win_attach(dynamic, memory, sizeof(int)));
    WORKS(MPI_Win_attach(dynamic, memory, 0));
    FAILS(MPI_Win_attach(dynamic, memory, sizeof(int)), MPI_ERR_RMA_ATTACH);
    WORKS(MPI_Win_attach(dynamic, NULL, 0));
    WORKS(MPI_Win_attach(dynamic, NULL, 0));
    for (int i = 0; i < 3; i++)
        WORKS(MPI_Win_detach(dynamic, memory));
    FAILS(MPI_Win_detach(dynamic, memory), MPI_ERR_RMA_ATTACH);
    WORKS(MPI_Win_detach(dynamic, NULL));
    WORKS(MPI_Win_detach(dynamic, NULL));
    FAILS(MPI_Win_detach(dynamic, NULL), MPI_ERR_RMA_ATTACH);
    MPI_Win_free(&dynamic);
}

/* Windows that cannot be made; all processes make the same mistake. */
static void not_made(void)
{
    MPI_Win none;
    MPI_Comm node;
    void *base;
    int n, code, agreed[2], mine[2];
    FAILS_EITHER(MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &none), MPI_ERR_SIZE, MPI_ERR_ARG);
    FAILS_EITHER(MPI_Win_create(memory, 4, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &none), MPI_ERR_DISP, MPI_ERR_ARG);
    FAILS_EITHER(MPI_Win_create(memory, 4, -4, MPI_INFO_NULL, MPI_COMM_WORLD, &none), MPI_ERR_DISP, MPI_ERR_ARG);
    FAILS(MPI_Win_create(memory, 4, 4, MPI_INFO_NULL, MPI_COMM_NULL, &none), MPI_ERR_COMM);
    FAILS_EITHER(MPI_Win_allocate(-1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &none), MPI_ERR_SIZE, MPI_ERR_ARG);
    FAILS(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_NULL, &none), MPI_ERR_COMM);
    /* Memory that not all can share: the same answer for all. */
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &n);
    MPI_Comm_free(&node);
    MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (n < size) {
        code = class_of(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &none));
        mine[0] = code, mine[1] = -code;
        MPI_Allreduce(mine, agreed, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        SAME(agreed[0], -agreed[1]);
        if (!lenient)
            FAILS_EITHER(code, MPI_ERR_RMA_SHARED, MPI_SUCCESS);
        if (agreed[0] == MPI_SUCCESS)
            MPI_Win_free(&none);
    }
}

/* No window at all, and keys of something else. */
static void no_window(void)
{
    MPI_Win none = MPI_WIN_NULL, gone;
    MPI_Group group;
    void *value;
    int flag, key, length;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &gone);
    WORKS(MPI_Win_free(&gone));
    FAILS(MPI_Win_free(&gone), MPI_ERR_WIN);
    FAILS(MPI_Win_free(&none), MPI_ERR_WIN);
    FAILS(MPI_Win_fence(0, none), MPI_ERR_WIN);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, none), MPI_ERR_WIN);
    FAILS(MPI_Win_wait(none), MPI_ERR_WIN);
    FAILS(MPI_Put(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, none), MPI_ERR_WIN);
    FAILS(MPI_Win_get_group(none, &group), MPI_ERR_WIN);
    WORKS(MPI_Win_get_name(none, name, &length)); /* MPI-5 7.8: it has a name */
    CHECK(strcmp(name, "MPI_WIN_NULL") == 0);
    FAILS(MPI_Win_get_attr(none, MPI_WIN_BASE, &value, &flag), MPI_ERR_WIN);
    FAILS(MPI_Win_set_errhandler(none, MPI_ERRORS_RETURN), MPI_ERR_WIN);
    FAILS(MPI_Win_set_attr(win, MPI_KEYVAL_INVALID, NULL), MPI_ERR_KEYVAL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    FAILS(MPI_Win_set_attr(win, key, NULL), MPI_ERR_KEYVAL);
    MPI_Comm_free_keyval(&key);
}

static int heard, heard_class;
static MPI_Win heard_of;

static void listen(MPI_Win *at, int *code, ...)
{
    heard++;
    heard_of = *at;
    heard_class = class_of(*code);
}

/* A handler of the program's own; then nothing is fatal any more. */
static void handlers(void)
{
    MPI_Errhandler mine, found;
    MPI_Win_get_errhandler(win, &found);
    CHECK(found == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&found);
    MPI_Win_create_errhandler(listen, &mine);
    MPI_Win_set_errhandler(win, mine);
    MPI_Win_get_errhandler(win, &found);
    CHECK(found == mine);
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&mine);
    PUT(right);
    SAME(heard, 1);
    SAME(heard_class, MPI_ERR_RMA_SYNC);
    CHECK(heard_of == win);
    MPI_Win_unlock(rank, win);
    SAME(heard, 2);
    MPI_Win_call_errhandler(win, MPI_ERR_OTHER);
    SAME(heard, 3);
    SAME(heard_class, MPI_ERR_OTHER);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
}

int main(int argc, char **argv)
{
    MPI_Group world;
    begin_windows(&argc, &argv);
    right = at_distance(1);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &rank, &self);
    MPI_Group_free(&world);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Win_create(cells, CELLS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    handlers();
    outside();
    between_fences();
    in_general_epochs();
    in_lock_epochs();
    arguments();
    operations();
    if (!lenient) {
        out_of_range();
        not_attached();
        refused();
    }
    flavors();
    not_made();
    no_window();
    works();
    WORKS(MPI_Win_lock_all(0, win));
    FAILS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    WORKS(MPI_Win_unlock_all(win));
    works();
    WORKS(MPI_Win_free(&win));
    MPI_Group_free(&self);
    return finish("win_errors");
}
