/* Collectives through memory that the processes of a node map together. */
#include "check.h"
#include <banyan.h>
#include <unistd.h>

static MPI_Comm node;
static int me, n;

static unsigned long long stat_of(const char *name)
{
    unsigned long long value = 0;
    CHECK(BANYAN_Stat(name, &value) == MPI_SUCCESS);
    return value;
}

static char *bytes_of(long count)
{
    char *all = malloc((size_t)count + 1);
    if (!all)
        MPI_Abort(MPI_COMM_WORLD, 4);
    return all;
}

/* Byte i of what process `from` has for process `to` in operation `turn`. */
static char byte_of(int from, int to, long i, int turn)
{
    return (char)(from * 31 + to * 17 + i * 7 + i / 255 + turn * 5);
}

static void alltoall(MPI_Comm comm, long block, int turn)
{
    int rank_here, size_here, wrong = 0;
    MPI_Comm_rank(comm, &rank_here);
    MPI_Comm_size(comm, &size_here);
    char *mine = bytes_of(block * size_here), *theirs = bytes_of(block * size_here);
    for (int to = 0; to < size_here; to++)
        for (long i = 0; i < block; i++)
            mine[to * block + i] = byte_of(rank_here, to, i, turn);
    memset(theirs, 1, (size_t)(block * size_here + 1));
    MPI_Alltoall(mine, (int)block, MPI_CHAR, theirs, (int)block, MPI_CHAR, comm);
    for (int from = 0; from < size_here; from++)
        for (long i = 0; i < block; i++)
            wrong += theirs[from * block + i] != byte_of(from, rank_here, i, turn);
    CHECK(wrong == 0 && theirs[block * size_here] == 1);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_CHAR, mine, (int)block, MPI_CHAR, comm);
    CHECK(memcmp(mine, theirs, (size_t)(block * size_here)) == 0);
    free(mine);
    free(theirs);
}

static void allgather(MPI_Comm comm, long block, int turn)
{
    int rank_here, size_here, wrong = 0;
    MPI_Comm_rank(comm, &rank_here);
    MPI_Comm_size(comm, &size_here);
    char *mine = bytes_of(block), *all = bytes_of(block * size_here);
    for (long i = 0; i < block; i++)
        mine[i] = byte_of(rank_here, 0, i, turn);
    for (int in_place = 0; in_place < 2; in_place++) {
        memset(all, 1, (size_t)(block * size_here + 1));
        memcpy(all + block * rank_here, mine, (size_t)block);
        MPI_Allgather(in_place ? MPI_IN_PLACE : mine, (int)block, MPI_CHAR, all, (int)block, MPI_CHAR, comm);
        for (int from = 0; from < size_here; from++)
            for (long i = 0; i < block; i++)
                wrong += all[from * block + i] != byte_of(from, 0, i, turn);
        CHECK(wrong == 0 && all[block * size_here] == 1);
    }
    free(mine);
    free(all);
}

static void broadcast(MPI_Comm comm, long bytes, int turn)
{
    int rank_here, size_here, wrong = 0;
    MPI_Comm_rank(comm, &rank_here);
    MPI_Comm_size(comm, &size_here);
    int root = turn % size_here;
    char *data = bytes_of(bytes);
    for (long i = 0; i < bytes; i++)
        data[i] = rank_here == root ? byte_of(root, 0, i, turn) : 1;
    data[bytes] = 1;
    MPI_Bcast(data, (int)bytes, MPI_CHAR, root, comm);
    for (long i = 0; i < bytes; i++)
        wrong += data[i] != byte_of(root, 0, i, turn);
    CHECK(wrong == 0 && data[bytes] == 1);
    free(data);
}

/* Every second element of the program's memory. */
static void with_gaps(void)
{
    enum { COUNT = 3000 };
    MPI_Datatype second;
    int wrong = 0, *mine = malloc(sizeof(int) * 2 * COUNT * (size_t)n), *theirs = malloc(sizeof(int) * 2 * COUNT * (size_t)n);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &second);
    MPI_Type_commit(&second);
    for (int i = 0; i < 2 * COUNT * n; i++) {
        mine[i] = me * 100000 + i;
        theirs[i] = -1;
    }
    MPI_Alltoall(mine, COUNT, second, theirs, COUNT, second, node);
    for (int from = 0; from < n; from++)
        for (int i = 0; i < 2 * COUNT; i++)
            wrong += theirs[from * 2 * COUNT + i] != (i % 2 ? -1 : from * 100000 + me * 2 * COUNT + i);
    CHECK(wrong == 0);
    MPI_Type_free(&second);
    free(mine);
    free(theirs);
}

