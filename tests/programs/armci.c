/* Every operation of armci.h, values checked. For any number of processes, on any number of nodes, in domains or apart. */
#include <armci.h>
#include <message.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, size;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "armci: rank %d, line %d: %s\n", me, __LINE__, #condition);                                \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                                              \
        }                                                                                                              \
    } while (0)

static void **allocate(long bytes) {
    void **all = malloc(size * sizeof(void *));
    CHECK(ARMCI_Malloc(all, bytes) == 0);
    return all;
}

static void give_back(void **all) {
    ARMCI_Barrier();
    CHECK(ARMCI_Free(all[me]) == 0);
    free(all);
}

static void rows(void) {
    enum { LEN = 20000 };
    double **at = (double **)allocate(LEN * sizeof(double));
    int right = (me + 1) % size, left = (me + size - 1) % size;
    int lengths[] = {1, 100, 2000, LEN};
    double *mine = malloc(LEN * sizeof(double)), *back = malloc(LEN * sizeof(double));
    for (int i = 0; i < LEN; i++)
        CHECK(at[me][i] == 0);
    ARMCI_Barrier();
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < lengths[i]; k++)
            mine[k] = me * 1e6 + k + i;
        ARMCI_Put(mine, at[right], lengths[i] * sizeof(double), right);
        memset(back, 0, LEN * sizeof(double));
        ARMCI_Get(at[right], back, lengths[i] * sizeof(double), right);
        CHECK(memcmp(mine, back, lengths[i] * sizeof(double)) == 0);
    }
    ARMCI_Barrier();
    for (int k = 0; k < LEN; k++)
        CHECK(at[me][k] == left * 1e6 + k + 3);
    ARMCI_Put(mine, at[right], 0, right);
    ARMCI_Copy(mine, back, 100);
    CHECK(memcmp(mine, back, 100) == 0);
    /* To the process's own memory that was not allocated with others, too. */
    ARMCI_Put(mine, back, 80, me);
    ARMCI_Get(back, mine + 10, 80, me);
    CHECK(mine[10] == mine[0] && mine[19] == mine[9]);
    free(mine);
    free(back);
    give_back((void **)at);
}

/* What is read back: all of `longer`, `shorter` added at 7 and put at 2000. */
static void check_mixed(const long *back, const long *longer, int count, const long *shorter) {
    for (int k = 0; k < count; k++) {
        long expected = longer[k] + (k == 7 || k == 8 ? shorter[k - 7] : 0);
        if (k == 2000 || k == 2001)
            expected = shorter[k - 2000];
        CHECK(back[k] == expected);
    }
}

/* Blocking operations see those before them, short or long, without a fence. */
static void order(void) {
    enum { LEN = 4096 };
    long **at = (long **)allocate(size * LEN * sizeof(long));
    long *longer = malloc(LEN * sizeof(long)), *back = malloc(LEN * sizeof(long)), one = 1;
    for (int round = 0; round < 40; round++) {
        int to = (me + round) % size;
        long *place = at[to] + me * LEN, shorter[2] = {round, -round};
        for (int k = 0; k < LEN; k++)
            longer[k] = round * 10000 + k;
        ARMCI_Put(shorter, place + 5, sizeof shorter, to);
        ARMCI_Put(longer, place, LEN * sizeof(long), to);
        ARMCI_Acc(ARMCI_ACC_LNG, &one, shorter, place + 7, sizeof shorter, to);
        ARMCI_Put(shorter, place + 2000, sizeof shorter, to);
        ARMCI_Get(place, back, LEN * sizeof(long), to);
        check_mixed(back, longer, LEN, shorter);
    }
    free(longer);
    free(back);
    give_back((void **)at);
}

