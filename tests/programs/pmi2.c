/* A process that speaks PMI-2 through Slurm's libpmi2, without any MPI: keys, fences, attributes of job and node, names,
 * and (`pmi2 spawn`) a second job of itself, to which rank 0 gives a key. `pmi2 abort` gives up instead. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 3
#define CHILDREN 3

static int rank, size;
static char job[256];

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "rank %d: wrong %s\n", rank, what);
    exit(1);
}

static int got(const char *key, const char *expected)
{
    char value[PMI2_MAX_VALLEN + 1];
    int length;
    return PMI2_KVS_Get(job, PMI2_ID_NULL, key, value, sizeof value, &length) == PMI2_SUCCESS &&
           !strcmp(value, expected);
}

/* Everybody's keys of every round, with what the protocol itself uses in them. */
static void keys(void)
{
    char key[PMI2_MAX_KEYLEN], value[PMI2_MAX_VALLEN];
    for (int round = 0; round < ROUNDS; round++) {
        snprintf(key, sizeof key, "key-%d-%d", round, rank);
        snprintf(value, sizeof value, ";;a=%d;b %d;", rank, round);
        check(PMI2_KVS_Put(key, value) == PMI2_SUCCESS, "put");
        check(PMI2_KVS_Fence() == PMI2_SUCCESS, "fence");
        for (int peer = 0; peer < size; peer++) {
            snprintf(key, sizeof key, "key-%d-%d", round, peer);
            snprintf(value, sizeof value, ";;a=%d;b %d;", peer, round);
            check(got(key, value), "value of a key");
        }
    }
    check(!got("nobody has put this", ""), "value of a key that nobody has put");
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = 0;
    check(PMI2_KVS_Put("long", value) == PMI2_SUCCESS && PMI2_KVS_Fence() == PMI2_SUCCESS, "long put");
    check(got("long", value), "long value");
}

static void attributes(void)
{
    char value[PMI2_MAX_VALLEN], local[32];
    int found;
    check(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found) == PMI2_SUCCESS, "job attribute");
    check(found && !strncmp(value, "(vector,", 8), "placement of ranks");
    check(PMI2_Info_GetJobAttr("nothing", value, sizeof value, &found) == PMI2_SUCCESS && !found, "absent attribute");
    /* The last rank of a node tells the others, which wait for it. */
    snprintf(local, sizeof local, "from a node;");
    if (atoi(getenv("MPI_LOCALRANKID")) == atoi(getenv("MPI_LOCALNRANKS")) - 1)
        check(PMI2_Info_PutNodeAttr("attribute", local) == PMI2_SUCCESS, "put of a node attribute");
    check(PMI2_Info_GetNodeAttr("attribute", value, sizeof value, &found, 1) == PMI2_SUCCESS, "node attribute");
    check(found && !strcmp(value, local), "value of a node attribute");
    check(PMI2_Info_GetNodeAttr("no", value, sizeof value, &found, 0) == PMI2_SUCCESS && !found, "absent node attribute");
}

static void names(void)
{
    char port[PMI2_MAX_VALLEN];
    if (rank == size - 1) {
        check(PMI2_Nameserv_publish("a service", NULL, "port;1") == PMI2_SUCCESS, "publish");
        check(PMI2_Nameserv_publish("a service", NULL, "port;2") != PMI2_SUCCESS, "second publish");
    }
    check(PMI2_KVS_Fence() == PMI2_SUCCESS, "fence");
    check(PMI2_Nameserv_lookup("a service", NULL, port, sizeof port) == PMI2_SUCCESS, "lookup");
    check(!strcmp(port, "port;1"), "port");
    check(PMI2_KVS_Fence() == PMI2_SUCCESS, "fence");
    if (rank == 0)
        check(PMI2_Nameserv_unpublish("a service", NULL) == PMI2_SUCCESS, "unpublish");
    check(PMI2_KVS_Fence() == PMI2_SUCCESS, "fence");
    check(PMI2_Nameserv_lookup("a service", NULL, port, sizeof port) != PMI2_SUCCESS, "lookup of what is withdrawn");
}

/* Two programs, the same twice, that become one job. */
static void spawn(const char *program)
{
    const char *programs[] = {program, program}, *arguments[] = {"child", "with;semicolon"};
    const char **all[] = {arguments, arguments};
    int counts[] = {2, 2}, processes[] = {1, CHILDREN - 1}, infos[] = {1, 0}, errors[CHILDREN];
    struct MPID_Info key = {.key = "PARENT", .value = "tag;0"};
    struct MPID_Info folder = {.key = "wdir", .value = "/"};
    const struct MPID_Info *keys[] = {&key}, *hints[] = {&folder, NULL};
    char child[256];
    memset(errors, 9, sizeof errors);
    check(PMI2_Job_Spawn(2, programs, counts, all, processes, infos, hints, 1, keys, child, sizeof child, errors) ==
              PMI2_SUCCESS, "spawn");
    check(strcmp(child, job), "name of the spawned job");
    for (int i = 0; i < CHILDREN; i++)
        check(errors[i] == 0, "error code of a child");
}

int main(int argc, char **argv)
{
    int spawned, program;
    check(PMI2_Init(&spawned, &size, &rank, &program) == PMI2_SUCCESS, "init");
    check(PMI2_Job_GetId(job, sizeof job) == PMI2_SUCCESS, "name of the job");
    if (argc > 1 && !strcmp(argv[1], "child")) {
        check(spawned && size == CHILDREN && program == (rank > 0), "place of a child");
        check(argc == 3 && !strcmp(argv[2], "with;semicolon"), "arguments of a child");
        check(got("PARENT", "tag;0"), "key from the parent");
    } else {
        check(!spawned, "word on who started this");
    }
    keys();
    attributes();
    if (!spawned)
        names();
    if (argc > 1 && !strcmp(argv[1], "spawn") && rank == 0)
        spawn(argv[0]);
    if (argc > 1 && !strcmp(argv[1], "abort") && rank == size - 1)
        PMI2_Abort(1, "application called MPI_Abort(MPI_COMM_WORLD, 7) - process");
    check(PMI2_KVS_Fence() == PMI2_SUCCESS && PMI2_Finalize() == PMI2_SUCCESS, "end");
    if (rank == 0)
        printf("%s of %d: all right\n", spawned ? "spawned job" : "job", size);
    return 0;
}
