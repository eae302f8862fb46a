/* Topologies: grids, graphs, distributed graphs, and what neighbors exchange on them. */
#include "check.h"

/* Not the constants themselves: they are no arrays, of which the compiler warns. */
static int *volatile unweighted, *volatile weights_empty;

enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, KINDS };
enum { BLOCKING, STARTED, PERSISTENT, LARGE, FORMS };

/* What process `from` sends along its edge number `edge`. */
static int value(int from, int edge)
{
    return 1000 * from + edge;
}

struct around {
    int in, out, *sources, *dests;
};

/* Buffers and lists of one neighborhood collective; blocks of two numbers, three apart. */
struct call {
    struct around at;
    int *send, *recv, *scounts, *sdispls, *rcounts, *rdispls;
    MPI_Aint *sbytes, *rbytes;
    MPI_Datatype *stypes, *rtypes;
};

static void prepare(struct call *c, struct around at)
{
    int i;
    c->at = at;
    c->send = malloc(sizeof(int) * 3 * (size_t)(at.out + 1));
    c->recv = malloc(sizeof(int) * 3 * (size_t)(at.in + 1));
    c->scounts = malloc(sizeof(int) * (size_t)(at.out + 1));
    c->sdispls = malloc(sizeof(int) * (size_t)(at.out + 1));
    c->rcounts = malloc(sizeof(int) * (size_t)(at.in + 1));
    c->rdispls = malloc(sizeof(int) * (size_t)(at.in + 1));
    c->sbytes = malloc(sizeof(MPI_Aint) * (size_t)(at.out + 1));
    c->rbytes = malloc(sizeof(MPI_Aint) * (size_t)(at.in + 1));
    c->stypes = malloc(sizeof(MPI_Datatype) * (size_t)(at.out + 1));
    c->rtypes = malloc(sizeof(MPI_Datatype) * (size_t)(at.in + 1));
    for (i = 0; i < at.out; i++) {
        c->scounts[i] = 2;
        c->sdispls[i] = 3 * i;
        c->sbytes[i] = (MPI_Aint)sizeof(int) * 3 * i;
        c->stypes[i] = MPI_INT;
    }
    for (i = 0; i < at.in; i++) {
        c->rcounts[i] = 2;
        c->rdispls[i] = 3 * (at.in - 1 - i);
        c->rbytes[i] = (MPI_Aint)sizeof(int) * 3 * i;
        c->rtypes[i] = MPI_INT;
    }
}

static void release(struct call *c)
{
    free(c->send);
    free(c->recv);
    free(c->scounts);
    free(c->sdispls);
    free(c->rcounts);
    free(c->rdispls);
    free(c->sbytes);
    free(c->rbytes);
    free(c->stypes);
    free(c->rtypes);
}