/* Rows and segments without gaps between them are as one row, and keep their place all the same. */
static void rows_in_order(void) {
    enum { ROW = 64, ROWS = 64, LEN = ROW * ROWS };
    long **at = (long **)allocate(size * LEN * sizeof(long)), one = 1;
    long *longer = malloc(LEN * sizeof(long)), *back = malloc(LEN * sizeof(long));
    int stride[1] = {ROW * sizeof(long)}, count[2] = {ROW * sizeof(long), ROWS};
    void *here[ROWS], *there[ROWS], *into[ROWS];
    for (int round = 0; round < 60; round++) {
        int to = (me + round) % size, vectors = round % 6 >= 3;
        long *place = at[to] + me * LEN, shorter[2] = {round, -round};
        for (int k = 0; k < LEN; k++)
            longer[k] = round * 10000 + k;
        for (int k = 0; k < ROWS; k++) {
            here[k] = longer + k * ROW;
            there[k] = place + k * ROW;
            into[k] = back + k * ROW;
        }
        armci_giov_t put = {here, there, ROW * sizeof(long), ROWS}, get = {there, into, ROW * sizeof(long), ROWS};
        ARMCI_Put(shorter, place + 5, sizeof shorter, to);
        if (vectors)
            ARMCI_PutV(&put, 1, to);
        else
            ARMCI_PutS(longer, stride, place, stride, count, 1, to);
        ARMCI_Acc(ARMCI_ACC_LNG, &one, shorter, place + 7, sizeof shorter, to);
        ARMCI_Put(shorter, place + 2000, sizeof shorter, to);
        if (vectors)
            ARMCI_GetV(&get, 1, to);
        else
            ARMCI_GetS(place, stride, back, stride, count, 1, to);
        check_mixed(back, longer, LEN, shorter);
    }
    free(longer);
    free(back);
    give_back((void **)at);
}

static int number(int to, int a, int b, int c) { return to * 100000 + a * 1000 + b * 50 + c; }

static void strided(void) {
    enum { X = 40, Y = 20, Z = 6 };
    int **at = (int **)allocate(X * Y * Z * sizeof(int));
    int right = (me + 1) % size, *mine = calloc(X * Y * Z, sizeof(int)), *back = calloc(X * Y * Z, sizeof(int));
    for (int z = 0; z < Z; z++)
        for (int y = 0; y < Y; y++)
            for (int x = 0; x < X; x++)
                mine[(z * Y + y) * X + x] = number(me, z, y, x);
    int strides[2] = {X * sizeof(int), X * Y * sizeof(int)}, count[3] = {7 * sizeof(int), 5, 4}, two = 2;
    int *from = mine + (1 * Y + 2) * X + 3, *to = at[right] + (2 * Y + 9) * X + 11;
    ARMCI_PutS(from, strides, to, strides, count, 2, right);
    int packed[2] = {7 * sizeof(int), 35 * sizeof(int)};
    ARMCI_GetS(to, strides, back, packed, count, 2, right);
    for (int k = 0; k < 140; k++)
        CHECK(back[k] == number(me, 1 + k / 35, 2 + k / 7 % 5, 3 + k % 7));
    ARMCI_AccS(ARMCI_ACC_INT, &two, from, strides, to, strides, count, 2, right);
    ARMCI_Fence(right);
    ARMCI_GetS(to, strides, back, packed, count, 2, right);
    for (int k = 0; k < 140; k++)
        CHECK(back[k] == 3 * number(me, 1 + k / 35, 2 + k / 7 % 5, 3 + k % 7));
    ARMCI_Barrier();
    CHECK(at[me][0] == 0 && at[me][(2 * Y + 9) * X + 10] == 0 && at[me][(2 * Y + 9) * X + 18] == 0);
    char *bytes = calloc(140, sizeof(int));
    armci_write_strided(from, 2, strides, count, bytes);
    CHECK(((int *)bytes)[8] == number(me, 1, 3, 4));
    memset(mine, 0, X * Y * Z * sizeof(int));
    armci_read_strided(from, 2, strides, count, bytes);
    CHECK(from[X + 1] == number(me, 1, 3, 4) && from[7] == 0);
    free(bytes);
    free(mine);
    free(back);
    give_back((void **)at);
}

#define ACCUMULATE(TYPE, NAME, PARTS)                                                                                  \
    do {                                                                                                               \
        TYPE **at = (TYPE **)allocate(PARTS * 50 * sizeof(TYPE)), scale[PARTS], mine[PARTS * 50];                      \
        for (int k = 0; k < PARTS * 50; k++)                                                                           \
            mine[k] = k + 1;                                                                                           \
        for (int k = 0; k < PARTS; k++)                                                                                \
            scale[k] = k + 2;                                                                                          \
        for (int to = 0; to < size; to++)                                                                              \
            for (int again = 0; again < 3; again++)                                                                    \
                ARMCI_Acc(NAME, scale, mine, at[to], sizeof mine, to);                                                 \
        ARMCI_Barrier();                                                                                               \
        for (int k = 0; k < 50; k++) {                                                                                 \
            TYPE a = mine[PARTS * k], b = mine[PARTS * k + PARTS - 1];                                                 \
            TYPE real = PARTS == 1 ? 2 * a : 2 * a - 3 * b, imaginary = PARTS == 1 ? real : 3 * a + 2 * b;             \
            CHECK(at[me][PARTS * k] == 3 * size * real);                                                               \
            CHECK(at[me][PARTS * k + PARTS - 1] == 3 * size * imaginary);                                              \
        }                                                                                                              \
        give_back((void **)at);                                                                                        \
    } while (0)