/* What is not waited for at once goes other ways, whatever goes on meanwhile. */
static void at_a_time(void)
{
    enum { BLOCK = 9000 };
    MPI_Request requests[2];
    char *mine = bytes_of(BLOCK * (long)n), *first = bytes_of(BLOCK * (long)n), *second = bytes_of(BLOCK * (long)n);
    int wrong = 0;
    for (int to = 0; to < n; to++)
        for (long i = 0; i < BLOCK; i++)
            mine[to * BLOCK + i] = byte_of(me, to, i, 0);
    MPI_Ialltoall(mine, BLOCK, MPI_CHAR, first, BLOCK, MPI_CHAR, node, &requests[0]);
    alltoall(node, BLOCK, 1);
    MPI_Ialltoall(mine, BLOCK, MPI_CHAR, second, BLOCK, MPI_CHAR, node, &requests[1]);
    allgather(node, BLOCK, 2);
    broadcast(node, BLOCK, 3);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int from = 0; from < n; from++)
        for (long i = 0; i < BLOCK; i++)
            wrong += first[from * BLOCK + i] != byte_of(from, me, i, 0) || second[from * BLOCK + i] != byte_of(from, me, i, 0);
    CHECK(wrong == 0);
    free(mine);
    free(first);
    free(second);
}

/* Two mean different roots: all hear of it, and the next ones work. So do they after amounts that differ. (Messages from
 * different roots may cross, and wait for each other.) */
static void mismatch(int is_common)
{
    enum { BYTES = 20000 };
    char *data = bytes_of(BYTES * (long)n), *other = bytes_of(BYTES * (long)n);
    MPI_Comm comm;
    memset(data, 0, BYTES * (size_t)n);
    memset(other, 0, BYTES * (size_t)n);
    MPI_Comm_dup(node, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 3; turn++) {
        broadcast(comm, BYTES, turn);
        /* One of them hears of it, and is not out of step with the others. */
        int code = MPI_Bcast(other, me == n - 1 ? 50 : 100, MPI_CHAR, 0, comm);
        CHECK((code == MPI_SUCCESS) == (me != n - 1 || me == 0));
        broadcast(comm, BYTES, turn + 10);
        if (is_common && n > 2) {
            code = MPI_Bcast(data, BYTES, MPI_CHAR, me == 1 ? 1 : 0, comm);
            CHECK(code != MPI_SUCCESS);
        }
        allgather(comm, BYTES, turn);
        code = MPI_Allgather(data, BYTES - (me == n - 1), MPI_CHAR, other, BYTES - (me == n - 1), MPI_CHAR, comm);
        CHECK((code == MPI_SUCCESS) == (n == 1));
        alltoall(comm, 20200, turn);
    }
    MPI_Comm_free(&comm);
    free(data);
    free(other);
}

/* All agree on how it is done, and what is switched off is not used. */
static int counted(void)
{
    const char *coll = getenv("BANYAN_COLL"), *force = getenv("BANYAN_FORCE_NET"), *check = getenv("BANYAN_CHECK");
    unsigned long long before = stat_of("common_collectives"), used, limits[2], all[2];
    alltoall(node, 20000, 1);
    used = stat_of("common_collectives") - before;
    CHECK(used == 0 || used == 2);
    limits[0] = used;
    limits[1] = 2 - used;
    MPI_Allreduce(limits, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_MAX, node);
    CHECK(all[0] + all[1] == 2);
    if (n == 1 || (coll && strcmp(coll, "flat") == 0) || (force && *force) || (check && *check))
        CHECK(used == 0);
    else if (n == 2)
        CHECK(used == 2 && stat_of("common_bytes") > 0);
    return used > 0;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &n);
    static const long blocks[] = {1, 8, 500, 8192, 20000, 70000};
    for (int turn = 0; turn < 30; turn++) {
        long block = blocks[turn % 6];
        if (me == turn % n && turn % 7 == 0)
            usleep(2000); /* one comes late */
        alltoall(node, block, turn);
        broadcast(node, block * 3, turn);
        allgather(node, block, turn);
        if (turn % 5 == 0) {
            alltoall(MPI_COMM_WORLD, blocks[turn % 4], turn);
            broadcast(MPI_COMM_WORLD, block, turn);
        }
    }
    with_gaps();
    at_a_time();
    mismatch(counted());
    MPI_Comm_free(&node);
    return finish("common");
}
