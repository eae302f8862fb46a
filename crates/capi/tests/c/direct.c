/* Collectives of large data, for which the processes of a host read and write each other's memory where they can. */
#include "check.h"
#include <banyan.h>

enum { LARGE = 40001 }; /* elements: no multiple of anything */

static unsigned long long stat_of(const char *name)
{
    unsigned long long value = 0;
    CHECK(BANYAN_Stat(name, &value) == MPI_SUCCESS);
    return value;
}

static int *numbers(int count)
{
    int *all = malloc(sizeof(int) * (size_t)(count ? count : 1));
    if (!all)
        MPI_Abort(MPI_COMM_WORLD, 4);
    return all;
}

/* What rank r contributes as element i of operation `turn`. */
static int element(int r, int i, int turn)
{
    return r * 1009 + i * 7 + turn * 13;
}

static int sum(int i, int turn)
{
    int all = 0;
    for (int r = 0; r < size; r++)
        all += element(r, i, turn);
    return all;
}

static void reductions(int turn)
{
    int *mine = numbers(LARGE), *result = numbers(LARGE), wrong = 0, root = turn % size;
    for (int i = 0; i < LARGE; i++)
        mine[i] = element(rank, i, turn);
    MPI_Allreduce(mine, result, LARGE, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < LARGE; i++)
        wrong += result[i] != sum(i, turn) || mine[i] != element(rank, i, turn);
    memcpy(result, mine, sizeof(int) * LARGE);
    MPI_Allreduce(MPI_IN_PLACE, result, LARGE, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < LARGE; i++)
        wrong += result[i] != sum(i, turn);
    CHECK(wrong == 0);
    memcpy(result, mine, sizeof(int) * LARGE);
    MPI_Reduce(rank == root ? MPI_IN_PLACE : mine, result, LARGE, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    for (int i = 0; i < LARGE; i++)
        wrong += result[i] != (rank == root ? sum(i, turn) : mine[i]);
    CHECK(wrong == 0);
    free(mine);
    free(result);
}

/* One element of the buffer is another thing in each rank's view: an odd address. */
static void broadcast(int turn)
{
    char *bytes = malloc(sizeof(int) * LARGE + 1);
    int root = (turn + 1) % size, wrong = 0;
    for (int i = 0; i < 4 * LARGE; i++)
        bytes[1 + i] = (char)(rank == root ? i * 3 + turn : 0);
    MPI_Bcast(bytes + 1, 4 * LARGE, MPI_CHAR, root, MPI_COMM_WORLD);
    for (int i = 0; i < 4 * LARGE; i++)
        wrong += bytes[1 + i] != (char)(i * 3 + turn);
    CHECK(wrong == 0);
    free(bytes);
}

/* Several at a time, completed in another order, with messages in between. */
static void at_a_time(void)
{
    enum { OPERATIONS = 5 };
    int *mine[OPERATIONS], *result[OPERATIONS], wrong = 0, token = -1;
    MPI_Request request[OPERATIONS];
    for (int k = 0; k < OPERATIONS; k++) {
        mine[k] = numbers(LARGE);
        result[k] = numbers(LARGE);
        for (int i = 0; i < LARGE; i++)
            mine[k][i] = element(rank, i, k);
        if (k == 2) {
            memcpy(result[k], mine[k], sizeof(int) * LARGE);
            MPI_Ibcast(result[k], LARGE, MPI_INT, size - 1, MPI_COMM_WORLD, &request[k]);
        } else {
            MPI_Iallreduce(mine[k], result[k], LARGE, MPI_INT, k == 3 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD, &request[k]);
        }
    }
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &token, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(token == (rank + size - 1) % size);
    for (int k = OPERATIONS; k-- > 0;)
        MPI_Wait(&request[k], MPI_STATUS_IGNORE);
    for (int k = 0; k < OPERATIONS; k++) {
        for (int i = 0; i < LARGE; i++) {
            int largest = element(size - 1, i, k);
            wrong += result[k][i] != (k == 2 || k == 3 ? largest : sum(i, k));
        }
        free(mine[k]);
        free(result[k]);
    }
    CHECK(wrong == 0);
}

static void persistent(void)
{
    int *mine = numbers(LARGE), *result = numbers(LARGE), wrong = 0;
    MPI_Request request;
    MPI_Allreduce_init(mine, result, LARGE, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < LARGE; i++)
            mine[i] = element(rank, i, turn);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < LARGE; i++)
            wrong += result[i] != sum(i, turn);
    }
    CHECK(wrong == 0);
    MPI_Request_free(&request);
    free(mine);
    free(result);
}

/* One has more than the others. Everybody hears of it, nobody's memory is written beyond its end, and the next one works. */
static void mismatch(void)
{
    int more = rank == size - 1 ? 1 : 0, wrong = 0, code;
    int *mine = numbers(LARGE + 1), *result = numbers(LARGE + 2);
    for (int i = 0; i < LARGE + 1; i++)
        mine[i] = 1;
    for (int i = 0; i < LARGE + 2; i++)
        result[i] = -1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Allreduce(mine, result, LARGE + more, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK((code == MPI_SUCCESS) == (size == 1));
    CHECK(result[LARGE + more] == -1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Allreduce(mine, result, LARGE, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < LARGE; i++)
        wrong += result[i] != size;
    CHECK(wrong == 0);
    free(mine);
    free(result);
}

/* Other groups of the same processes. */
static void parts(void)
{
    MPI_Comm half;
    int *mine = numbers(LARGE), *all, wrong = 0, n, me;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_size(half, &n);
    MPI_Comm_rank(half, &me);
    all = numbers(LARGE * n);
    for (int i = 0; i < LARGE; i++)
        mine[i] = element(me, i, 3);
    MPI_Allgather(mine, LARGE, MPI_INT, all, LARGE, MPI_INT, half);
    for (int i = 0; i < LARGE * n; i++)
        wrong += all[i] != element(i / LARGE, i % LARGE, 3);
    CHECK(wrong == 0);
    MPI_Comm_free(&half);
    free(mine);
    free(all);
}

/* All agree on how it is done, and what is switched off is not used. */
static void counted(void)
{
    unsigned long long before = stat_of("direct_collectives"), bytes = stat_of("direct_bytes"), limits[2], all[2];
    const char *cma = getenv("BANYAN_CMA"), *coll = getenv("BANYAN_COLL");
    broadcast(5);
    before = stat_of("direct_collectives") - before;
    CHECK(before <= 1);
    CHECK(before == 1 || stat_of("direct_bytes") == bytes);
    CHECK(before == 0 || rank == 6 % size || stat_of("direct_bytes") > bytes); /* the root may have nothing to copy */
    limits[0] = before;
    limits[1] = 1 - before;
    MPI_Allreduce(limits, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    CHECK(all[0] + all[1] == 1);
    if (size == 1 || (cma && strcmp(cma, "off") == 0) || (coll && strcmp(coll, "flat") == 0))
        CHECK(before == 0);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    for (int turn = 0; turn < 3; turn++) {
        reductions(turn);
        broadcast(turn);
    }
    at_a_time();
    persistent();
    mismatch();
    parts();
    counted();
    return finish("direct");
}
