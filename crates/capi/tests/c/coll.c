/* Collective operations, blocking and non-blocking, on the world and on a part of it, with every root. */
#include "check.h"

static MPI_Comm comm;
static int me, n;

static void rooted(void)
{
    int root, i;
    int *all = malloc(sizeof(int) * 4 * (size_t)n), *counts = malloc(sizeof(int) * (size_t)n);
    int *displs = malloc(sizeof(int) * (size_t)n), *part = malloc(sizeof(int) * (size_t)(n + 1));
    for (root = 0; root < n; root++) {
        int x[3] = {me == root, me == root ? root : -1, me}, sum = -1;
        MPI_Bcast(x, 2, MPI_INT, root, comm);
        CHECK(x[0] == 1 && x[1] == root && x[2] == me);

        int mine[2] = {me, me * me};
        MPI_Gather(mine, 2, MPI_INT, all, 2, MPI_INT, root, comm);
        for (i = 0; me == root && i < n; i++)
            CHECK(all[2 * i] == i && all[2 * i + 1] == i * i);
        MPI_Scatter(all, 2, MPI_INT, x, 2, MPI_INT, root, comm);
        CHECK(x[0] == me && x[1] == me * me);
        if (me == root)
            MPI_Scatter(all, 2, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root, comm);
        else
            MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, x, 2, MPI_INT, root, comm);
        CHECK(x[1] == me * me);

        /* rank i contributes i + 1 numbers, placed with gaps */
        int at = 0;
        for (i = 0; i < n; i++) {
            counts[i] = i % 3 + 1;
            displs[i] = at;
            at += 4;
        }
        for (i = 0; i < me % 3 + 1; i++)
            part[i] = 100 * me + i;
        for (i = 0; i < 4 * n; i++)
            all[i] = -1;
        MPI_Gatherv(part, me % 3 + 1, MPI_INT, all, counts, displs, MPI_INT, root, comm);
        for (i = 0; me == root && i < n; i++)
            CHECK(all[4 * i] == 100 * i && all[4 * i + i % 3] == 100 * i + i % 3 && all[4 * i + 3] == -1);
        part[0] = -1;
        MPI_Scatterv(all, counts, displs, MPI_INT, part, me % 3 + 1, MPI_INT, root, comm);
        CHECK(part[0] == 100 * me && part[me % 3] == 100 * me + me % 3);

        MPI_Reduce(&me, &sum, 1, MPI_INT, MPI_SUM, root, comm);
        CHECK(me == root ? sum == n * (n - 1) / 2 : sum == -1);
        sum = me;
        if (me == root)
            MPI_Reduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_MAX, root, comm);
        else
            MPI_Reduce(&sum, NULL, 1, MPI_INT, MPI_MAX, root, comm);
        CHECK(sum == (me == root ? n - 1 : me));
    }
    free(all);
    free(counts);
    free(displs);
    free(part);
}