static void accumulate(void) {
    ACCUMULATE(int, ARMCI_ACC_INT, 1);
    ACCUMULATE(long, ARMCI_ACC_LNG, 1);
    ACCUMULATE(float, ARMCI_ACC_FLT, 1);
    ACCUMULATE(double, ARMCI_ACC_DBL, 1);
    ACCUMULATE(float, ARMCI_ACC_CPL, 2);
    ACCUMULATE(double, ARMCI_ACC_DCP, 2);
}

static void segments(void) {
    enum { COUNT = 30 };
    double **at = (double **)allocate(COUNT * 10 * sizeof(double)), mine[COUNT * 3], back[COUNT * 3], one = 1, half = 0.5;
    int right = (me + 1) % size;
    void *from[COUNT], *to[COUNT], *into[COUNT];
    for (int k = 0; k < COUNT * 3; k++)
        mine[k] = me * 1000 + k;
    for (int k = 0; k < COUNT; k++) {
        from[k] = mine + 3 * k;
        to[k] = at[right] + 10 * (COUNT - 1 - k);
        into[k] = back + 3 * k;
    }
    armci_giov_t put = {from, to, 3 * sizeof(double), COUNT}, get = {to, into, 3 * sizeof(double), COUNT};
    CHECK(ARMCI_PutV(&put, 1, right) == 0 && ARMCI_GetV(&get, 1, right) == 0);
    CHECK(memcmp(mine, back, sizeof mine) == 0);
    armci_hdl_t handle;
    ARMCI_INIT_HANDLE(&handle);
    CHECK(ARMCI_AccV(ARMCI_ACC_DBL, &half, &put, 1, right) == 0);
    CHECK(ARMCI_NbAccV(ARMCI_ACC_DBL, &one, &put, 1, right, &handle) == 0 && ARMCI_Wait(&handle) == 0);
    ARMCI_Fence(right);
    CHECK(ARMCI_NbGetV(&get, 1, right, &handle) == 0 && ARMCI_Wait(&handle) == 0);
    for (int k = 0; k < COUNT * 3; k++)
        CHECK(back[k] == 2.5 * mine[k]);
    give_back((void **)at);
}

static void later(void) {
    enum { PIECES = 50, LEN = 300 };
    int **at = (int **)allocate(PIECES * LEN * sizeof(int)), right = (me + 1) % size, left = (me + size - 1) % size;
    static int mine[PIECES][LEN], back[PIECES][LEN];
    armci_hdl_t handles[PIECES], all, idle;
    memset(handles, 0, sizeof handles);
    ARMCI_INIT_HANDLE(&idle);
    CHECK(ARMCI_Wait(&idle) == 0 && ARMCI_Test(&idle) == 0);
    for (int way = 0; way < 3; way++) {
        ARMCI_INIT_HANDLE(&all);
        if (way == 2)
            ARMCI_SET_AGGREGATE_HANDLE(&all);
        for (int k = 0; k < PIECES; k++) {
            for (int i = 0; i < LEN; i++)
                mine[k][i] = way * 1000000 + me * 100000 + k * 1000 + i;
            armci_hdl_t *handle = way == 0 ? &handles[k] : way == 1 ? NULL : &all;
            ARMCI_NbPut(mine[k], at[right] + k * LEN, sizeof mine[k], right, handle);
        }
        for (int k = 0; way == 0 && k < PIECES; k += 2)
            while (ARMCI_Test(&handles[k]))
                ;
        for (int k = 1; way == 0 && k < PIECES; k += 2)
            ARMCI_Wait(&handles[k]);
        if (way == 1)
            ARMCI_WaitProc(right);
        if (way == 2)
            ARMCI_Wait(&all);
        ARMCI_Barrier();
        for (int k = 0; k < PIECES; k++)
            CHECK(at[me][k * LEN + 7] == way * 1000000 + left * 100000 + k * 1000 + 7);
        ARMCI_Barrier();
        int strides[1] = {LEN * sizeof(int)}, count[2] = {LEN * sizeof(int), PIECES};
        memset(back, 0, sizeof back);
        ARMCI_NbGetS(at[right], strides, back, strides, count, 1, right, way == 1 ? NULL : &all);
        if (way == 1)
            ARMCI_WaitAll();
        else
            ARMCI_Wait(&all);
        CHECK(memcmp(mine, back, sizeof mine) == 0);
    }
    give_back((void **)at);
}

