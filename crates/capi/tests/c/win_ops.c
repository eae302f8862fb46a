/* Accumulates: every operation on every type that it is for, one origin at a time and all of them at once, and pairs in
 * every layout. */
#include "win.h"
#include <complex.h>
#include <stdbool.h>

static int right, few;

enum operation { MAX, MIN, SUM, PROD, LAND, LOR, LXOR, BAND, BOR, BXOR, MINLOC, MAXLOC, REPLACE, OPERATIONS };

static MPI_Op op_of(int operation)
{
    MPI_Op all[OPERATIONS] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_LOR, MPI_LXOR,
                              MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE};
    return all[operation];
}

static const char *const operation_names[OPERATIONS] = {"max", "min", "sum", "prod", "land", "lor", "lxor",
                                                        "band", "bor", "bxor", "minloc", "maxloc", "replace"};

enum {
    ORDER = 1 << MAX | 1 << MIN,
    ARITHMETIC = 1 << SUM | 1 << PROD,
    LOGIC = 1 << LAND | 1 << LOR | 1 << LXOR,
    BITS = 1 << BAND | 1 << BOR | 1 << BXOR,
    PLACES = 1 << MINLOC | 1 << MAXLOC,
};

/* A number, the two parts of a complex one, or a value and its place: all of them small integers. */
typedef struct {
    int first, second;
} value;

static value combined(int operation, int pairs, value a, value b)
{
    value sum = {a.first + b.first, a.second + b.second};
    value product = {a.first * b.first - a.second * b.second, a.first * b.second + a.second * b.first};
    value lower = {a.first, a.second < b.second ? a.second : b.second};
    int which = a.first < b.first ? -1 : a.first > b.first;
    switch (operation) {
    case MAX: return which < 0 ? b : a;
    case MIN: return which > 0 ? b : a;
    case SUM: return sum;
    case PROD: return product;
    case LAND: return (value){a.first && b.first, 0};
    case LOR: return (value){a.first || b.first, 0};
    case LXOR: return (value){!a.first != !b.first, 0};
    case BAND: return (value){a.first & b.first, 0};
    case BOR: return (value){a.first | b.first, 0};
    case BXOR: return (value){a.first ^ b.first, 0};
    case MINLOC: return pairs && which == 0 ? lower : which > 0 ? b : a;
    case MAXLOC: return pairs && which == 0 ? lower : which < 0 ? b : a;
    default: return b;
    }
}

typedef struct {
    const char *name;
    MPI_Datatype type;
    size_t bytes;
    int operations, has_sign, has_second, swaps;
    void (*set)(void *, value);
    long double (*first)(const void *), (*second)(const void *);
} kind;

static long double nothing(const void *at)
{
    (void)at;
    return 0;
}

#define NUMBER(name, T)                                                                          \
    static void set_##name(void *at, value v) { *(T *)at = (T)v.first; }                         \
    static long double first_##name(const void *at) { return (long double)*(const T *)at; }

#define COMPLEX(name, T)                                                                         \
    static void set_##name(void *at, value v) { ((T *)at)[0] = (T)v.first, ((T *)at)[1] = (T)v.second; } \
    static long double first_##name(const void *at) { return ((const T *)at)[0]; }               \
    static long double second_##name(const void *at) { return ((const T *)at)[1]; }

#define PAIR(name, T)                                                                            \
    typedef struct { T value; int place; } name;                                                 \
    static void set_##name(void *at, value v)                                                    \
    {                                                                                            \
        ((name *)at)->value = (T)v.first, ((name *)at)->place = v.second;                        \
    }                                                                                            \
    static long double first_##name(const void *at) { return (long double)((const name *)at)->value; } \
    static long double second_##name(const void *at) { return ((const name *)at)->place; }

