/* Arguments that make no sense come back as errors, on every rank that has to hear of them: nothing crashes and nobody waits
 * for a rank that was refused. */
#include "check.h"
#include <limits.h>

#define IS(call, class) CHECK(class_of(call) == (class))

static void no_memory(void)
{
    int x[4] = {1, 2, 3, 4}, one = 1, zero = 0, position = 0;
    char packed[64];
    MPI_Aint far = 0, at = sizeof packed;
    MPI_Datatype pair, absolute;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    IS(MPI_Send(NULL, 1, pair, MPI_PROC_NULL, 0, MPI_COMM_SELF), MPI_SUCCESS); /* nobody looks */
    IS(MPI_Send(NULL, 1, pair, 0, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Recv(NULL, 1, pair, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    IS(MPI_Bcast(NULL, 1, pair, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Allgatherv(x, 1, MPI_INT, NULL, &one, &zero, MPI_INT, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Alltoallv(NULL, &one, &zero, MPI_INT, x, &one, &zero, MPI_INT, MPI_COMM_SELF), MPI_ERR_BUFFER);
    MPI_Datatype type = MPI_INT;
    IS(MPI_Alltoallw(x, &one, &zero, &type, NULL, &one, &zero, &type, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Gatherv(x, 1, MPI_INT, NULL, &one, &zero, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Scatterv(NULL, &one, &zero, MPI_INT, x, 1, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Reduce_scatter(x, NULL, &one, MPI_INT, MPI_SUM, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Reduce_scatter(NULL, x, &one, MPI_INT, MPI_SUM, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Reduce_local(NULL, x, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    IS(MPI_Pack(x, 1, MPI_INT, NULL, 64, &position, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Pack(NULL, 1, pair, packed, 64, &position, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Unpack(NULL, 64, &position, x, 1, MPI_INT, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Unpack(packed, 64, &position, NULL, 1, pair, MPI_COMM_SELF), MPI_ERR_BUFFER);
    IS(MPI_Pack_external("external32", x, 1, MPI_INT, NULL, at, &far), MPI_ERR_BUFFER);
    IS(MPI_Unpack_external("external32", NULL, at, &far, x, 1, MPI_INT), MPI_ERR_BUFFER);
    CHECK(position == 0 && far == 0);
    /* Nothing is no memory's business, and absolute addresses begin at none. */
    IS(MPI_Send(NULL, 0, pair, MPI_PROC_NULL, 0, MPI_COMM_SELF), MPI_SUCCESS);
    IS(MPI_Allgatherv(NULL, 0, MPI_INT, NULL, &zero, &zero, MPI_INT, MPI_COMM_SELF), MPI_SUCCESS);
    MPI_Aint address;
    int y[2] = {0, 0};
    MPI_Get_address(x, &address);
    MPI_Type_create_hindexed(1, (int[]){2}, &address, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    IS(MPI_Sendrecv(MPI_BOTTOM, 1, absolute, 0, 1, y, 1, pair, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK(y[0] == 1 && y[1] == 2);
    MPI_Count two = 2;
    MPI_Aint there;
    MPI_Get_address(y, &there);
    x[0] = 8;
    IS(MPI_Alltoallw_c(MPI_BOTTOM, &two, &address, &type, MPI_BOTTOM, &two, &there, &type, MPI_COMM_SELF), MPI_SUCCESS);
    CHECK(y[0] == 8 && y[1] == 2);
    MPI_Type_free(&absolute);
    MPI_Type_free(&pair);
}

/* The error of a null pointer says which argument that is. */
static void null_names(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
#define NAMED(call, words)                                                                       \
    MPI_Error_string(call, text, &length);                                                       \
    CHECK(strstr(text, words) != NULL)
    NAMED(MPI_Isend(&length, 1, MPI_INT, 0, 0, MPI_COMM_SELF, NULL), "argument request is null");
    NAMED(MPI_Isend_c(&length, 1, MPI_INT, 0, 0, MPI_COMM_SELF, NULL), "argument request is null");
    NAMED(MPI_Comm_rank(MPI_COMM_WORLD, NULL), "argument rank is null");
    NAMED(MPI_Type_get_extent(MPI_INT, NULL, NULL), "arguments lb and extent are null");
    NAMED(MPI_Info_create(NULL), "argument info is null");
    NAMED(MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE), "argument array_of_requests is null");
}

/* "In place" away from the root is a common mistake: each rank says so by itself, and the next collective is right. */
static void in_place(void)
{
    int x = rank, *all = calloc(size, sizeof *all), sum = 0;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (rank > 0) {
        IS(MPI_Reduce(MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM, 0, comm), MPI_ERR_BUFFER);
        IS(MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER);
        IS(MPI_Gatherv(MPI_IN_PLACE, 1, MPI_INT, NULL, NULL, NULL, MPI_INT, 0, comm), MPI_ERR_BUFFER);
        IS(MPI_Scatter(all, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER);
        IS(MPI_Scatterv(NULL, NULL, NULL, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER);
    } else {
        IS(MPI_Scatter(MPI_IN_PLACE, 1, MPI_INT, &x, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER);
    }
    x = 1;
    MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size);
    MPI_Comm_free(&comm);
    free(all);
}

static void between_groups(void)
{
    int x = 0, y[1] = {0}, none[1] = {0};
    MPI_Comm half, both, graph;
    if (size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &both);
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    IS(MPI_Graph_create(both, 1, (int[]){0}, (int[]){0}, 0, &graph), MPI_ERR_COMM);
    IS(MPI_Dist_graph_create(both, 0, none, none, none, none, MPI_INFO_NULL, 0, &graph), MPI_ERR_COMM);
    IS(MPI_Dist_graph_create_adjacent(both, 0, none, none, 0, none, none, MPI_INFO_NULL, 0, &graph), MPI_ERR_COMM);
    IS(MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM, both), MPI_ERR_BUFFER);
    IS(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, y, 1, MPI_INT, both), MPI_ERR_BUFFER);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

static void large_numbers(void)
{
    int dims[4] = {65536, 65536, 65536, 65536}, from, to;
    char a = 0, b = 0;
    MPI_Comm ring;
    IS(MPI_Dims_create(8, 4, dims), MPI_ERR_DIMS);
    if (size > 1)
        IS(MPI_Reduce_scatter_block_c(&a, &b, (MPI_Count)LONG_MAX / 2 + 1, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD),
           MPI_ERR_COUNT);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 0, &ring);
    MPI_Cart_shift(ring, 0, INT_MAX, &from, &to);
    CHECK(to == (int)((rank + (long)INT_MAX) % size));
    MPI_Cart_shift(ring, 0, INT_MIN, &from, &to);
    CHECK(to == (int)(((rank + (long)INT_MIN) % size + size) % size));
    MPI_Comm_free(&ring);
}

static void no_status(void)
{
    int n;
    MPI_Count count;
    IS(MPI_Get_count(MPI_STATUS_IGNORE, MPI_INT, &n), MPI_ERR_ARG);
    IS(MPI_Get_elements(MPI_STATUS_IGNORE, MPI_INT, &n), MPI_ERR_ARG);
    IS(MPI_Get_elements_x(MPI_STATUS_IGNORE, MPI_INT, &count), MPI_ERR_ARG);
    IS(MPI_Test_cancelled(MPI_STATUS_IGNORE, &n), MPI_ERR_ARG);
    IS(MPI_Status_set_cancelled(MPI_STATUS_IGNORE, 1), MPI_ERR_ARG);
    IS(MPI_Status_set_elements(MPI_STATUS_IGNORE, MPI_INT, 1), MPI_ERR_ARG);
    IS(MPI_Status_get_source(MPI_STATUS_IGNORE, &n), MPI_ERR_ARG);
    IS(MPI_Status_set_tag(NULL, 1), MPI_ERR_ARG);
}

/* What is wrong at the root is the same error for everybody. */
static void refused_at_the_root(void)
{
    char *argv[] = {NULL}, *commands[] = {"no program"}, **argvs[] = {argv};
    int codes[4], one = 1;
    MPI_Info infos[] = {MPI_INFO_NULL};
    MPI_Comm comm, new;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    IS(MPI_Comm_spawn("no program", argv, -1, MPI_INFO_NULL, 0, comm, &new, codes), MPI_ERR_ARG);
    CHECK(new == MPI_COMM_NULL);
    IS(MPI_Comm_spawn_multiple(0, commands, argvs, &one, infos, size - 1, comm, &new, codes), MPI_ERR_ARG);
    IS(MPI_Comm_connect(rank == 0 ? NULL : "port", MPI_INFO_NULL, 0, comm, &new), MPI_ERR_ARG);
    IS(MPI_Comm_accept(rank == 0 ? NULL : "port", MPI_INFO_NULL, 0, comm, &new), MPI_ERR_ARG);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
}

static MPI_Aint extent_seen;

static void add_pairs(void *in, void *inout, int *len, MPI_Datatype *type)
{
    MPI_Aint lb;
    MPI_Type_get_extent(*type, &lb, &extent_seen);
    for (int i = 0; i < 2 * *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* The program may free what a collective still uses. */
static void freed_meanwhile(void)
{
    int in[2] = {rank, 1}, out[2] = {0, 0};
    MPI_Op op;
    MPI_Request request;
    MPI_Datatype pair, other;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(add_pairs, 1, &op);
    MPI_Iallreduce(in, out, 1, pair, op, MPI_COMM_WORLD, &request);
    MPI_Type_free(&pair);
    MPI_Op_free(&op);
    MPI_Type_contiguous(7, MPI_INT, &other); /* where the other was */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(out[0] == size * (size - 1) / 2 && out[1] == size);
    CHECK(size == 1 || extent_seen == 2 * sizeof(int) || extent_seen == 0);
    MPI_Type_free(&other);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    no_memory();
    null_names();
    in_place();
    between_groups();
    large_numbers();
    no_status();
    refused_at_the_root();
    freed_meanwhile();
    return finish("arguments");
}