static MPI_Request issue(struct call *c, int kind, int form, MPI_Comm comm)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int *s = c->send, *d = c->recv;
    MPI_Count two = 2;
    switch (KINDS * form + kind) {
    case KINDS * BLOCKING + ALLGATHER: MPI_Neighbor_allgather(s, 2, MPI_INT, d, 2, MPI_INT, comm); break;
    case KINDS * STARTED + ALLGATHER: MPI_Ineighbor_allgather(s, 2, MPI_INT, d, 2, MPI_INT, comm, &r); break;
    case KINDS * PERSISTENT + ALLGATHER:
        MPI_Neighbor_allgather_init(s, 2, MPI_INT, d, 2, MPI_INT, comm, MPI_INFO_NULL, &r);
        break;
    case KINDS * LARGE + ALLGATHER: MPI_Neighbor_allgather_c(s, two, MPI_INT, d, two, MPI_INT, comm); break;
    case KINDS * BLOCKING + ALLGATHERV:
        MPI_Neighbor_allgatherv(s, 2, MPI_INT, d, c->rcounts, c->rdispls, MPI_INT, comm);
        break;
    case KINDS * STARTED + ALLGATHERV:
        MPI_Ineighbor_allgatherv(s, 2, MPI_INT, d, c->rcounts, c->rdispls, MPI_INT, comm, &r);
        break;
    case KINDS * PERSISTENT + ALLGATHERV:
        MPI_Neighbor_allgatherv_init(s, 2, MPI_INT, d, c->rcounts, c->rdispls, MPI_INT, comm, MPI_INFO_NULL, &r);
        break;
    case KINDS * BLOCKING + ALLTOALL: MPI_Neighbor_alltoall(s, 2, MPI_INT, d, 2, MPI_INT, comm); break;
    case KINDS * STARTED + ALLTOALL: MPI_Ineighbor_alltoall(s, 2, MPI_INT, d, 2, MPI_INT, comm, &r); break;
    case KINDS * PERSISTENT + ALLTOALL:
        MPI_Neighbor_alltoall_init(s, 2, MPI_INT, d, 2, MPI_INT, comm, MPI_INFO_NULL, &r);
        break;
    case KINDS * LARGE + ALLTOALL: MPI_Neighbor_alltoall_c(s, two, MPI_INT, d, two, MPI_INT, comm); break;
    case KINDS * BLOCKING + ALLTOALLV:
        MPI_Neighbor_alltoallv(s, c->scounts, c->sdispls, MPI_INT, d, c->rcounts, c->rdispls, MPI_INT, comm);
        break;
    case KINDS * STARTED + ALLTOALLV:
        MPI_Ineighbor_alltoallv(s, c->scounts, c->sdispls, MPI_INT, d, c->rcounts, c->rdispls, MPI_INT, comm, &r);
        break;
    case KINDS * PERSISTENT + ALLTOALLV:
        MPI_Neighbor_alltoallv_init(s, c->scounts, c->sdispls, MPI_INT, d, c->rcounts, c->rdispls, MPI_INT, comm,
                                    MPI_INFO_NULL, &r);
        break;
    case KINDS * BLOCKING + ALLTOALLW:
        MPI_Neighbor_alltoallw(s, c->scounts, c->sbytes, c->stypes, d, c->rcounts, c->rbytes, c->rtypes, comm);
        break;
    case KINDS * STARTED + ALLTOALLW:
        MPI_Ineighbor_alltoallw(s, c->scounts, c->sbytes, c->stypes, d, c->rcounts, c->rbytes, c->rtypes, comm, &r);
        break;
    case KINDS * PERSISTENT + ALLTOALLW:
        MPI_Neighbor_alltoallw_init(s, c->scounts, c->sbytes, c->stypes, d, c->rcounts, c->rbytes, c->rtypes, comm,
                                    MPI_INFO_NULL, &r);
        break;
    default: break;
    }
    return r;
}

/* expected[i]: what comes from source i in an all-to-all, or -1. */
static void exchange(MPI_Comm comm, struct around at, const int *expected)
{
    int kind, form, i, round, me;
    struct call c;
    MPI_Comm_rank(comm, &me);
    prepare(&c, at);
    for (kind = 0; kind < KINDS; kind++) {
        for (form = 0; form < FORMS; form++) {
            int gathers = kind == ALLGATHER || kind == ALLGATHERV;
            int dense = kind == ALLGATHER || kind == ALLTOALL;
            if (form == LARGE && !dense)
                continue;
            MPI_Request request = MPI_REQUEST_NULL;
            for (round = 0; round < (form == PERSISTENT ? 3 : 1); round++) {
                for (i = 0; i < 3 * (at.in + 1); i++)
                    c.recv[i] = -7;
                for (i = 0; i < at.out + gathers; i++) {
                    int place = gathers ? 0 : dense ? 2 * i : 3 * i;
                    c.send[place] = gathers ? value(me, 99) : value(me, i);
                    c.send[place + 1] = round;
                }
                if (round == 0)
                    request = issue(&c, kind, form, comm);
                if (form == PERSISTENT)
                    MPI_Start(&request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                for (i = 0; i < at.in; i++) {
                    int place = dense ? 2 * i : kind == ALLTOALLW ? 3 * i : 3 * (at.in - 1 - i);
                    int want = at.sources[i] < 0 ? -7 : gathers ? value(at.sources[i], 99) : expected[i];
                    CHECK(c.recv[place] == want);
                    CHECK(c.recv[place + 1] == (want == -7 ? -7 : round));
                    CHECK(dense || c.recv[place + 2] == -7);
                }
            }
            if (form == PERSISTENT)
                MPI_Request_free(&request);
        }
    }
    release(&c);
}

/* Grids, among them those in which both neighbors of a dimension are one process, or the process itself. */
static void grids(void)
{
    int shape;
    for (shape = 0; shape < 4; shape++) {
        int dims[3] = {0, 0, 0}, periods[3] = {shape & 1, shape >> 1, 1}, ndims = shape == 3 ? 3 : 2, i, d;
        int sources[6], expected[6], me, kind;
        MPI_Comm grid, copy;
        if (shape == 3)
            dims[1] = 1;
        MPI_Dims_create(size, ndims, dims);
        MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 1, &grid);
        MPI_Comm_dup(grid, &copy);
        MPI_Comm_rank(copy, &me);
        MPI_Topo_test(copy, &kind);
        CHECK(kind == MPI_CART);
        for (d = 0; d < ndims; d++)
            MPI_Cart_shift(copy, d, 1, &sources[2 * d], &sources[2 * d + 1]);
        for (i = 0; i < 2 * ndims; i++) {
            /* what comes from below was sent upwards */
            expected[i] = sources[i] == MPI_PROC_NULL ? -7 : value(sources[i], i ^ 1);
            if (sources[i] == MPI_PROC_NULL)
                sources[i] = -1;
        }
        struct around at = {2 * ndims, 2 * ndims, sources, sources};
        exchange(copy, at, expected);
        MPI_Comm_free(&grid);
        MPI_Comm_free(&copy);
    }
}