static void values(void) {
    char **at = (char **)allocate(64);
    int right = (me + 1) % size, old = -1;
    long old_long = -1;
    ARMCI_PutValueInt(-5 - me, at[right], right);
    ARMCI_PutValueLong(1L << 40, at[right] + 8, right);
    ARMCI_PutValueFloat(0.5f, at[right] + 16, right);
    ARMCI_PutValueDouble(0.25, at[right] + 24, right);
    CHECK(ARMCI_GetValueInt(at[right], right) == -5 - me);
    CHECK(ARMCI_GetValueLong(at[right] + 8, right) == 1L << 40);
    CHECK(ARMCI_GetValueFloat(at[right] + 16, right) == 0.5f);
    CHECK(ARMCI_GetValueDouble(at[right] + 24, right) == 0.25);
    ARMCI_Barrier();
    /* Everybody's tickets are different. */
    int *seen = calloc(size * 20, sizeof(int));
    for (int k = 0; k < 20; k++) {
        ARMCI_Rmw(ARMCI_FETCH_AND_ADD, &old, at[0] + 32, 1, 0);
        seen[old]++;
        ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &old_long, at[size - 1] + 40, 3, size - 1);
        CHECK(old_long % 3 == 0 && old_long < 60 * size);
    }
    armci_msg_igop(seen, size * 20, "+");
    for (int k = 0; k < size * 20; k++)
        CHECK(seen[k] == 1);
    free(seen);
    old = me + 10;
    ARMCI_Rmw(ARMCI_SWAP, &old, at[right] + 48, 0, right);
    CHECK(old == 0 && ARMCI_GetValueInt(at[right] + 48, right) == me + 10);
    old_long = -me;
    ARMCI_Rmw(ARMCI_SWAP_LONG, &old_long, at[right] + 56, 0, right);
    CHECK(old_long == 0 && ARMCI_GetValueLong(at[right] + 56, right) == -me);
    give_back((void **)at);
}

/* A process that looks at its own memory by ARMCI's calls only is reached from everywhere, one call after the other. */
static void polled(void) {
    enum { WAYS = 6 };
    int **at = (int **)allocate(WAYS * sizeof(int)), right = (me + 1) % size, one = 1, stride[1] = {4}, count[2] = {4, 1};
    for (int way = 0; way < WAYS; way++) {
        int seen = 0, own[1];
        while (me > 0 && !seen)
            switch (way) {
            case 0: ARMCI_Get(&at[me][way], &seen, sizeof seen, me); break;
            case 1: seen = ARMCI_GetValueInt(&at[me][way], me); break;
            case 2: ARMCI_GetS(&at[me][way], stride, &seen, stride, count, 1, me); break;
            case 3: ARMCI_Rmw(ARMCI_FETCH_AND_ADD, &seen, &at[me][way], 0, me); break;
            case 4: ARMCI_Fence(me); seen = *(volatile int *)&at[me][way]; break;
            case 5: ARMCI_Put(&one, own, sizeof one, me); seen = *(volatile int *)&at[me][way]; break;
            }
        ARMCI_Put(&one, &at[right][way], sizeof one, right);
    }
    give_back((void **)at);
}

