/* What a budget of connections costs, and how long it takes to make one.
 *
 *   budget alltoall       everybody with everybody, 4 KiB each: ms for one exchange
 *   budget halo           4 KiB with each of four neighbours, always the same ones: us for one exchange
 *   budget connect        every pair of ranks but neighbours meets for the first time, one pair after the other
 *   budget connect-all    the same, as many pairs at once as there can be
 *
 * A result is one line "key value" on standard output. What arrives is checked.
 */
#include "measure.h"
#include <banyan.h>

enum { BLOCK = 4096, ALLTOALL_ROUNDS = 5, HALO_WARM = 20, HALO_ROUNDS = 300, NEIGHBOURS = 4 };

static void *room(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 4);
    return memory;
}

/* --- exchanges --- */

/* What `from` tells `to` in a round. */
static uint64_t word_of(int round, int from, int to)
{
    return ((uint64_t)round << 40) ^ ((uint64_t)from << 20) ^ (uint64_t)to;
}

static void alltoall(int round, char *out, char *in)
{
    for (int peer = 0; peer < size; peer++)
        rewrite(out + (size_t)peer * BLOCK, word_of(round, rank, peer));
    MPI_Alltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++)
        read_back(in + (size_t)peer * BLOCK, word_of(round, peer, rank));
}

static void run_alltoall(void)
{
    char *out = room((size_t)size * BLOCK), *in = room((size_t)size * BLOCK);
    double took[ALLTOALL_ROUNDS];
    message_bytes = BLOCK;
    alltoall(0, out, in); /* connects whom there is room for */
    for (int round = 0; round < ALLTOALL_ROUNDS; round++) {
        double start = now();
        alltoall(round + 1, out, in);
        took[round] = now() - start;
    }
    qsort(took, ALLTOALL_ROUNDS, sizeof *took, by_value);
    report("alltoall_ms", 1e3 * took[ALLTOALL_ROUNDS / 2]);
    free(out);
    free(in);
}

/* Ranks at distance 1 and at a distance that makes a square of them. */
static void find_neighbours(int neighbours[NEIGHBOURS])
{
    int side = 2;
    while ((side + 1) * (side + 1) <= size)
        side++;
    const int distances[NEIGHBOURS] = {1, size - 1, side, size - side};
    for (int i = 0; i < NEIGHBOURS; i++)
        neighbours[i] = (rank + distances[i]) % size;
}

static void halo(int round, const int neighbours[NEIGHBOURS], char *out, char *in)
{
    MPI_Request requests[2 * NEIGHBOURS];
    for (int i = 0; i < NEIGHBOURS; i++)
        MPI_Irecv(in + i * BLOCK, BLOCK, MPI_BYTE, neighbours[i], i ^ 1, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < NEIGHBOURS; i++) {
        rewrite(out + i * BLOCK, word_of(round, rank, neighbours[i]));
        MPI_Isend(out + i * BLOCK, BLOCK, MPI_BYTE, neighbours[i], i, MPI_COMM_WORLD, &requests[NEIGHBOURS + i]);
    }
    MPI_Waitall(2 * NEIGHBOURS, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < NEIGHBOURS; i++)
        read_back(in + i * BLOCK, word_of(round, neighbours[i], rank));
}

/* No barrier anywhere: it would need connections that this does not. */
static void run_halo(void)
{
    int neighbours[NEIGHBOURS], round = 0;
    char *out = room(NEIGHBOURS * BLOCK), *in = room(NEIGHBOURS * BLOCK);
    message_bytes = BLOCK;
    find_neighbours(neighbours);
    while (round < HALO_WARM)
        halo(round++, neighbours, out, in);
    double start = now();
    while (round < HALO_WARM + HALO_ROUNDS)
        halo(round++, neighbours, out, in);
    report("halo_us", 1e6 * (now() - start) / HALO_ROUNDS);
    free(out);
    free(in);
}

/* --- first contacts --- */

static double *first_us, *ready_us; /* first round trips; times until the connection was ready */
static int first_count, ready_count;

static unsigned long long stat_of(const char *name)
{
    unsigned long long value = 0;
    if (BANYAN_Stat(name, &value) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 4);
    return value;
}