/* A ring with both neighbors, and process 0 known to everyone. */
static void graphs(void)
{
    int n = size, i, k, edge = 0, kind, nodes, edges, mapped;
    int *index = malloc(sizeof(int) * (size_t)n), *list = malloc(sizeof(int) * 4 * (size_t)n);
    int *neighbors = malloc(sizeof(int) * (size_t)(n + 3)), *expected = malloc(sizeof(int) * (size_t)(n + 3));
    MPI_Comm graph, part;
    for (i = 0; i < n; i++) {
        list[edge++] = (i + n - 1) % n;
        list[edge++] = (i + 1) % n;
        index[i] = edge;
    }
    MPI_Graph_map(MPI_COMM_WORLD, n, index, list, &mapped);
    CHECK(mapped == rank);
    MPI_Graph_create(MPI_COMM_WORLD, n, index, list, 1, &graph);
    MPI_Topo_test(graph, &kind);
    CHECK(kind == MPI_GRAPH);
    MPI_Graphdims_get(graph, &nodes, &edges);
    CHECK(nodes == n && edges == edge);
    int *index2 = malloc(sizeof(int) * (size_t)n), *list2 = malloc(sizeof(int) * 4 * (size_t)n);
    MPI_Graph_get(graph, n, edge, index2, list2);
    CHECK(!memcmp(index, index2, sizeof(int) * (size_t)n) && !memcmp(list, list2, sizeof(int) * (size_t)edge));
    MPI_Graph_neighbors_count(graph, rank, &k);
    CHECK(k == 2);
    MPI_Graph_neighbors(graph, rank, 2, neighbors);
    CHECK(neighbors[0] == (rank + n - 1) % n && neighbors[1] == (rank + 1) % n);
    /* the k-th edge to a process meets its k-th from here */
    for (i = 0; i < 2; i++)
        expected[i] = value(neighbors[i], n > 2 ? 1 - i : i);
    struct around at = {2, 2, neighbors, neighbors};
    exchange(graph, at, expected);
    MPI_Comm_free(&graph);

    /* a smaller graph: the others get no communicator */
    index[0] = 1;
    list[0] = 0;
    MPI_Graph_create(MPI_COMM_WORLD, 1, index, list, 0, &part);
    CHECK((rank == 0) == (part != MPI_COMM_NULL));
    if (part != MPI_COMM_NULL) {
        int zero = 0, self = value(0, 0);
        struct around own = {1, 1, &zero, &zero};
        exchange(part, own, &self);
        MPI_Comm_free(&part);
    }
    free(index);
    free(list);
    free(index2);
    free(list2);
    free(neighbors);
    free(expected);
}