/* A flag is seen behind its data; a notice behind everything. */
static void told(void) {
    enum { LEN = 3000 };
    int **at = (int **)allocate((LEN + 1) * sizeof(int)), right = (me + 1) % size, left = (me + size - 1) % size, heard;
    static int mine[LEN];
    for (int round = 1; round <= 10; round++) {
        for (int k = 0; k < LEN; k++)
            mine[k] = round * 10000 + k;
        int strides[1] = {300 * sizeof(int)}, count[2] = {300 * sizeof(int), 10};
        ARMCI_PutS_flag(mine, strides, at[right], strides, count, 1, at[right] + LEN, round, right);
        volatile int *flag = at[me] + LEN;
        while (*flag != round)
            if (!armci_domain_same_id(ARMCI_DOMAIN_SMP, left))
                ARMCI_AllFence(); /* Without a data server another node is served inside calls only. */
        for (int k = 0; k < LEN; k++)
            CHECK(at[me][k] == round * 10000 + k);
        armci_msg_barrier();
        ARMCI_Put(&me, at[right] + 5, sizeof me, right);
        CHECK(armci_notify(right) == round);
        CHECK(armci_notify_wait(left, &heard) == round && heard == round);
        CHECK(at[me][5] == left);
        ARMCI_Barrier();
    }
    give_back((void **)at);
}

static void mutexes(void) {
    long **at = (long **)allocate(sizeof(long) * 2);
    CHECK(ARMCI_Create_mutexes(2) == 0);
    for (int k = 0; k < 25; k++) {
        int owner = k % size;
        ARMCI_Lock(1, owner);
        long value = ARMCI_GetValueLong(at[owner], owner);
        ARMCI_PutValueLong(value + 1, at[owner], owner);
        ARMCI_Unlock(1, owner);
    }
    ARMCI_Barrier();
    long rounds = 0;
    for (int k = 0; k < 25; k++)
        rounds += k % size == me;
    CHECK(at[me][0] == rounds * size);
    CHECK(ARMCI_Destroy_mutexes() == 0);
    give_back((void **)at);
}

static void groups(void) {
    ARMCI_Group world, half, own;
    int count = 0, rank = -1, members = 0, *ranks = malloc(size * sizeof(int));
    ARMCI_Group_get_world(&world);
    ARMCI_Group_size(&world, &members);
    CHECK(members == size && ARMCI_Absolute_id(&world, me) == me);
    for (int k = me % 2; k < size; k += 2)
        ranks[count++] = k;
    ARMCI_Group_create(count, ranks, &half);
    ARMCI_Group_size(&half, &members);
    CHECK(ARMCI_Group_rank(&half, &rank) == 0 && rank == me / 2 && members == count);
    CHECK(ARMCI_Absolute_id(&half, count - 1) == ranks[count - 1]);
    void **at = malloc(count * sizeof(void *));
    CHECK(ARMCI_Malloc_group(at, rank == 0 ? 100 * sizeof(int) : 0, &half) == 0);
    CHECK(at[0] && (count == 1 || !at[1]));
    int first = ranks[0];
    ARMCI_PutValueInt(me + 7, (int *)at[0] + rank, first);
    armci_msg_group_barrier(&half);
    ARMCI_AllFence();
    armci_msg_group_barrier(&half);
    for (int k = 0; k < count; k++)
        CHECK(ARMCI_GetValueInt((int *)at[0] + k, first) == ranks[k] + 7);
    int sum = me, root = me;
    armci_msg_group_igop(&sum, 1, "max", &half);
    CHECK(sum == ranks[count - 1]);
    armci_msg_group_bcast_scope(SCOPE_ALL, &root, sizeof root, ranks[count - 1], &half);
    CHECK(root == ranks[count - 1]);
    armci_msg_group_barrier(&half);
    CHECK(ARMCI_Free_group(at[rank], &half) == 0);
    int zero = rank;
    ARMCI_Group_create_child(1, &zero, &own, &half);
    ARMCI_Group_size(&own, &members);
    CHECK(members == 1);
    MPI_Comm comm = armci_group_comm(&half);
    MPI_Comm_size(comm, &members);
    CHECK(members == count);
    ARMCI_Group_free(&own);
    ARMCI_Group_free(&half);
    free(ranks);
    free(at);
}

static void domains(void) {
    int own = armci_domain_my_id(ARMCI_DOMAIN_SMP), all = 0;
    for (int k = 0; k < armci_domain_count(ARMCI_DOMAIN_SMP); k++) {
        int members = armci_domain_nprocs(ARMCI_DOMAIN_SMP, k);
        all += members;
        for (int i = 0; i < members; i++)
            CHECK(armci_domain_id(ARMCI_DOMAIN_SMP, armci_domain_glob_proc_id(ARMCI_DOMAIN_SMP, k, i)) == k);
    }
    CHECK(all == size && ARMCI_Same_node(me) && armci_domain_same_id(ARMCI_DOMAIN_SMP, me));
    /* Memory of the domain is there to be stored to. */
    int **at = (int **)allocate(size * sizeof(int));
    for (int k = 0; k < size; k++)
        if (armci_domain_id(ARMCI_DOMAIN_SMP, k) == own)
            at[k][me] = me + 100;
        else
            ARMCI_PutValueInt(me + 100, at[k] + me, k);
    ARMCI_Barrier();
    for (int k = 0; k < size; k++)
        CHECK(at[me][k] == k + 100);
    give_back((void **)at);
}

