/* The counters that a program can read while it runs. */
#include "check.h"
#include <banyan.h>

static unsigned long long stat_of(const char *name)
{
    unsigned long long value = 0;
    CHECK(BANYAN_Stat(name, &value) == MPI_SUCCESS);
    return value;
}

/* How many names there are; each can be read, or none where MPI is not running. */
static int names(int expected)
{
    char name[BANYAN_MAX_STAT_NAME];
    int count = 0;
    for (; BANYAN_Stat_name(count, name) == MPI_SUCCESS; count++) {
        unsigned long long value = 4711;
        int code = BANYAN_Stat(name, &value);
        CHECK(strlen(name) > 0 && strlen(name) < BANYAN_MAX_STAT_NAME);
        CHECK(expected == MPI_SUCCESS ? code == MPI_SUCCESS : code == expected && value == 4711);
    }
    return count;
}

static void mistakes(void)
{
    unsigned long long value = 4711;
    char name[BANYAN_MAX_STAT_NAME] = "left alone";
    CHECK(BANYAN_Stat("no such counter", &value) == MPI_ERR_ARG && value == 4711);
    CHECK(BANYAN_Stat(NULL, &value) == MPI_ERR_ARG && value == 4711);
    CHECK(BANYAN_Stat("connections", NULL) == MPI_ERR_ARG);
    CHECK(BANYAN_Stat_name(-1, name) == MPI_ERR_ARG && strcmp(name, "left alone") == 0);
    CHECK(BANYAN_Stat_name(100000, name) == MPI_ERR_ARG && strcmp(name, "left alone") == 0);
    CHECK(BANYAN_Stat_name(0, NULL) == MPI_ERR_ARG);
}

/* A pair of ranks exchanges a message: there is a connection, and the message is counted. */
static void exchange(void)
{
    int peer = rank ^ 1, mine = rank, theirs = -1;
    unsigned long long bytes = stat_of("bytes_sent");
    if (peer >= size)
        return;
    MPI_Sendrecv(&mine, 1, MPI_INT, peer, 0, &theirs, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(theirs == peer);
    CHECK(stat_of("bytes_sent") == bytes + sizeof mine);
    CHECK(stat_of("connections") >= 1); /* others may have gone on to finish() */
    CHECK(stat_of("open_shared") + stat_of("open_sockets") >= 1);
    CHECK(stat_of("handshakes") >= 1);
    CHECK(stat_of("init_total_ns") > 0);
    CHECK(stat_of("complete") == 0);
}

int main(int argc, char **argv)
{
    int before = names(MPI_ERR_OTHER), running, failed;
    CHECK(before > 20);
    begin(&argc, &argv);
    running = names(MPI_SUCCESS);
    CHECK(running == before);
    mistakes();
    exchange();
    failed = finish("stats");
    failures = 0;
    CHECK(names(MPI_ERR_OTHER) == before);
    return failed || failures;
}