/* Checks a distributed graph in which each process sends to the next one twice and to process 0 once. */
static void check_distributed(MPI_Comm comm, int ordered)
{
    int in, out, weighted, i, j, n = size, kind;
    MPI_Topo_test(comm, &kind);
    CHECK(kind == MPI_DIST_GRAPH);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    CHECK(out == 3 && in == (rank == 0 ? n + 2 : 2) && weighted);
    int *sources = malloc(sizeof(int) * (size_t)in), *sw = malloc(sizeof(int) * (size_t)in), dests[3], dw[3];
    int *expected = malloc(sizeof(int) * (size_t)in), *seen = calloc((size_t)n, sizeof(int));
    MPI_Dist_graph_neighbors(comm, in, sources, sw, out, dests, dw);
    for (i = 0; i < out; i++)
        CHECK(dw[i] == (dw[i] < 5 ? dw[i] : 100 + rank) && dests[i] == (dw[i] < 5 ? (rank + 1) % n : 0));
    int from = (rank + n - 1) % n;
    for (i = 0; i < in; i++)
        CHECK(sw[i] < 5 ? sources[i] == from : sw[i] == 100 + sources[i] && rank == 0);
    if (ordered) {
        /* edge e of a source: 0 and 1 to the next process (weights 1, 2), 2 to process 0 (weight 100 + rank) */
        for (i = 0; i < in; i++)
            expected[i] = value(sources[i], sw[i] < 5 ? sw[i] - 1 : 2);
        /* of several edges from one process, the k-th listed there meets the k-th listed here */
        for (i = 0; i < in; i++) {
            j = seen[sources[i]]++;
            int edges[3] = {0, 1, 2}, first = sources[i] == n - 1 || rank != 0 ? 0 : 2;
            expected[i] = value(sources[i], edges[first + j]);
        }
        struct around at = {in, out, sources, dests};
        exchange(comm, at, expected);
    }
    free(sources);
    free(sw);
    free(expected);
    free(seen);
}

static void distributed(void)
{
    int n = size, i;
    MPI_Comm comm, copy;
    /* everyone names its own edges, and both lists */
    int in = rank == 0 ? n + 2 : 2, from = (rank + n - 1) % n;
    int *sources = malloc(sizeof(int) * (size_t)in), *sw = malloc(sizeof(int) * (size_t)in);
    int dests[3] = {(rank + 1) % n, (rank + 1) % n, 0}, dw[3] = {1, 2, 100 + rank}, counts[3];
    sources[0] = sources[1] = from;
    sw[0] = 1;
    sw[1] = 2;
    for (i = 2; i < in; i++) {
        sources[i] = i - 2;
        sw[i] = 98 + i;
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, sw, 3, dests, dw, MPI_INFO_NULL, 1, &comm);
    MPI_Comm_dup(comm, &copy);
    check_distributed(copy, 1);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&copy);

    /* everyone names the edges of the process behind it */
    int behind = (rank + n - 1) % n, degree = 3;
    int to[3] = {rank, rank, 0}, weights[3] = {1, 2, 100 + behind};
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &behind, &degree, to, weights, MPI_INFO_NULL, 0, &comm);
    check_distributed(comm, 1);
    MPI_Comm_free(&comm);

    /* process 0 names all edges */
    int *ends = malloc(sizeof(int) * (size_t)n), *degrees = malloc(sizeof(int) * (size_t)n);
    int *all = malloc(sizeof(int) * 3 * (size_t)n), *allw = malloc(sizeof(int) * 3 * (size_t)n);
    for (i = 0; i < n; i++) {
        ends[i] = n - 1 - i;
        degrees[i] = 3;
        all[3 * i] = all[3 * i + 1] = (ends[i] + 1) % n;
        all[3 * i + 2] = 0;
        allw[3 * i] = 1;
        allw[3 * i + 1] = 2;
        allw[3 * i + 2] = 100 + ends[i];
    }
    MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 0 ? n : 0, ends, degrees, all, rank == 0 ? allw : weights_empty,
                          MPI_INFO_NULL, 0, &comm);
    check_distributed(comm, 1);
    MPI_Comm_free(&comm);

    /* no weights; nobody has a neighbor */
    MPI_Dist_graph_create(MPI_COMM_WORLD, 0, NULL, NULL, NULL, unweighted, MPI_INFO_NULL, 0, &comm);
    MPI_Dist_graph_neighbors_count(comm, &counts[0], &counts[1], &counts[2]);
    CHECK(counts[0] == 0 && counts[1] == 0 && counts[2] == 0);
    MPI_Neighbor_allgather(&i, 1, MPI_INT, NULL, 1, MPI_INT, comm);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, unweighted, 0, NULL, unweighted, MPI_INFO_NULL, 0,
                                   &comm);
    MPI_Dist_graph_neighbors_count(comm, &counts[0], &counts[1], &counts[2]);
    CHECK(counts[0] == 0 && counts[1] == 0 && counts[2] == 0);
    MPI_Comm_free(&comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, weights_empty, 0, NULL, weights_empty,
                                   MPI_INFO_NULL, 0, &comm);
    MPI_Dist_graph_neighbors_count(comm, &counts[0], &counts[1], &counts[2]);
    CHECK(counts[2] == 1);
    MPI_Comm_free(&comm);
    free(sources);
    free(sw);
    free(ends);
    free(degrees);
    free(all);
    free(allw);
}