static void messages(void) {
    int right = (me + 1) % size, left = (me + size - 1) % size, got = 0, word = me, root, up, down[2];
    double numbers[3] = {me, -me, 1};
    if (size > 1) {
        if (me == 0)
            armci_msg_snd(5, &word, sizeof word, right);
        armci_msg_rcv(5, &word, sizeof word, &got, left);
        CHECK(got == sizeof word && word == 0);
        if (me != 0)
            armci_msg_snd(5, &word, sizeof word, right);
        if (me == 0)
            for (int k = 1; k < size; k++) {
                int from = armci_msg_rcvany(6, &word, sizeof word, &got);
                CHECK(from == word);
            }
        else
            armci_msg_snd(6, &me, sizeof me, 0);
    }
    armci_msg_dgop(numbers, 3, "absmax");
    CHECK(numbers[0] == size - 1 && numbers[1] == size - 1 && numbers[2] == 1);
    long bits = 1L << (me % 8), all = 0;
    for (int k = 0; k < size; k++)
        all |= 1L << (k % 8);
    armci_msg_lgop(&bits, 1, "or");
    CHECK(bits == all);
    float product = 2;
    armci_msg_fgop(&product, 1, "*");
    float expected = 1;
    for (int k = 0; k < size; k++)
        expected *= 2;
    CHECK(product == expected);
    long long least = me + 5;
    armci_msg_llgop(&least, 1, "min");
    CHECK(least == 5);
    int text[4] = {me, me + 1, me + 2, me + 3};
    armci_msg_brdcst(text, sizeof text, size - 1);
    CHECK(text[3] == size + 2);
    struct {
        double key;
        int of;
    } chosen = {-(me - 1) * (me - 1), me};
    armci_msg_sel_scope(SCOPE_ALL, &chosen, sizeof chosen, "max", ARMCI_DOUBLE, me > 0 || size == 1);
    CHECK(chosen.of == (size == 1 ? 0 : 1));
    /* No real number is between these. */
    struct {
        long key;
        int of;
    } largest = {(1L << 60) + me, me};
    armci_msg_sel(&largest, sizeof largest, "max", ARMCI_LONG, 1);
    CHECK(largest.of == size - 1 && largest.key == (1L << 60) + size - 1);
    armci_msg_bintree(SCOPE_ALL, &root, &up, &down[0], &down[1]);
    CHECK(root == 0 && (me == 0 ? up == -1 : up == (me - 1) / 2));
    int here = 1;
    armci_msg_gop_scope(SCOPE_NODE, &here, 1, "+", ARMCI_INT);
    CHECK(here == armci_domain_nprocs(ARMCI_DOMAIN_SMP, -1));
    CHECK(armci_msg_me() == me && armci_msg_nproc() == size);
}

int main(int argc, char **argv) {
    /* With an argument ARMCI starts MPI. */
    if (argc < 2)
        MPI_Init(&argc, &argv);
    CHECK(!ARMCI_Initialized());
    CHECK(ARMCI_Init() == 0 && PARMCI_Init_args(&argc, &argv) == 0 && ARMCI_Initialized());
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows();
    order();
    rows_in_order();
    strided();
    accumulate();
    segments();
    later();
    values();
    polled();
    told();
    mutexes();
    groups();
    domains();
    messages();
    void *local = ARMCI_Malloc_local(1000);
    CHECK(local && ARMCI_Free_local(local) == 0);
    ARMCI_Finalize();
    CHECK(ARMCI_Initialized());
    ARMCI_Finalize();
    CHECK(!ARMCI_Initialized());
    /* A second life. */
    CHECK(ARMCI_Init_mpi_comm(MPI_COMM_WORLD) == 1);
    rows();
    ARMCI_Finalize();
    if (me == 0)
        printf("armci: passed with %d processes\n", size);
    if (argc < 2)
        MPI_Finalize();
    return 0;
}
