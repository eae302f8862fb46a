/* Intercommunicators: how they come about, messages, collectives, what is made of them. With one process, only what one
   can see alone. */
#include "check.h"

static MPI_Comm inter, local;
static int side, lrank, lsize, rsize;

/* Even ranks are one side, odd ranks the other; leaders are the last of each. */
static void make(void)
{
    int evens = (size + 1) / 2, odds = size / 2, flag;
    side = rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local);
    MPI_Comm_rank(local, &lrank);
    MPI_Comm_size(local, &lsize);
    int leader = lsize - 1;
    int other = side ? 2 * (evens - 1) : 2 * (odds - 1) + 1;
    MPI_Intercomm_create(local, leader, lrank == leader ? MPI_COMM_WORLD : MPI_COMM_NULL, other, 17, &inter);
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag);
    MPI_Comm_test_inter(local, &flag);
    CHECK(!flag);
    MPI_Comm_remote_size(inter, &rsize);
    CHECK(rsize == (side ? evens : odds));
    int n;
    MPI_Comm_size(inter, &n);
    CHECK(n == lsize);
    MPI_Comm_rank(inter, &n);
    CHECK(n == lrank);
}

/* The rank in the world of a process of the other side. */
static int theirs(int r) { return 2 * r + !side; }

static void groups(void)
{
    MPI_Group mine, others, world;
    int n, result;
    MPI_Comm_group(inter, &mine);
    MPI_Comm_remote_group(inter, &others);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(others, &n);
    CHECK(n == rsize);
    for (int r = 0; r < rsize; r++) {
        int there = -1;
        MPI_Group_translate_ranks(others, 1, &r, world, &there);
        CHECK(there == theirs(r));
    }
    MPI_Group_rank(others, &n);
    CHECK(n == MPI_UNDEFINED);
    MPI_Group_rank(mine, &n);
    CHECK(n == lrank);
    MPI_Group_free(&mine);
    MPI_Group_free(&others);
    MPI_Group_free(&world);
    MPI_Comm_compare(inter, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_UNEQUAL);
    MPI_Comm_compare(inter, inter, &result);
    CHECK(result == MPI_IDENT);
}

static void messages(void)
{
    MPI_Status status;
    MPI_Request requests[2];
    int to = lrank % rsize, sent = 100 * rank + 1, got;
    /* Everybody sends to one of the other side, which knows how many come. */
    MPI_Isend(&sent, 1, MPI_INT, to, 5, inter, &requests[0]);
    for (int r = lrank; r < rsize; r += lsize) {
        if (r % lsize != lrank)
            continue;
        MPI_Recv(&got, 1, MPI_INT, r, 5, inter, &status);
        CHECK(got == 100 * theirs(r) + 1 && status.MPI_SOURCE == r);
    }
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (lrank == 0) {
        MPI_Issend(&sent, 1, MPI_INT, 0, 6, inter, &requests[0]);
        MPI_Probe(MPI_ANY_SOURCE, 6, inter, &status);
        CHECK(status.MPI_SOURCE == 0);
        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(got == 100 * theirs(0) + 1);
    }
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Send(&sent, 1, MPI_INT, rsize, 5, inter)) == MPI_ERR_RANK);
}

/* The root is the last of side 0. */
static int root_here(void) { return side ? lsize == 0 ? 0 : (size + 1) / 2 - 1 : lrank == lsize - 1 ? MPI_ROOT : MPI_PROC_NULL; }

