/* Communicators by hardware: each process binds itself to a processor, so that what must come out is known. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>

static int size_of(MPI_Comm comm)
{
    int n = 0;
    if (comm != MPI_COMM_NULL)
        MPI_Comm_size(comm, &n);
    return n;
}

static MPI_Comm guided(int type, const char *resource)
{
    MPI_Info info;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Info_create(&info);
    if (resource)
        MPI_Info_set(info, "mpi_hw_resource_type", resource);
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, type, -rank, info, &comm) == MPI_SUCCESS);
    MPI_Info_free(&info);
    return comm;
}

static void free_it(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL)
        MPI_Comm_free(comm);
}

int main(int argc, char **argv)
{
    cpu_set_t allowed, one;
    int cpus[2], n = 0, flag;
    char value[16];
    MPI_Comm comm, node, same;
    MPI_Info info;
    begin(&argc, &argv);

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    CHECK(node != MPI_COMM_NULL);
    int here = size_of(node), at;
    MPI_Comm_rank(node, &at);
    comm = guided(MPI_COMM_TYPE_HW_GUIDED, "mpi_shared_memory");
    CHECK(size_of(comm) == here);
    free_it(&comm);
    comm = guided(MPI_COMM_TYPE_RESOURCE_GUIDED, "no such thing");
    CHECK(comm == MPI_COMM_NULL);
    comm = guided(MPI_COMM_TYPE_HW_GUIDED, NULL);
    CHECK(comm == MPI_COMM_NULL);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &comm);
    CHECK(comm == MPI_COMM_NULL);

    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cpus[n++] = cpu;
    if (n == 2) { /* who may run on two processors belongs to neither */
        comm = guided(MPI_COMM_TYPE_HW_GUIDED, "hwthread");
        CHECK(comm == MPI_COMM_NULL);
    }
    CPU_ZERO(&one);
    CPU_SET(cpus[at % n], &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    comm = guided(MPI_COMM_TYPE_HW_GUIDED, "hwloc://PU");
    int expected = 0, all_at[256], place;
    MPI_Allgather(&at, 1, MPI_INT, all_at, 1, MPI_INT, node);
    for (int i = 0; i < here; i++)
        expected += all_at[i] % n == at % n;
    CHECK(size_of(comm) == expected);
    MPI_Comm_rank(comm, &place); /* keys were turned round */
    int behind = 0;
    for (int i = at + 1; i < here; i++)
        behind += i % n == at % n;
    CHECK(place == behind);

    MPI_Get_hw_resource_info(&info);
    MPI_Info_get(info, "hwloc://PU", 15, value, &flag);
    CHECK(flag && strcmp(value, "true") == 0);
    MPI_Info_free(&info);

    /* What divides the processes is found without a name; one alone cannot be divided. */
    MPI_Info_create(&info);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &same);
    CHECK(same == MPI_COMM_NULL); /* all on one processor */
    MPI_Info_get(info, "mpi_hw_resource_type", 15, value, &flag);
    CHECK(!flag);
    free_it(&same);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &same);
    MPI_Info_get_nkeys(info, &flag);
    if (here < size || expected < here)
        CHECK(size_of(same) > 0 && size_of(same) < size && flag == 1);
    else
        CHECK(same == MPI_COMM_NULL);
    free_it(&same);
    MPI_Info_free(&info);

    /* Process sets divide them too. */
    const char *sets[] = {"mpi://WORLD", "mpi://SELF", "mpi://none"};
    int sizes[] = {size, 1, 0};
    for (int i = 0; i < 3; i++) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_pset_name", sets[i]);
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &same);
        CHECK(sizes[i] == 0 ? same == MPI_COMM_NULL : size_of(same) == sizes[i]);
        free_it(&same);
        MPI_Info_free(&info);
    }
    MPI_Comm_free(&comm);
    MPI_Comm_free(&node);
    return finish("hardware");
}
