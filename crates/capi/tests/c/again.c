/* Small collectives called again and again: like the last one, and unlike it in one thing. */
#include "check.h"

enum { ROUNDS = 60, WORDS = 5 };

static void fill(int *words, int count, int round, int from)
{
    for (int i = 0; i < count; i++)
        words[i] = 1000 * round + 10 * from + i;
}

static int filled(const int *words, int count, int round, int from)
{
    for (int i = 0; i < count; i++)
        if (words[i] != 1000 * round + 10 * from + i)
            return 0;
    return 1;
}

enum { BCAST, SUM, MOST, SUM_IN_PLACE, REDUCE, SCATTERED, ALLGATHER, ALLTOALL, KINDS };

/* One collective; `many` has room for what everybody gives and gets. */
static void call(MPI_Comm comm, int kind, int round, int *many)
{
    int me, all, other[2][WORDS];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    /* Root, count, datatype and buffer differ now and then. */
    int count = 1 + round / 3 % WORDS, root = round / 2 % all, *mine = other[round % 2];
    int one = me + round, got = -1, sum = all * (all - 1) / 2 + all * round, *out = many, *in = many + all * count;
    switch (kind) {
    case BCAST:
        if (me == root)
            fill(mine, count, round, root);
        MPI_Bcast(mine, round % 5 ? count : 4 * count, round % 5 ? MPI_INT : MPI_BYTE, root, comm);
        CHECK(filled(mine, count, round, root));
        break;
    case SUM:
        MPI_Allreduce(&one, &got, 1, MPI_INT, MPI_SUM, comm);
        CHECK(got == sum);
        break;
    case MOST:
        MPI_Allreduce(&one, &got, 1, MPI_INT, MPI_MAX, comm);
        CHECK(got == all - 1 + round);
        break;
    case SUM_IN_PLACE:
        MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, comm);
        CHECK(one == sum);
        break;
    case REDUCE:
        MPI_Reduce(&one, me == root ? &got : NULL, 1, MPI_INT, MPI_SUM, root, comm);
        CHECK(got == (me == root ? sum : -1));
        break;
    case SCATTERED:
        for (int r = 0; r < all; r++)
            out[r] = one + 1000 * r;
        MPI_Reduce_scatter_block(out, &got, 1, MPI_INT, MPI_SUM, comm);
        CHECK(got == sum + 1000 * me * all);
        break;
    case ALLGATHER:
        fill(out, count, round, me);
        MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, comm);
        for (int r = 0; r < all; r++)
            CHECK(filled(in + r * count, count, round, r));
        break;
    case ALLTOALL:
        for (int r = 0; r < all; r++)
            fill(out + r * count, count, round, me + r);
        MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm);
        for (int r = 0; r < all; r++)
            CHECK(filled(in + r * count, count, round, me + r));
    }
}

/* Each kind by itself, so that calls follow others like them, and all kinds in turn. */
static void turns(MPI_Comm comm)
{
    int rounds = size > 16 ? ROUNDS / 5 : ROUNDS, *many = calloc(2 * (size_t)size * WORDS, sizeof *many);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int round = 0; round < rounds; round++)
            call(comm, kind, round, many);
        MPI_Barrier(comm);
    }
    for (int round = 0; round < rounds; round++)
        call(comm, round % KINDS, round / KINDS, many);
    free(many);
}

/* Everybody broadcasts in turn, from few words to so many that they go other ways, and nobody waits for all. */
static void everybody_in_turn(void)
{
    static int words[6000];
    for (int round = 0; round < 3; round++)
        for (int count = 1; count <= 6000; count = count * 9 + 1)
            for (int root = size - 1; root >= 0; root--) {
                if (rank == root)
                    fill(words, count, round, root);
                MPI_Bcast(words, count, MPI_INT, root, MPI_COMM_WORLD);
                CHECK(filled(words, count, round, root));
            }
}

/* Collectives between messages that are under way, and that nobody waits for yet. */
static void among_messages(void)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        int in = -1, out = round, sum = 0;
        MPI_Request requests[2], barrier;
        if (round % 3)
            MPI_Irecv(&in, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&out, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[1]);
        MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
        if (round % 2)
            MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size * round);
        if (!(round % 3))
            MPI_Irecv(&in, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        CHECK(in == round);
    }
}

/* Mistakes are found out although the same call was right before, and the next is right again. */
static void mistakes(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int words[8] = {0}, sum = 0, one = 1;
    for (int round = 0; round < 4; round++) {
        CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == size);
        CHECK(MPI_Bcast(words, 2, MPI_INT, 0, comm) == MPI_SUCCESS);
        CHECK(class_of(MPI_Allreduce(&one, &one, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Allreduce(&one, NULL, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Allreduce(NULL, &sum, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Allreduce(&one, &sum, -1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_COUNT);
        CHECK(class_of(MPI_Bcast(NULL, 2, MPI_INT, 0, comm)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Bcast((void *)16, 2, MPI_INT, 0, comm)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Allreduce((void *)16, &sum, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Send((void *)16, 1, MPI_INT, rank, 0, comm)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Send((void *)16, 1, MPI_INT, (rank + 1) % size, 0, comm)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Recv((void *)16, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_STATUS_IGNORE)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Bcast(words, 2, MPI_INT, size, comm)) == MPI_ERR_ROOT);
        /* The last process means another length than its parent. */
        int odd = rank == size - 1 && size > 1;
        int code = MPI_Bcast(words, odd ? 1 : 2, MPI_INT, 0, comm);
        CHECK(odd ? class_of(code) == MPI_ERR_TRUNCATE : code == MPI_SUCCESS || class_of(code) == MPI_ERR_TRUNCATE);
    }
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    turns(MPI_COMM_WORLD);
    /* Communicators that come and go have no memory of those before them. */
    for (int i = 0; i < 8; i++) {
        MPI_Comm part;
        MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? rank % 2 : rank / 2, i % 3 ? rank : -rank, &part);
        int one = 1, all = 0, expected;
        MPI_Comm_size(part, &expected);
        for (int round = 0; round < 3; round++, all = 0) {
            MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, part);
            CHECK(all == expected);
        }
        if (size <= 16)
            turns(part);
        MPI_Comm_free(&part);
    }
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    turns(node);
    MPI_Comm_free(&node);
    everybody_in_turn();
    among_messages();
    mistakes();
    return finish("again");
}