/* A rank that is still starting does not answer. So a word goes round, which everybody passes on, and neighbours have met
 * after that; a second round tells that the first has ended. */
static void await_everybody(void)
{
    int word = 0, next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int round = 0; round < 2; round++) {
        if (rank > 0)
            MPI_Recv(&word, 1, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(&word, 1, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static int has_met(int peer)
{
    int distance = (peer + size - rank) % size;
    return distance <= 1 || distance == size - 1;
}

/* A message each way with a rank that this one has not met. The connection may be ready before it is needed, because the
 * peer was first, and then there is no time to it; or after the messages have arrived, because an answer was lost. */
static void meet_first(int peer)
{
    unsigned long long count = stat_of("first_messages"), sum_ns = stat_of("first_message_sum_ns");
    int mine = rank, theirs = -1, there;
    double start = now();
    MPI_Sendrecv(&mine, 1, MPI_INT, peer, 1, &theirs, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    first_us[first_count++] = 1e6 * (now() - start);
    if (theirs != peer)
        MPI_Abort(MPI_COMM_WORLD, 2);
    while (stat_of("opening") > 0) {
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE); /* there is no such message */
        sched_yield();
    }
    if (stat_of("first_messages") == count + 1)
        ready_us[ready_count++] = 1e-3 * (double)(stat_of("first_message_sum_ns") - sum_ns);
}

/* Who has the turn meets all ranks behind it, which sleep until then, and gives the turn to the next. */
static void meet_one_by_one(void)
{
    int word = 0;
    for (int before = 0; before < rank; before++) {
        if (has_met(before))
            continue;
        MPI_Recv(&word, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&rank, 1, MPI_INT, before, 1, MPI_COMM_WORLD);
    }
    if (rank > 0)
        MPI_Recv(&word, 1, MPI_INT, rank - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int peer = rank + 1; peer < size; peer++)
        if (!has_met(peer))
            meet_first(peer);
    if (rank + 1 < size)
        MPI_Send(&word, 1, MPI_INT, rank + 1, 2, MPI_COMM_WORLD);
}

/* In each step the ranks form pairs, all of them new. */
static void meet_at_once(void)
{
    for (int step = 0; step < size; step++) {
        int peer = (step + size - rank) % size;
        if (!has_met(peer))
            meet_first(peer);
    }
}

/* The median and the 99th percentile over all ranks. */
static void report_percentiles(const char *what, const double *mine, int count)
{
    int *counts = room((size_t)size * sizeof *counts), *starts = room((size_t)size * sizeof *starts), all = 0;
    char key[64];
    MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++) {
        starts[peer] = all;
        all += counts[peer];
    }
    double *of_all = room((size_t)(all + 1) * sizeof *of_all);
    MPI_Gatherv(mine, count, MPI_DOUBLE, of_all, counts, starts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0 && all > 0) {
        qsort(of_all, (size_t)all, sizeof *of_all, by_value);
        snprintf(key, sizeof key, "%s_median", what);
        result(key, of_all[all / 2]);
        snprintf(key, sizeof key, "%s_99", what);
        result(key, of_all[(size_t)all * 99 / 100]);
        snprintf(key, sizeof key, "%s_count", what);
        result(key, all);
    }
    free(counts);
    free(starts);
    free(of_all);
}

static void run_connect(void (*meet_all_others)(void))
{
    first_us = room((size_t)size * sizeof *first_us);
    ready_us = room((size_t)size * sizeof *ready_us);
    await_everybody();
    meet_all_others();
    report_percentiles("first", first_us, first_count);
    report_percentiles("ready", ready_us, ready_count);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    begin(early_rank());
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "alltoall") == 0) {
        run_alltoall();
    } else if (strcmp(what, "halo") == 0 && size > 2 * NEIGHBOURS) {
        run_halo();
    } else if (strcmp(what, "connect") == 0) {
        run_connect(meet_one_by_one);
    } else if (strcmp(what, "connect-all") == 0) {
        run_connect(meet_at_once);
    } else {
        fprintf(stderr, "usage: budget alltoall | halo (more than 8 ranks) | connect | connect-all\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