NUMBER(schar, signed char)
NUMBER(uchar, unsigned char)
NUMBER(short, short)
NUMBER(ushort, unsigned short)
NUMBER(int, int)
NUMBER(uint, unsigned)
NUMBER(long, long)
NUMBER(ulong, unsigned long)
NUMBER(llong, long long)
NUMBER(ullong, unsigned long long)
NUMBER(i8, int8_t)
NUMBER(i16, int16_t)
NUMBER(i32, int32_t)
NUMBER(i64, int64_t)
NUMBER(u8, uint8_t)
NUMBER(u16, uint16_t)
NUMBER(u32, uint32_t)
NUMBER(u64, uint64_t)
NUMBER(aint, MPI_Aint)
NUMBER(offset, MPI_Offset)
NUMBER(count, MPI_Count)
NUMBER(bool, bool)
NUMBER(float, float)
NUMBER(double, double)
NUMBER(ldouble, long double)
COMPLEX(cfloat, float)
COMPLEX(cdouble, double)
COMPLEX(cldouble, long double)
PAIR(float_int, float)
PAIR(double_int, double)
PAIR(long_int, long)
PAIR(two_int, int)
PAIR(short_int, short)
PAIR(ldouble_int, long double)

enum { KINDS_MAX = 48, CELL = 32, ELEMENTS = 4, BLOCK = OPERATIONS * ELEMENTS * CELL };

static kind kinds[KINDS_MAX];
static int kind_count;

static kind *know(const char *name, MPI_Datatype type, size_t bytes, int operations, void (*set)(void *, value),
                  long double (*first)(const void *), long double (*second)(const void *))
{
    kind made = {name, type, bytes, operations | 1 << REPLACE, 0, second != nothing, 0, set, first, second};
    kinds[kind_count] = made;
    return &kinds[kind_count++];
}