static void unrooted(void)
{
    int i, *all = malloc(sizeof(int) * (size_t)n), *in = malloc(sizeof(int) * (size_t)n);
    int *counts = malloc(sizeof(int) * (size_t)n), *displs = malloc(sizeof(int) * (size_t)n);
    MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (i = 0; i < n; i++)
        CHECK(all[i] == i);
    all[me] = 7 * me;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm);
    for (i = 0; i < n; i++) {
        CHECK(all[i] == 7 * i);
        counts[i] = 1;
        displs[i] = n - 1 - i;
    }
    MPI_Allgatherv(&me, 1, MPI_INT, all, counts, displs, MPI_INT, comm);
    for (i = 0; i < n; i++)
        CHECK(all[n - 1 - i] == i);

    for (i = 0; i < n; i++)
        in[i] = 100 * me + i;
    MPI_Alltoall(in, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (i = 0; i < n; i++)
        CHECK(all[i] == 100 * i + me);
    MPI_Alltoallv(in, counts, displs, MPI_INT, all, counts, displs, MPI_INT, comm);
    for (i = 0; i < n; i++)
        CHECK(all[n - 1 - i] == 100 * i + (n - 1 - me));

    int sum = -1, block = -1;
    MPI_Scan(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == me * (me + 1) / 2);
    sum = -1;
    MPI_Exscan(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(me == 0 || sum == me * (me - 1) / 2);
    for (i = 0; i < n; i++)
        in[i] = i;
    MPI_Reduce_scatter_block(in, &block, 1, MPI_INT, MPI_SUM, comm);
    CHECK(block == n * me);
    MPI_Reduce_scatter(in, &block, counts, MPI_INT, MPI_SUM, comm);
    CHECK(block == n * me);
    free(all);
    free(in);
    free(counts);
    free(displs);
}

static void operations(void)
{
    double x = me + 0.5, max = 0, min = 0;
    unsigned bits = 1u << (me % 31), or = 0;
    int truth = me != 0, and = 1, any = 0, i;
    struct { double value; int index; } pair = {(me * 7) % n, me}, best;
    MPI_Allreduce(&x, &max, 1, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allreduce(&x, &min, 1, MPI_DOUBLE, MPI_MIN, comm);
    CHECK(max == n - 0.5 && min == 0.5);
    MPI_Allreduce(&bits, &or, 1, MPI_UNSIGNED, MPI_BOR, comm);
    CHECK(n > 31 || or == (n == 31 ? 0x7fffffffu : (1u << n) - 1));
    MPI_Allreduce(&truth, &and, 1, MPI_INT, MPI_LAND, comm);
    MPI_Allreduce(&truth, &any, 1, MPI_INT, MPI_LOR, comm);
    CHECK(and == 0 && any == (n > 1));
    MPI_Allreduce(&pair, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm);
    CHECK(best.value == 0 && best.index == 0);

    enum { MANY = 100000 };
    int *big = malloc(sizeof(int) * MANY), *sums = malloc(sizeof(int) * MANY), wrong = 0;
    for (i = 0; i < MANY; i++)
        big[i] = i + me;
    MPI_Allreduce(big, sums, MANY, MPI_INT, MPI_SUM, comm);
    for (i = 0; i < MANY; i++)
        wrong += sums[i] != n * i + n * (n - 1) / 2;
    CHECK(wrong == 0);
    MPI_Allreduce(MPI_IN_PLACE, big, MANY, MPI_INT, MPI_SUM, comm);
    CHECK(memcmp(big, sums, sizeof(int) * MANY) == 0);
    free(big);
    free(sums);
}

/* An operation of the program, which does not commute: composition of x -> a x + b. */
typedef struct { int a, b; } affine;
static int calls;

static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    affine *f = in, *g = inout;
    int i, bytes;
    MPI_Type_size(*type, &bytes); /* calling MPI from a callback is allowed */
    if (bytes != 8)
        return;
    for (i = 0; i < *len; i++) {
        affine h = {g[i].a * f[i].a, g[i].a * f[i].b + g[i].b};
        g[i] = h;
    }
    calls++;
}

static void user_operation(void)
{
    affine mine = {1 + me % 2, me}, all = {0, 0}, want = {1, 0};
    int i, commutes = -1;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Request request;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(compose, 0, &op);
    MPI_Op_commutative(op, &commutes);
    CHECK(commutes == 0);
    for (i = 0; i < n; i++) {
        want.b = (1 + i % 2) * want.b + i;
        want.a *= 1 + i % 2;
    }
    MPI_Allreduce(&mine, &all, 1, type, op, comm);
    CHECK(all.a == want.a && all.b == want.b);
    all.a = all.b = 0;
    MPI_Iallreduce(&mine, &all, 1, type, op, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(all.a == want.a && all.b == want.b);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    MPI_Type_free(&type);
}

static void non_blocking(void)
{
    int i, x = me == 0 ? 99 : -1, sum = -1, *all = malloc(sizeof(int) * (size_t)n);
    MPI_Request requests[4], again;
    MPI_Ibarrier(comm, &requests[0]);
    MPI_Ibcast(&x, 1, MPI_INT, 0, comm, &requests[1]);
    MPI_Iallreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[2]);
    MPI_Iallgather(&me, 1, MPI_INT, all, 1, MPI_INT, comm, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    CHECK(x == 99 && sum == n * (n - 1) / 2);
    for (i = 0; i < n; i++)
        CHECK(all[i] == i);
    MPI_Allreduce_init(&x, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &again);
    for (i = 0; i < 3; i++) {
        x = i + me;
        MPI_Start(&again);
        MPI_Wait(&again, MPI_STATUS_IGNORE);
        CHECK(sum == n * i + n * (n - 1) / 2);
    }
    MPI_Request_free(&again);
    free(all);
}

/* Persistent operations meet by the order in which they were made, not by that of their starts. */
static void persistent(void)
{
    MPI_Request requests[3];
    int i, k, in[3], sum[3];
    for (k = 0; k < 3; k++)
        MPI_Allreduce_init(&in[k], &sum[k], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[k]);
    for (i = 0; i < 5; i++) {
        int other = -1;
        for (k = 0; k < 3; k++) in[k] = 100 * k + i;
        for (k = 0; k < 3; k++) MPI_Start(&requests[(k + me + i) % 3]);
        MPI_Allreduce(&i, &other, 1, MPI_INT, MPI_SUM, comm);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        for (k = 0; k < 3; k++) CHECK(sum[k] == n * (100 * k + i));
        CHECK(other == n * i);
    }
    for (k = 0; k < 3; k++) MPI_Request_free(&requests[k]);
}

static void everything_on(MPI_Comm on)
{
    comm = on;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    MPI_Barrier(comm);
    rooted();
    unrooted();
    operations();
    user_operation();
    non_blocking();
    persistent();
}

int main(int argc, char **argv)
{
    MPI_Comm part;
    begin(&argc, &argv);
    everything_on(MPI_COMM_WORLD);
    everything_on(MPI_COMM_SELF);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part); /* backwards */
    everything_on(part);
    MPI_Comm_free(&part);
    return finish("coll");
}