static void rooted(MPI_Comm comm)
{
    int root = root_here(), others = rsize, data[3] = {-1, -1, -1};
    int *all = malloc(3 * (rsize + 1) * sizeof *all), *counts = malloc(2 * (rsize + 1) * sizeof *counts);
    if (root == MPI_ROOT)
        data[0] = 7, data[1] = 8, data[2] = 9;
    MPI_Bcast(root == MPI_PROC_NULL ? NULL : data, root == MPI_PROC_NULL ? 0 : 3, MPI_INT, root, comm);
    CHECK(root == MPI_PROC_NULL || (data[0] == 7 && data[2] == 9));
    /* Gather and scatter, with arguments that do not count being nonsense. */
    int mine[2] = {rank, -rank};
    memset(all, 0, 3 * (rsize + 1) * sizeof *all);
    if (side)
        MPI_Gather(mine, 2, MPI_INT, NULL, -1, MPI_DATATYPE_NULL, root, comm);
    else
        MPI_Gather(NULL, -1, MPI_DATATYPE_NULL, all, 2, MPI_INT, root, comm);
    for (int r = 0; root == MPI_ROOT && r < others; r++)
        CHECK(all[2 * r] == theirs(r) && all[2 * r + 1] == -theirs(r));
    for (int r = 0; r < rsize; r++)
        counts[r] = 2, counts[rsize + r] = 3 * (rsize - 1 - r);
    memset(all, 0, 3 * (rsize + 1) * sizeof *all);
    MPI_Gatherv(mine, 2, MPI_INT, all, counts, counts + rsize, MPI_INT, root, comm);
    for (int r = 0; root == MPI_ROOT && r < others; r++)
        CHECK(all[3 * (rsize - 1 - r)] == theirs(r));
    for (int i = 0; i < 3 * rsize; i++)
        all[i] = 1000 + i;
    int part[2] = {0, 0};
    MPI_Scatter(all, 2, MPI_INT, part, 2, MPI_INT, root, comm);
    CHECK(!side || (part[0] == 1000 + 2 * lrank && part[1] == 1001 + 2 * lrank));
    MPI_Scatterv(all, counts, counts + rsize, MPI_INT, part, 2, MPI_INT, root, comm);
    CHECK(!side || part[0] == 1000 + 3 * (lsize - 1 - lrank));
    /* Reduce: side 1 gives, the root takes. */
    int sum = -1, expected = 0;
    for (int r = 0; r < others; r++)
        expected += theirs(r);
    MPI_Reduce(side ? &rank : NULL, side ? NULL : &sum, 1, MPI_INT, MPI_SUM, root, comm);
    CHECK(root != MPI_ROOT || sum == expected);
    free(all);
    free(counts);
}

static void exchanges(MPI_Comm comm)
{
    int *in = malloc(2 * (rsize + 1) * sizeof *in), *out = malloc(4 * (rsize + 1) * sizeof *out);
    int *counts = malloc(4 * (rsize + lsize) * sizeof *counts), *displs = counts + rsize;
    /* Side 0 gives 2 integers each, side 1 gives 1. */
    int give = side ? 1 : 2, take = 3 - give, mine[2] = {rank, 50 + rank};
    MPI_Allgather(mine, give, MPI_INT, out, take, MPI_INT, comm);
    for (int r = 0; r < rsize; r++)
        CHECK(out[take * r] == theirs(r) && out[take * r + take - 1] == theirs(r) + (take == 2 ? 50 : 0));
    for (int r = 0; r < rsize; r++)
        counts[r] = take, displs[r] = 3 * r + 1;
    memset(out, 0, 4 * (rsize + 1) * sizeof *out);
    MPI_Allgatherv(mine, give, MPI_INT, out, counts, displs, MPI_INT, comm);
    for (int r = 0; r < rsize; r++)
        CHECK(out[3 * r + 1] == theirs(r) && out[3 * r] == 0);
    for (int r = 0; r < rsize; r++)
        in[r] = 1000 * rank + theirs(r);
    MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, comm);
    for (int r = 0; r < rsize; r++)
        CHECK(out[r] == 1000 * theirs(r) + rank);
    for (int r = 0; r < rsize; r++)
        counts[r] = 1, displs[r] = r;
    memset(out, 0, 4 * (rsize + 1) * sizeof *out);
    MPI_Alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, comm);
    for (int r = 0; r < rsize; r++)
        CHECK(out[r] == 1000 * theirs(r) + rank);
    MPI_Datatype *types = malloc(rsize * sizeof *types);
    for (int r = 0; r < rsize; r++)
        displs[r] = r * sizeof(int), types[r] = MPI_INT;
    memset(out, 0, 4 * (rsize + 1) * sizeof *out);
    MPI_Alltoallw(in, counts, displs, types, out, counts, displs, types, comm);
    for (int r = 0; r < rsize; r++)
        CHECK(out[r] == 1000 * theirs(r) + rank);
    free(types);
    free(in);
    free(out);
    free(counts);
}

