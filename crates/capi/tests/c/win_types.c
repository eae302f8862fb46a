/* Windows and derived datatypes: of another kind at the origin than at the target, for every operation that takes them,
 * large ones, and large counts. */
#include "win.h"
#include <stddef.h>

static int right, left, few;

/* Shapes: ways to place the same number of integers in an arena. */

enum { ELEMENTS = 24, ARENA = 160, ANCHOR = 60, SHAPES = 14 };

typedef struct {
    MPI_Datatype type;
    int count;
    int at[ELEMENTS]; /* where in the arena each element is */
} shape;

static shape shapes[SHAPES];
static int made;

/* Learns from a message to oneself where the elements are. */
static void keep(MPI_Datatype type, int count)
{
    int arena[ARENA], i;
    shape *shape = &shapes[made++];
    MPI_Type_commit(&type);
    shape->type = type;
    shape->count = count;
    for (i = 0; i < ARENA; i++)
        arena[i] = i;
    MPI_Sendrecv(arena + ANCHOR, count, type, 0, 0, shape->at, ELEMENTS, MPI_INT, 0, 0, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
}

static void make_vectors(void)
{
    MPI_Datatype type, inner, block;
    MPI_Type_dup(MPI_INT, &type);
    keep(type, ELEMENTS);
    MPI_Type_vector(8, 3, 5, MPI_INT, &type);
    keep(type, 1);
    MPI_Type_vector(12, 2, -3, MPI_INT, &type);
    keep(type, 1);
    MPI_Type_create_hvector(ELEMENTS, 1, -8, MPI_INT, &type);
    keep(type, 1);
    MPI_Type_create_resized(MPI_INT, 0, 12, &type);
    keep(type, ELEMENTS);
    MPI_Type_vector(4, 2, 3, MPI_INT, &inner);
    MPI_Type_contiguous(3, inner, &type);
    MPI_Type_free(&inner);
    keep(type, 1);
    MPI_Type_vector(3, 1, 2, MPI_INT, &inner); /* a lower bound below its first element */
    MPI_Type_create_resized(inner, -8, 32, &type);
    MPI_Type_free(&inner);
    keep(type, 8);
    int lengths[3] = {1, 2, 1}, places[3] = {4, 0, 8};
    MPI_Type_contiguous(3, MPI_INT, &block);
    MPI_Type_indexed(3, lengths, places, block, &inner);
    MPI_Type_create_hvector(2, 1, 160, inner, &type);
    MPI_Type_free(&block);
    MPI_Type_free(&inner);
    keep(type, 1);
}

static void make_others(void)
{
    int lengths[6] = {1, 2, 3, 4, 5, 9}, places[6] = {40, 0, 10, 20, 33, 50};
    int low[3] = {5, 9, 2}, two[2] = {10, 14}, flat[2] = {8, 9}, flat_part[2] = {4, 6}, flat_start[2] = {2, 1};
    int cube[3] = {3, 5, 6}, cube_part[3] = {2, 3, 4}, cube_start[3] = {1, 1, 2};
    int all = 48, cyclic = MPI_DISTRIBUTE_CYCLIC, each = 4, parts = 2;
    MPI_Aint bytes[2] = {200, 16};
    MPI_Datatype type, ints[2] = {MPI_INT, MPI_INT};
    MPI_Type_indexed(6, lengths, places, MPI_INT, &type);
    keep(type, 1);
    MPI_Type_create_indexed_block(3, 2, low, MPI_INT, &type); /* a lower bound above 0 */
    keep(type, 4);
    MPI_Type_create_struct(2, two, bytes, ints, &type);
    keep(type, 1);
    MPI_Type_create_subarray(2, flat, flat_part, flat_start, MPI_ORDER_C, MPI_INT, &type);
    keep(type, 1);
    MPI_Type_create_subarray(3, cube, cube_part, cube_start, MPI_ORDER_FORTRAN, MPI_INT, &type);
    keep(type, 1);
    MPI_Type_create_darray(2, 1, 1, &all, &cyclic, &each, &parts, MPI_ORDER_C, MPI_INT, &type);
    keep(type, 1);
}

/* Every process has an arena for each shape and each of four operations. */
enum operation { PUT, GET, ACCUMULATE, GET_ACCUMULATE, OPERATIONS };

static int number(int owner, int arena, int i)
{
    return 100000 * owner + 1000 * arena + i;
}

static int arena_of(enum operation operation, int shape)
{
    return (int)operation * SHAPES + shape;
}

static void fill_arena(int *at, int owner, int arena)
{
    for (int i = 0; i < ARENA; i++)
        at[i] = number(owner, arena, i);
}

static void arena_is(const int *at, const int *expected, int here, int there)
{
    char what[80];
    for (int i = 0; i < ARENA; i++) {
        if (at[i] == expected[i])
            continue;
        snprintf(what, sizeof what, "integer %d of shape %d here and shape %d there", i, here, there);
        report(__FILE__, __LINE__, what, expected[i], at[i]);
        return;
    }
}

enum { ORIGIN = 60, RESULT = 61 }; /* as numbers of arenas */

typedef struct {
    int out[ARENA], got[SHAPES][ARENA], fetched[SHAPES][ARENA];
} local;

static void issue(int here, int target, local *local, MPI_Win win)
{
    const shape *from = &shapes[here], *other = &shapes[(here + 5) % SHAPES];
    for (int there = 0; there < SHAPES; there++) {
        const shape *to = &shapes[there];
        MPI_Aint put = ARENA * arena_of(PUT, there) + ANCHOR, get = ARENA * arena_of(GET, there) + ANCHOR;
        MPI_Aint add = ARENA * arena_of(ACCUMULATE, there) + ANCHOR;
        MPI_Aint fetch = ARENA * arena_of(GET_ACCUMULATE, there) + ANCHOR;
        MPI_Datatype own;
        MPI_Type_dup(to->type, &own);
        MPI_Put(local->out + ANCHOR, from->count, from->type, target, put, to->count, own, win);
        MPI_Get(local->got[there] + ANCHOR, from->count, from->type, target, get, to->count, own, win);
        MPI_Accumulate(local->out + ANCHOR, from->count, from->type, target, add, to->count, own, MPI_SUM, win);
        MPI_Get_accumulate(local->out + ANCHOR, from->count, from->type, local->fetched[there] + ANCHOR, other->count,
                           other->type, target, fetch, to->count, own, MPI_SUM, win);
        MPI_Type_free(&own); /* before they are complete */
    }
}

/* What was put and added here, by whom. */
static void stored(int here, int origin, const int *arenas)
{
    for (int there = 0; there < SHAPES; there++) {
        for (int operation = PUT; operation < OPERATIONS; operation++) {
            int arena = arena_of((enum operation)operation, there), expected[ARENA], k;
            fill_arena(expected, rank, arena);
            for (k = 0; k < ELEMENTS; k++) {
                int sent = number(origin, ORIGIN, shapes[here].at[k]), *at = &expected[shapes[there].at[k]];
                if (operation != GET)
                    *at = operation == PUT ? sent : *at + sent;
            }
            arena_is(arenas + ARENA * arena, expected, here, there);
        }
    }
}

/* What was read, from whom. */
static void loaded(int here, int target, const local *local)
{
    for (int there = 0; there < SHAPES; there++) {
        int got[ARENA], fetched[ARENA], k, other = (here + 5) % SHAPES;
        fill_arena(got, rank, RESULT);
        fill_arena(fetched, rank, RESULT);
        for (k = 0; k < ELEMENTS; k++) {
            int place = shapes[there].at[k];
            got[shapes[here].at[k]] = number(target, arena_of(GET, there), place);
            fetched[shapes[other].at[k]] = number(target, arena_of(GET_ACCUMULATE, there), place);
        }
        arena_is(local->got[there], got, here, there);
        arena_is(local->fetched[there], fetched, other, there);
    }
}

static void every_pair(void)
{
    int *arenas, here, i;
    local *local = malloc(sizeof *local);
    MPI_Win win;
    make_vectors();
    make_others();
    SAME(made, SHAPES);
    MPI_Win_allocate(OPERATIONS * SHAPES * ARENA * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &arenas, &win);
    for (here = 0; here < SHAPES; here += few ? 1 : 3) {
        int distance = 1 + here % 3;
        for (i = 0; i < OPERATIONS * SHAPES; i++)
            fill_arena(arenas + ARENA * i, rank, i);
        fill_arena(local->out, rank, ORIGIN);
        for (i = 0; i < SHAPES; i++) {
            fill_arena(local->got[i], rank, RESULT);
            fill_arena(local->fetched[i], rank, RESULT);
        }
        MPI_Win_fence(0, win);
        issue(here, at_distance(distance), local, win);
        MPI_Win_fence(0, win);
        stored(here, at_distance(-distance), arenas);
        loaded(here, at_distance(distance), local);
    }
    MPI_Win_free(&win);
    for (i = 0; i < SHAPES; i++)
        MPI_Type_free(&shapes[i].type);
    free(local);
}

/* Records whose members are placed in another order there. */

enum { RECORDS = 20 };

typedef struct {
    double d;
    int i[3];
    char c;
    short s;
} record;

typedef struct {
    short s;
    int i[3];
    char gap[6];
    double d;
    char c;
} other_record;

static MPI_Datatype record_type(MPI_Aint d, MPI_Aint i, MPI_Aint c, MPI_Aint s, MPI_Aint bytes)
{
    int lengths[4] = {1, 3, 1, 1};
    MPI_Aint places[4] = {d, i, c, s};
    MPI_Datatype members[4] = {MPI_DOUBLE, MPI_INT, MPI_CHAR, MPI_SHORT}, type, whole;
    MPI_Type_create_struct(4, lengths, places, members, &type);
    MPI_Type_create_resized(type, 0, bytes, &whole);
    MPI_Type_commit(&whole);
    MPI_Type_free(&type);
    return whole;
}

static record record_of(int owner, int k)
{
    record made = {owner + k / 32.0, {k, owner, k * owner}, (char)(k + owner % 50), (short)(100 * owner + k)};
    return made;
}

static void records(void)
{
    record out[RECORDS], in[RECORDS];
    other_record *there;
    MPI_Datatype one = record_type(offsetof(record, d), offsetof(record, i), offsetof(record, c), offsetof(record, s),
                                   sizeof(record));
    MPI_Datatype other = record_type(offsetof(other_record, d), offsetof(other_record, i), offsetof(other_record, c),
                                     offsetof(other_record, s), sizeof(other_record));
    MPI_Win win;
    int k;
    MPI_Win_allocate(RECORDS * (MPI_Aint)sizeof *there, sizeof *there, MPI_INFO_NULL, MPI_COMM_WORLD, &there, &win);
    memset(there, 0x5a, RECORDS * sizeof *there);
    for (k = 0; k < RECORDS; k++)
        out[k] = record_of(rank, k);
    MPI_Win_fence(0, win);
    MPI_Put(out + 1, RECORDS - 1, one, right, 1, RECORDS - 1, other, win);
    MPI_Put(out, 1, one, right, 0, 1, other, win);
    MPI_Win_fence(0, win);
    MPI_Get(in, RECORDS, one, right, 0, RECORDS, other, win);
    MPI_Win_fence(0, win);
    for (k = 0; k < RECORDS; k++) {
        record expected = record_of(left, k);
        SAME(there[k].d, expected.d);
        SAME(there[k].i[2], expected.i[2]);
        SAME(there[k].c, expected.c);
        SAME(there[k].s, expected.s);
        SAME(there[k].gap[3], 0x5a);
        SAME(in[k].d, out[k].d);
        SAME(in[k].i[0], out[k].i[0]);
        SAME(in[k].i[1], out[k].i[1]);
        SAME(in[k].c, out[k].c);
        SAME(in[k].s, out[k].s);
    }
    MPI_Win_free(&win);
    MPI_Type_free(&one);
    MPI_Type_free(&other);
}

/* Rows become columns. */
static void transposed(void)
{
    enum { EDGE = 32 };
    static int matrix[EDGE][EDGE], other[EDGE][EDGE], back[EDGE][EDGE];
    MPI_Datatype column, narrow;
    MPI_Win win;
    int i, j;
    for (i = 0; i < EDGE; i++)
        for (j = 0; j < EDGE; j++)
            matrix[i][j] = number(rank, i, j);
    MPI_Type_vector(EDGE, 1, EDGE, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &narrow);
    MPI_Type_commit(&column);
    MPI_Type_commit(&narrow);
    MPI_Win_create(other, sizeof other, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    for (i = 0; i < EDGE; i++)
        MPI_Put(matrix[i], EDGE, MPI_INT, right, i, 1, column, win);
    MPI_Win_flush(right, win);
    MPI_Get(back, EDGE * EDGE, MPI_INT, right, 0, EDGE, narrow, win);
    MPI_Win_unlock(right, win);
    SAME(memcmp(matrix, back, sizeof matrix), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(win);
    for (i = 0; i < EDGE; i++)
        for (j = 0; j < EDGE; j++)
            SAME(other[j][i], number(left, i, j));
    close_own(win);
    MPI_Win_free(&win);
    MPI_Type_free(&column);
    MPI_Type_free(&narrow);
}

/* Many numbers with gaps, on either side and on both. */
static void strided(void)
{
    int n = few ? 65536 : 2048, i;
    double *there, *out = malloc(16 * (size_t)n), *in = malloc(16 * (size_t)n);
    MPI_Datatype every_second, fours;
    MPI_Win win;
    MPI_Type_vector(n, 1, 2, MPI_DOUBLE, &every_second);
    MPI_Type_commit(&every_second);
    MPI_Type_vector(n / 4, 4, 7, MPI_DOUBLE, &fours);
    MPI_Type_commit(&fours);
    MPI_Win_allocate(16 * (MPI_Aint)n, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &there, &win);
    for (i = 0; i < 2 * n; i++) {
        there[i] = -1;
        out[i] = 1000.0 * rank + i;
        in[i] = -2;
    }
    MPI_Win_fence(0, win);
    MPI_Put(out, n, MPI_DOUBLE, right, 0, 1, every_second, win);
    MPI_Win_fence(0, win);
    for (i = 0; i < 2 * n; i++)
        SAME(there[i], i % 2 ? -1 : 1000.0 * left + i / 2);
    MPI_Win_fence(0, win);
    MPI_Accumulate(out, 1, every_second, right, 0, n, MPI_DOUBLE, MPI_SUM, win); /* the first half gets i * 2 more */
    MPI_Win_fence(0, win);
    for (i = 0; i < 2 * n; i++)
        SAME(there[i], (i % 2 ? -1 : 1000.0 * left + i / 2) + (i < n ? 1000.0 * left + 2 * i : 0));
    MPI_Win_fence(0, win);
    MPI_Get(in, 1, every_second, left, 0, 1, fours, win);
    MPI_Win_fence(0, win);
    for (i = 0; i < n; i++) {
        int from = i / 4 * 7 + i % 4, before = at_distance(-2);
        double first = from % 2 ? -1 : 1000.0 * before + from / 2, added = from < n ? 1000.0 * before + 2 * from : 0;
        SAME(in[2 * i], first + added);
        SAME(in[2 * i + 1], -2);
    }
    MPI_Win_free(&win);
    MPI_Type_free(&every_second);
    MPI_Type_free(&fours);
    free(out);
    free(in);
}

/* Thousands of blocks by chance, which end elsewhere at the origin than at the target. */
static MPI_Datatype patches(uint64_t seed, int longest, int total, int *at, int *span)
{
    int *lengths = malloc(sizeof(int) * (size_t)total), *places = malloc(sizeof(int) * (size_t)total), n = 0, k = 0, i;
    MPI_Datatype type;
    for (*span = 0; k < total; n++) {
        lengths[n] = 1 + (int)(next_random(&seed) % (unsigned)longest);
        if (lengths[n] > total - k)
            lengths[n] = total - k;
        places[n] = *span + (int)(next_random(&seed) % 3);
        for (i = 0; i < lengths[n]; i++)
            at[k++] = places[n] + i;
        *span = places[n] + lengths[n];
    }
    MPI_Type_indexed(n, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    free(lengths);
    free(places);
    return type;
}

static void patchwork(void)
{
    int total = few ? 30000 : 3000, span, span_there, i, *out, *back, *there;
    int *from = malloc(sizeof(int) * (size_t)total), *to = malloc(sizeof(int) * (size_t)total);
    MPI_Datatype here = patches(11, 5, total, from, &span), other = patches(12, 9, total, to, &span_there);
    MPI_Win win;
    out = malloc(sizeof(int) * (size_t)span);
    back = malloc(sizeof(int) * (size_t)span);
    MPI_Win_allocate(span_there * (MPI_Aint)sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &there, &win);
    for (i = 0; i < span_there; i++)
        there[i] = -1;
    for (i = 0; i < span; i++) {
        out[i] = 7 * rank + i;
        back[i] = -1;
    }
    MPI_Win_fence(0, win);
    MPI_Put(out, 1, here, right, 0, 1, other, win);
    MPI_Win_fence(0, win);
    MPI_Accumulate(out, 1, here, right, 0, 1, other, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get(back, 1, here, right, 0, 1, other, win);
    MPI_Win_fence(0, win);
    for (i = 0; i < total; i++) {
        SAME(there[to[i]], 2 * (7 * left + from[i]));
        SAME(back[from[i]], 2 * out[from[i]]);
        there[to[i]] = back[from[i]] = -1;
    }
    for (i = 0; i < span_there; i++)
        SAME(there[i], -1);
    for (i = 0; i < span; i++)
        SAME(back[i], -1);
    MPI_Win_free(&win);
    MPI_Type_free(&here);
    MPI_Type_free(&other);
    free(from), free(to), free(out), free(back);
}

/* The forms with large counts. */
static void large_counts(void)
{
    MPI_Count two = 2, vast = (MPI_Count)1 << 40;
    int *there, out[4] = {rank, rank + 1, rank + 2, rank + 3}, in[4] = {0}, old[4] = {0}, i;
    MPI_Datatype pairs, nothing;
    MPI_Request requests[4];
    MPI_Win win;
    MPI_Type_vector_c(2, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    MPI_Win_allocate_c(12 * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &there, &win);
    memset(there, 0, 12 * sizeof(int));
    MPI_Win_fence(0, win);
    MPI_Put_c(out, 4, MPI_INT, right, 0, 4, MPI_INT, win);
    MPI_Put_c(out, two, MPI_INT, right, 4, 1, pairs, win);
    MPI_Put_c(out, vast, nothing, right, 8, vast, nothing, win); /* of nothing there may be much */
    MPI_Accumulate_c(out, 4, MPI_INT, right, 8, 4, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get_c(in, 4, MPI_INT, left, 0, 4, MPI_INT, win);
    MPI_Get_accumulate_c(out, 4, MPI_INT, old, 4, MPI_INT, right, 8, 4, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (i = 0; i < 4; i++) {
        SAME(there[i], left + i);
        SAME(there[4 + i], i == 0 ? left : i == 2 ? left + 1 : 0);
        SAME(there[8 + i], 2 * (left + i));
        SAME(in[i], at_distance(-2) + i);
        SAME(old[i], rank + i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Rput_c(out, 4, MPI_INT, right, 4, 4, MPI_INT, win, &requests[0]);
    MPI_Rget_c(in, 4, MPI_INT, right, 0, 4, MPI_INT, win, &requests[1]);
    MPI_Raccumulate_c(out, 4, MPI_INT, right, 8, 4, MPI_INT, MPI_REPLACE, win, &requests[2]);
    MPI_Rget_accumulate_c(out, 4, MPI_INT, old, 4, MPI_INT, right, 8, 4, MPI_INT, MPI_PROD, win, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    open_own(win);
    for (i = 0; i < 4; i++) {
        SAME(there[4 + i], left + i);
        SAME(there[8 + i], (left + i) * (left + i));
        SAME(in[i], rank + i);
        SAME(old[i], rank + i);
    }
    close_own(win);
    MPI_Win_free(&win);
    MPI_Type_free(&pairs);
    MPI_Type_free(&nothing);
}

/* Units for displacements of type MPI_Aint, and shared memory by its large forms. */
static void large_units(void)
{
    MPI_Aint unit = (MPI_Aint)1 << 30, bytes, seen;
    int cell = -1, *mine, *found, me;
    MPI_Comm node;
    MPI_Win win;
    MPI_Win_create_c(&cell, sizeof cell, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, right, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    SAME(cell, left);
    MPI_Win_free(&win);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Win_allocate_shared_c(8, 4, MPI_INFO_NULL, node, &mine, &win);
    MPI_Win_shared_query_c(win, me, &bytes, &seen, &found);
    CHECK(found == mine);
    SAME(bytes, 8);
    SAME(seen, 4);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
}

int main(int argc, char **argv)
{
    begin_windows(&argc, &argv);
    right = at_distance(1);
    left = at_distance(-1);
    few = size <= 8;
    every_pair();
    records();
    transposed();
    strided();
    patchwork();
    large_counts();
    large_units();
    return finish("win_types");
}