#define INTEGER(name, T, type, ops, sign)                                                        \
    do {                                                                                         \
        kind *made = know(#type, type, sizeof(T), ops, set_##name, first_##name, nothing);       \
        made->swaps = 1;                                                                         \
        made->has_sign = sign;                                                                   \
    } while (0)

static void know_integers(void)
{
    int all = ORDER | ARITHMETIC | LOGIC | BITS, multi = ORDER | ARITHMETIC | BITS;
    INTEGER(schar, signed char, MPI_SIGNED_CHAR, all, 1);
    INTEGER(uchar, unsigned char, MPI_UNSIGNED_CHAR, all, 0);
    INTEGER(short, short, MPI_SHORT, all, 1);
    INTEGER(ushort, unsigned short, MPI_UNSIGNED_SHORT, all, 0);
    INTEGER(int, int, MPI_INT, all, 1);
    INTEGER(uint, unsigned, MPI_UNSIGNED, all, 0);
    INTEGER(long, long, MPI_LONG, all, 1);
    INTEGER(ulong, unsigned long, MPI_UNSIGNED_LONG, all, 0);
    INTEGER(llong, long long, MPI_LONG_LONG, all, 1);
    INTEGER(ullong, unsigned long long, MPI_UNSIGNED_LONG_LONG, all, 0);
    INTEGER(i8, int8_t, MPI_INT8_T, all, 1);
    INTEGER(i16, int16_t, MPI_INT16_T, all, 1);
    INTEGER(i32, int32_t, MPI_INT32_T, all, 1);
    INTEGER(i64, int64_t, MPI_INT64_T, all, 1);
    INTEGER(u8, uint8_t, MPI_UINT8_T, all, 0);
    INTEGER(u16, uint16_t, MPI_UINT16_T, all, 0);
    INTEGER(u32, uint32_t, MPI_UINT32_T, all, 0);
    INTEGER(u64, uint64_t, MPI_UINT64_T, all, 0);
    INTEGER(aint, MPI_Aint, MPI_AINT, multi, 1);
    INTEGER(offset, MPI_Offset, MPI_OFFSET, multi, 1);
    INTEGER(count, MPI_Count, MPI_COUNT, multi, 1);
    INTEGER(bool, bool, MPI_C_BOOL, LOGIC, 0);
    INTEGER(u8, uint8_t, MPI_BYTE, BITS, 0);
}

static void know_others(void)
{
    int all = ORDER | ARITHMETIC;
    know("float", MPI_FLOAT, sizeof(float), all, set_float, first_float, nothing)->has_sign = 1;
    know("double", MPI_DOUBLE, sizeof(double), all, set_double, first_double, nothing)->has_sign = 1;
    know("long double", MPI_LONG_DOUBLE, sizeof(long double), all, set_ldouble, first_ldouble, nothing)->has_sign = 1;
    know("float complex", MPI_C_FLOAT_COMPLEX, sizeof(float complex), ARITHMETIC, set_cfloat, first_cfloat,
         second_cfloat);
    know("double complex", MPI_C_DOUBLE_COMPLEX, sizeof(double complex), ARITHMETIC, set_cdouble, first_cdouble,
         second_cdouble);
    know("long double complex", MPI_C_LONG_DOUBLE_COMPLEX, sizeof(long double complex), ARITHMETIC, set_cldouble,
         first_cldouble, second_cldouble);
    know("float and int", MPI_FLOAT_INT, sizeof(float_int), PLACES, set_float_int, first_float_int, second_float_int);
    know("double and int", MPI_DOUBLE_INT, sizeof(double_int), PLACES, set_double_int, first_double_int,
         second_double_int);
    know("long and int", MPI_LONG_INT, sizeof(long_int), PLACES, set_long_int, first_long_int, second_long_int);
    know("two ints", MPI_2INT, sizeof(two_int), PLACES, set_two_int, first_two_int, second_two_int);
    if (!lenient) /* MPI_Fetch_and_op gets 6 bytes of 8 */
        know("short and int", MPI_SHORT_INT, sizeof(short_int), PLACES, set_short_int, first_short_int,
             second_short_int);
    know("long double and int", MPI_LONG_DOUBLE_INT, sizeof(ldouble_int), PLACES, set_ldouble_int, first_ldouble_int,
         second_ldouble_int);
}

static value initial(const kind *kind, int i)
{
    static const value all[ELEMENTS] = {{6, 1}, {3, 2}, {7, 3}, {1, -1}};
    value made = all[i];
    if (kind->has_sign && i == 2)
        made.first = -7;
    return made;
}

static value operand(int i)
{
    static const value all[ELEMENTS] = {{2, 5}, {3, 1}, {2, -2}, {0, 0}};
    return all[i];
}

/* Compares as the type sees it: a truth is 0 or 1, and what has no second part has none. */
static void value_is(const kind *kind, const char *what, int operation, int i, const void *at, value expected)
{
    _Alignas(16) char normal[CELL] = {0};
    char text[120];
    snprintf(text, sizeof text, "%s, %s, element %d: %s", kind->name, operation_names[operation], i, what);
    kind->set(normal, expected);
    if (kind->first(at) != kind->first(normal))
        report(__FILE__, __LINE__, text, kind->first(normal), kind->first(at));
    if (kind->second(at) != kind->second(normal))
        report(__FILE__, __LINE__, text, kind->second(normal), kind->second(at));
}

/* What one operation's cells are set from and what is fetched into them. */
typedef struct {
    _Alignas(16) char start[ELEMENTS * CELL], other[ELEMENTS * CELL];
    _Alignas(16) char before[ELEMENTS * CELL], between[ELEMENTS * CELL];
    _Alignas(16) char fetched[ELEMENTS * CELL], after[ELEMENTS * CELL];
} cells;

static void issue(const kind *kind, int operation, cells *c, int target, MPI_Aint at, MPI_Win win)
{
    MPI_Datatype type = kind->type;
    MPI_Op op = op_of(operation);
    size_t bytes = kind->bytes;
    int i;
    memset(c, 0x5a, sizeof *c);
    for (i = 0; i < ELEMENTS; i++) {
        kind->set(c->start + (size_t)i * bytes, initial(kind, i));
        kind->set(c->other + (size_t)i * bytes, operand(i));
    }
    MPI_Accumulate(c->start, ELEMENTS, type, target, at, ELEMENTS, type, MPI_REPLACE, win);
    MPI_Get_accumulate(c->other, ELEMENTS, type, c->before, ELEMENTS, type, target, at, ELEMENTS, type, op, win);
    MPI_Accumulate(c->other, ELEMENTS, type, target, at, ELEMENTS, type, op, win);
    MPI_Get_accumulate(NULL, 0, type, c->between, ELEMENTS, type, target, at, ELEMENTS, type, MPI_NO_OP, win);
    for (i = 0; i < ELEMENTS; i++) {
        MPI_Aint place = at + (MPI_Aint)((size_t)i * bytes);
        MPI_Fetch_and_op(c->other + (size_t)i * bytes, c->fetched + (size_t)i * bytes, type, target, place, op, win);
        MPI_Fetch_and_op(NULL, c->after + (size_t)i * bytes, type, target, place, MPI_NO_OP, win);
    }
}

static void compare(const kind *kind, int operation, const cells *c)
{
    int pairs = (kind->operations & PLACES) != 0, i;
    for (i = 0; i < ELEMENTS; i++) {
        value start = initial(kind, i), other = operand(i), now;
        size_t place = (size_t)i * kind->bytes;
        if (!kind->has_second)
            start.second = other.second = 0;
        value_is(kind, "before", operation, i, c->before + place, start);
        now = combined(operation, pairs, combined(operation, pairs, start, other), other);
        value_is(kind, "after two", operation, i, c->between + place, now);
        value_is(kind, "fetched after two", operation, i, c->fetched + place, now);
        value_is(kind, "after three", operation, i, c->after + place, combined(operation, pairs, now, other));
    }
}

/* Four values in a row: one is swapped in, the next one does not compare, one is swapped out again. */
static void swaps(const kind *kind, int target, MPI_Aint at, MPI_Win win)
{
    _Alignas(16) char one[CELL], zero[CELL], result[4][CELL];
    static const int expected[4] = {1, 0, 0, 1};
    int i;
    kind->set(one, (value){1, 0});
    kind->set(zero, (value){0, 0});
    MPI_Accumulate(one, 1, kind->type, target, at, 1, kind->type, MPI_REPLACE, win);
    MPI_Compare_and_swap(zero, one, result[0], kind->type, target, at, win);
    MPI_Compare_and_swap(one, one, result[1], kind->type, target, at, win);
    MPI_Compare_and_swap(one, zero, result[2], kind->type, target, at, win);
    MPI_Fetch_and_op(NULL, result[3], kind->type, target, at, MPI_NO_OP, win);
    MPI_Win_flush(target, win);
    for (i = 0; i < 4; i++)
        value_is(kind, "compare and swap", REPLACE, i, result[i], (value){expected[i], 0});
}

static void every_kind(void)
{
    static cells all[OPERATIONS];
    char *memory;
    int k, operation, self;
    MPI_Win win;
    know_integers();
    know_others();
    MPI_Win_allocate(2 * BLOCK, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    for (k = 0; k < kind_count; k++) {
        for (self = 0; self < 2; self++) { /* what is for oneself has a block of its own */
            int target = self ? rank : right, place = self * BLOCK;
            if (!few && (k + rank + self) % 6)
                continue;
            for (operation = 0; operation < OPERATIONS; operation++)
                if (kinds[k].operations >> operation & 1)
                    issue(&kinds[k], operation, &all[operation], target, place + operation * ELEMENTS * CELL, win);
            MPI_Win_flush(target, win);
            for (operation = 0; operation < OPERATIONS; operation++)
                if (kinds[k].operations >> operation & 1)
                    compare(&kinds[k], operation, &all[operation]);
            if (kinds[k].swaps)
                swaps(&kinds[k], target, place, win);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* All add to the same places at the same time. */
static void sums(void)
{
    int n = few ? 20000 : 500, i, *ints, *whole = malloc(sizeof(int) * (size_t)n);
    double *reals, *halves = malloc(sizeof(double) * (size_t)n);
    char *memory;
    MPI_Win win;
    MPI_Win_allocate((MPI_Aint)(sizeof(double) + sizeof(int)) * n, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    reals = (double *)memory;
    ints = (int *)(memory + sizeof(double) * (size_t)n);
    for (i = 0; i < n; i++) {
        reals[i] = 0.25, ints[i] = 3;
        halves[i] = i + 0.5, whole[i] = i + rank;
    }
    MPI_Win_fence(0, win);
    MPI_Accumulate(whole, n, MPI_INT, 0, 8 * (MPI_Aint)n, n, MPI_INT, MPI_SUM, win);
    MPI_Accumulate(halves, n, MPI_DOUBLE, size - 1, 0, n, MPI_DOUBLE, MPI_SUM, win);
    MPI_Accumulate(halves, n, MPI_DOUBLE, right, 0, n, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (i = 0; i < n; i++) {
        SAME(ints[i], 3 + (rank == 0 ? size * i + size * (size - 1) / 2 : 0));
        SAME(reals[i], 0.25 + (i + 0.5) * (1 + (rank == size - 1 ? size : 0)));
    }
    MPI_Win_free(&win);
    free(whole);
    free(halves);
}

/* Pairs in derived datatypes. What is between a value and its place, and behind them, stays as it is. */

enum { PAIRS = 12, PLACED = 36, LAYOUTS = 6, COMBINED = 3, ARENA = PLACED * CELL };

typedef struct {
    MPI_Datatype type;
    int count;
    int at[PAIRS]; /* where each pair is, in pairs */
} layout;

static void lay_out(const kind *kind, layout *all)
{
    int lengths[3] = {2, 7, 3}, places[3] = {30, 0, 12}, two[2] = {5, 7}, k;
    MPI_Aint bytes = (MPI_Aint)kind->bytes, far[2] = {20 * bytes, 2 * bytes};
    MPI_Datatype types[2] = {kind->type, kind->type};
    MPI_Type_dup(kind->type, &all[0].type);
    MPI_Type_contiguous(3, kind->type, &all[1].type);
    MPI_Type_vector(4, 3, 5, kind->type, &all[2].type);
    MPI_Type_indexed(3, lengths, places, kind->type, &all[3].type);
    MPI_Type_create_struct(2, two, far, types, &all[4].type);
    MPI_Type_create_resized(kind->type, 0, 2 * bytes, &all[5].type);
    for (k = 0; k < PAIRS; k++) {
        all[0].at[k] = all[1].at[k] = k;
        all[2].at[k] = k / 3 * 5 + k % 3;
        all[3].at[k] = k < 2 ? 30 + k : k < 9 ? k - 2 : 12 + k - 9;
        all[4].at[k] = k < 5 ? 20 + k : 2 + k - 5;
        all[5].at[k] = 2 * k;
    }
    for (k = 0; k < LAYOUTS; k++) {
        all[k].count = k == 1 ? 4 : k == 0 || k == 5 ? PAIRS : 1;
        MPI_Type_commit(&all[k].type);
    }
}

/* The bytes of a pair, and no others. */
static void copy_pair(const kind *kind, char *to, const char *from)
{
    int bytes;
    size_t value_bytes, place;
    MPI_Type_size(kind->type, &bytes);
    value_bytes = (size_t)bytes - sizeof(int);
    place = (value_bytes + 3) / 4 * 4;
    memcpy(to, from, value_bytes);
    memcpy(to + place, from + place, sizeof(int));
}

static void combine_pair(const kind *kind, int operation, char *to, const char *from)
{
    value a = {(int)kind->first(to), (int)kind->second(to)}, b = {(int)kind->first(from), (int)kind->second(from)};
    value both = combined(operation, 1, a, b);
    if (both.first == b.first && both.second == b.second)
        copy_pair(kind, to, from);
}

/* An arena of pairs with values by a step. */
static void fill_pairs(const kind *kind, char *arena, const layout *layout, int gap, int step, int place)
{
    memset(arena, gap, ARENA);
    for (int k = 0; k < PAIRS; k++)
        kind->set(arena + (size_t)layout->at[k] * kind->bytes, (value){k * step % 5, place + k});
}

static void arena_is(const kind *kind, const char *what, int here, int there, const char *at, const char *expected)
{
    char text[120];
    for (size_t i = 0; i < ARENA; i++) {
        if (at[i] == expected[i])
            continue;
        snprintf(text, sizeof text, "%s, layout %d here and %d there: %s, byte %zu of pair %zu", kind->name, here,
                 there, what, i % kind->bytes, i / kind->bytes);
        report(__FILE__, __LINE__, text, expected[i], at[i]);
        return;
    }
}

typedef struct {
    _Alignas(16) char first[ARENA], second[ARENA], before[LAYOUTS][COMBINED][ARENA], after[LAYOUTS][COMBINED][ARENA];
} given;

static const int combining[COMBINED] = {MINLOC, MAXLOC, REPLACE};

static void issue_pairs(const layout *all, int here, given *g, int target, MPI_Win win)
{
    const layout *from = &all[here], *into = &all[(here + 1) % LAYOUTS];
    MPI_Request requests[2];
    for (int there = 0; there < LAYOUTS; there++) {
        const layout *to = &all[there];
        for (int o = 0; o < COMBINED; o++) {
            MPI_Aint at = (there * COMBINED + o) * ARENA;
            MPI_Op op = op_of(combining[o]);
            if (o == 0) {
                MPI_Rget_accumulate(g->first, from->count, from->type, g->before[there][o], into->count, into->type,
                                    target, at, to->count, to->type, op, win, &requests[0]);
                MPI_Raccumulate(g->second, from->count, from->type, target, at, to->count, to->type, op, win,
                                &requests[1]);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else {
                MPI_Get_accumulate(g->first, from->count, from->type, g->before[there][o], into->count, into->type,
                                   target, at, to->count, to->type, op, win);
                MPI_Accumulate(g->second, from->count, from->type, target, at, to->count, to->type, op, win);
            }
            MPI_Get_accumulate(NULL, 0, from->type, g->after[there][o], into->count, into->type, target, at, to->count,
                               to->type, MPI_NO_OP, win);
        }
    }
    MPI_Win_flush(target, win);
}

/* What is fetched, and what is in memory at the end. */
static void compare_pairs(const kind *kind, const layout *all, int here, const given *g, const char *memory)
{
    static _Alignas(16) char there_now[ARENA], before[ARENA], after[ARENA];
    const layout *from = &all[here], *into = &all[(here + 1) % LAYOUTS];
    for (int there = 0; there < LAYOUTS; there++) {
        for (int o = 0; o < COMBINED; o++) {
            fill_pairs(kind, there_now, &all[there], 0x5a, 2, 100);
            memset(before, 0x3c, ARENA);
            memset(after, 0x3c, ARENA);
            for (int k = 0; k < PAIRS; k++) {
                char *now = there_now + (size_t)all[there].at[k] * kind->bytes;
                size_t sent = (size_t)from->at[k] * kind->bytes, got = (size_t)into->at[k] * kind->bytes;
                copy_pair(kind, before + got, now);
                combine_pair(kind, combining[o], now, g->first + sent);
                combine_pair(kind, combining[o], now, g->second + sent);
                copy_pair(kind, after + got, now);
            }
            arena_is(kind, "before", here, there, g->before[there][o], before);
            arena_is(kind, "after", here, there, g->after[there][o], after);
            arena_is(kind, "memory", here, there, memory + (there * COMBINED + o) * ARENA, there_now);
        }
    }
}

static void every_layout(void)
{
    static layout all[LAYOUTS];
    static given given;
    char *memory;
    int k, here, i;
    MPI_Win win;
    MPI_Win_allocate(LAYOUTS * COMBINED * ARENA, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    for (k = 0; k < kind_count; k++) {
        if (!(kinds[k].operations & PLACES) || (!few && k % 2))
            continue;
        lay_out(&kinds[k], all);
        for (here = 0; here < LAYOUTS; here++) {
            fill_pairs(&kinds[k], given.first, &all[here], 0x11, 3, 50);
            fill_pairs(&kinds[k], given.second, &all[here], 0x22, 4, 150);
            memset(given.before, 0x3c, sizeof given.before);
            memset(given.after, 0x3c, sizeof given.after);
            open_own(win);
            for (i = 0; i < LAYOUTS * COMBINED; i++)
                fill_pairs(&kinds[k], memory + i * ARENA, &all[i / COMBINED], 0x5a, 2, 100);
            close_own(win);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_lock_all(0, win);
            issue_pairs(all, here, &given, (here + k) % 3 == 2 ? rank : right, win);
            MPI_Win_unlock_all(win);
            MPI_Barrier(MPI_COMM_WORLD);
            open_own(win);
            compare_pairs(&kinds[k], all, here, &given, memory);
            close_own(win);
        }
        for (i = 0; i < LAYOUTS; i++)
            MPI_Type_free(&all[i].type);
    }
    MPI_Win_free(&win);
}

/* All look for the greatest values in the same many pairs, every second of which is left out. */
#define GREATEST(T, type)                                                                        \
    do {                                                                                         \
        int n = few ? 20000 : 500, i, r;                                                         \
        T *there, *own = malloc(sizeof(T) * (size_t)n);                                          \
        MPI_Datatype second;                                                                     \
        MPI_Win win;                                                                             \
        MPI_Type_vector(n, 1, 2, type, &second);                                                 \
        MPI_Type_commit(&second);                                                                \
        MPI_Win_allocate(2 * (MPI_Aint)sizeof(T) * n, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &there, &win); \
        memset(there, 0, 2 * sizeof(T) * (size_t)n);                                             \
        for (i = 0; i < n; i++)                                                                  \
            own[i].value = 1 + (7 * i + 13 * rank) % 101, own[i].place = rank;                   \
        MPI_Win_fence(0, win);                                                                   \
        MPI_Accumulate(own, n, type, 0, 0, 1, second, MPI_MAXLOC, win);                          \
        MPI_Win_fence(0, win);                                                                   \
        for (i = 0; rank == 0 && i < n; i++) {                                                   \
            int most = 0, place = 0;                                                             \
            for (r = 0; r < size; r++)                                                           \
                if (1 + (7 * i + 13 * r) % 101 > most)                                           \
                    most = 1 + (7 * i + 13 * r) % 101, place = r;                                \
            SAME(there[2 * i].value, most);                                                      \
            SAME(there[2 * i].place, place);                                                     \
            SAME(there[2 * i + 1].value, 0);                                                     \
            SAME(there[2 * i + 1].place, 0);                                                     \
        }                                                                                        \
        MPI_Win_free(&win);                                                                      \
        MPI_Type_free(&second);                                                                  \
        free(own);                                                                               \
    } while (0)

static void greatest(void)
{
    GREATEST(short_int, MPI_SHORT_INT);
    GREATEST(double_int, MPI_DOUBLE_INT);
    GREATEST(ldouble_int, MPI_LONG_DOUBLE_INT);
}

int main(int argc, char **argv)
{
    begin_windows(&argc, &argv);
    right = at_distance(1);
    few = size <= 8;
    every_kind();
    sums();
    every_layout();
    greatest();
    return finish("win_ops");
}