/* Blocks with gaps, large ones too: they are packed and unpacked. */
static void strided(void)
{
    enum { N = 20000 };
    int dims[1] = {size}, periods[1] = {0}, i, below, above;
    int *send = malloc(sizeof(int) * 4 * N), *recv = malloc(sizeof(int) * 4 * N);
    MPI_Datatype vector, every_other;
    MPI_Comm line;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &line);
    MPI_Cart_shift(line, 0, 1, &below, &above);
    MPI_Type_vector(N, 1, 2, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, 2 * N * (MPI_Aint)sizeof(int), &every_other);
    MPI_Type_commit(&every_other);
    for (i = 0; i < 4 * N; i++) {
        send[i] = value(rank, i);
        recv[i] = -1;
    }
    MPI_Neighbor_alltoall(send, 1, every_other, recv, 1, every_other, line);
    for (i = 0; i < 2 * N; i++) {
        CHECK(recv[i] == (below == MPI_PROC_NULL || i % 2 ? -1 : value(below, 2 * N + i)));
        CHECK(recv[2 * N + i] == (above == MPI_PROC_NULL || i % 2 ? -1 : value(above, i)));
        if (failures)
            break;
    }
    MPI_Type_free(&vector);
    MPI_Type_free(&every_other);
    MPI_Comm_free(&line);
    free(send);
    free(recv);
}

static void mistakes(void)
{
    MPI_Comm comm, grid;
    int x = 0, y = 0, bad[2] = {0, size + 99}, one = 1, wrong = -1, dims[1] = {size}, periods[1] = {1};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Neighbor_allgather(&x, 1, MPI_INT, &y, 1, MPI_INT, MPI_COMM_WORLD)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Graphdims_get(MPI_COMM_WORLD, &x, &y)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &x, &x, &y)) == MPI_ERR_TOPOLOGY);
    comm = MPI_COMM_WORLD;
    CHECK(class_of(MPI_Graph_create(MPI_COMM_WORLD, 1, &one, &bad[1], 0, &comm)) == MPI_ERR_ARG);
    CHECK(comm == MPI_COMM_NULL);
    CHECK(class_of(MPI_Graph_create(MPI_COMM_WORLD, -1, &one, bad, 0, &comm)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, bad, &one, &bad[1], unweighted, MPI_INFO_NULL, 0,
                                         &comm)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, bad, &one, bad, &wrong, MPI_INFO_NULL, 0, &comm)) ==
          MPI_ERR_ARG);
    CHECK(class_of(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, bad, unweighted, 1, bad, weights_empty,
                                                  MPI_INFO_NULL, 0, &comm)) == MPI_ERR_ARG);
    int none[2] = {2, 0}, both[2] = {0, 0}, place = 0;
    CHECK(MPI_Cart_map(MPI_COMM_WORLD, 2, none, both, &place) == MPI_SUCCESS && place == MPI_UNDEFINED);
    none[1] = -1;
    CHECK(class_of(MPI_Cart_map(MPI_COMM_WORLD, 2, none, both, &place)) == MPI_ERR_DIMS);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    int buffer[4] = {0};
    CHECK(class_of(MPI_Neighbor_alltoall(MPI_IN_PLACE, 1, MPI_INT, buffer, 1, MPI_INT, grid)) == MPI_ERR_BUFFER);
    MPI_Comm_free(&grid);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    unweighted = MPI_UNWEIGHTED;
    weights_empty = MPI_WEIGHTS_EMPTY;
    grids();
    graphs();
    distributed();
    strided();
    mistakes();
    return finish("topo");
}