static void reductions(MPI_Comm comm)
{
    int sum = -1, expected = 0;
    for (int r = 0; r < rsize; r++)
        expected += theirs(r) + 1;
    int mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == expected);
    /* lsize * rsize elements: both sides can share them. */
    int count = lsize * rsize, *in = malloc(count * sizeof *in), *out = malloc(count * sizeof *out);
    int *counts = malloc(lsize * sizeof *counts);
    for (int i = 0; i < count; i++)
        in[i] = (rank + 1) * (i + 1);
    for (int r = 0; r < lsize; r++)
        counts[r] = rsize;
    MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < rsize; i++)
        CHECK(out[i] == expected * (lrank * rsize + i + 1));
    memset(out, 0, count * sizeof *out);
    MPI_Reduce_scatter_block(in, out, rsize, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < rsize; i++)
        CHECK(out[i] == expected * (lrank * rsize + i + 1));
    CHECK(class_of(MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Exscan(&mine, &sum, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
    int dims = 1, periods = 0;
    MPI_Comm cart;
    CHECK(class_of(MPI_Cart_create(comm, 1, &dims, &periods, 0, &cart)) == MPI_ERR_COMM);
    free(in);
    free(out);
    free(counts);
}

/* Several operations at once, and one that runs again and again. */
static void requests(MPI_Comm comm)
{
    int mine = rank + 1, sum[2] = {0, 0}, expected = 0, root = root_here(), data = root == MPI_ROOT ? 4 : 0;
    MPI_Request started[3], again;
    for (int r = 0; r < rsize; r++)
        expected += theirs(r) + 1;
    MPI_Iallreduce(&mine, &sum[0], 1, MPI_INT, MPI_SUM, comm, &started[0]);
    MPI_Ibarrier(comm, &started[1]);
    MPI_Ibcast(&data, 1, MPI_INT, root, comm, &started[2]);
    MPI_Waitall(3, started, MPI_STATUSES_IGNORE);
    CHECK(sum[0] == expected && (root == MPI_PROC_NULL || data == 4));
    MPI_Allreduce_init(&mine, &sum[1], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &again);
    for (int i = 0; i < 3; i++) {
        sum[1] = 0;
        MPI_Start(&again);
        MPI_Wait(&again, MPI_STATUS_IGNORE);
        CHECK(sum[1] == expected);
    }
    MPI_Request_free(&again);
}

static int deleted;

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void copies(void)
{
    MPI_Comm copy, later;
    MPI_Request request;
    int result, keyval, flag, *value, word = 3;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, on_delete, &keyval, NULL);
    MPI_Comm_set_attr(inter, keyval, &word);
    MPI_Comm_dup(inter, &copy);
    MPI_Comm_compare(inter, copy, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_get_attr(copy, keyval, &value, &flag);
    CHECK(flag && *value == 3);
    MPI_Comm_set_name(copy, "a copy");
    MPI_Comm_get_name(copy, name, &result);
    CHECK(!strcmp(name, "a copy"));
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    reductions(copy);
    MPI_Comm_idup(copy, &later, &request);
    MPI_Barrier(copy);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    exchanges(later);
    MPI_Comm_free(&later);
    MPI_Comm_free(&copy);
    CHECK(deleted == 2);
    MPI_Comm_dup_with_info(inter, MPI_INFO_NULL, &copy);
    rooted(copy);
    MPI_Comm_disconnect(&copy);
    CHECK(copy == MPI_COMM_NULL && deleted == 3);
    MPI_Comm_delete_attr(inter, keyval);
    MPI_Comm_free_keyval(&keyval);
}

/* A new one of the first half (rounded up) of each side; nobody of side 1 if `none`. */
static void creates(int none)
{
    MPI_Group mine, part;
    MPI_Comm made;
    int range[1][3] = {{0, (lsize + 1) / 2 - 1, 1}};
    MPI_Comm_group(inter, &mine);
    if (none && side)
        part = MPI_GROUP_EMPTY;
    else
        MPI_Group_range_incl(mine, 1, range, &part);
    MPI_Comm_create(inter, part, &made);
    int inside = !none && lrank < (lsize + 1) / 2;
    CHECK((made != MPI_COMM_NULL) == inside);
    if (inside) {
        int n, sum, expected = 0;
        MPI_Comm_remote_size(made, &n);
        CHECK(n == (rsize + 1) / 2);
        for (int r = 0; r < n; r++)
            expected += theirs(r);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made);
        CHECK(sum == expected);
        MPI_Comm_free(&made);
    }
    if (part != MPI_GROUP_EMPTY)
        MPI_Group_free(&part);
    MPI_Group_free(&mine);
}

/* Colors by pairs of ranks of a side, in reverse; color 0 of side 1 goes nowhere. */
static void splits(void)
{
    MPI_Comm part;
    int color = lrank / 2, n;
    MPI_Comm_split_type(inter, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    if (part != MPI_COMM_NULL) { /* nobody of the other side may be on this node */
        MPI_Comm_remote_size(part, &n);
        CHECK(n > 0 && n <= rsize);
        MPI_Comm_free(&part);
    }
    MPI_Comm_split(inter, side && color == 0 ? MPI_UNDEFINED : color, -lrank, &part);
    int others = color == 0 ? 0 : rsize - 2 * color;
    others = others > 2 ? 2 : others < 0 ? 0 : others;
    CHECK((part != MPI_COMM_NULL) == (others > 0));
    if (part == MPI_COMM_NULL)
        return;
    int flag, got;
    MPI_Comm_test_inter(part, &flag);
    MPI_Comm_remote_size(part, &n);
    CHECK(flag && n == others);
    /* The highest rank of each side is first. */
    int top = 2 * color + (others - 1);
    MPI_Comm_rank(part, &n);
    if (n == 0) {
        MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, part, MPI_STATUS_IGNORE);
        CHECK(got == theirs(top));
    }
    MPI_Comm_free(&part);
}

static void merges(void)
{
    for (int low = 0; low < 2; low++) {
        MPI_Comm all;
        int n, r, flag, sum;
        MPI_Intercomm_merge(inter, side != low, &all);
        MPI_Comm_test_inter(all, &flag);
        MPI_Comm_size(all, &n);
        MPI_Comm_rank(all, &r);
        CHECK(!flag && n == size);
        CHECK(r == (side == low ? lrank : rsize + lrank));
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
        CHECK(sum == size * (size - 1) / 2);
        MPI_Comm_free(&all);
    }
    /* Both say the same: the order is the library's, but one for all. */
    MPI_Comm all;
    int r, n, *ranks = malloc(size * sizeof *ranks);
    MPI_Intercomm_merge(inter, 1, &all);
    MPI_Comm_rank(all, &r);
    MPI_Allgather(&r, 1, MPI_INT, ranks, 1, MPI_INT, all);
    for (n = 0; n < size; n++)
        CHECK(ranks[n] == n);
    MPI_Comm_free(&all);
    free(ranks);
}

static void from_groups(void)
{
    MPI_Group mine, others;
    MPI_Comm made;
    int n, sum, expected = 0;
    MPI_Comm_group(inter, &mine);
    MPI_Comm_remote_group(inter, &others);
    MPI_Intercomm_create_from_groups(mine, 0, others, 0, "both sides", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
    MPI_Comm_remote_size(made, &n);
    CHECK(n == rsize);
    for (int r = 0; r < rsize; r++)
        expected += theirs(r);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made);
    CHECK(sum == expected);
    CHECK(class_of(MPI_Send(&n, 1, MPI_INT, rsize, 5, made)) == MPI_ERR_RANK);
    MPI_Comm_free(&made);
    MPI_Group_free(&mine);
    MPI_Group_free(&others);
}

static void alone(void)
{
    int flag = 1, n;
    MPI_Group group;
    MPI_Comm merged;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_test_inter(MPI_COMM_WORLD, &flag);
    CHECK(flag == 0);
    CHECK(class_of(MPI_Comm_remote_size(MPI_COMM_WORLD, &n)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_remote_group(MPI_COMM_WORLD, &group)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &merged)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 3, MPI_COMM_WORLD, 0, 1, &merged)) == MPI_ERR_RANK);
    CHECK(merged == MPI_COMM_NULL);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    alone();
    if (size > 1) {
        make();
        groups();
        messages();
        MPI_Barrier(inter);
        rooted(inter);
        exchanges(inter);
        reductions(inter);
        requests(inter);
        copies();
        creates(0);
        creates(1);
        splits();
        merges();
        from_groups();
        MPI_Comm_free(&inter);
        MPI_Comm_free(&local);
    }
    return finish("inter");
}
