/* Programs that are wrong, by name. Each is named by the library where it is checked (BANYAN_CHECK), and most hang or go on
 * with wrong data where it is not. Run on two processes or more. */
#include "check.h"

static int numbers[4] = {1, 2, 3, 4}, others[64];

static void order(void)
{
    if (rank == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Bcast(numbers, 4, MPI_INT, 0, MPI_COMM_WORLD);
    } else {
        MPI_Bcast(numbers, 4, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void root(void)
{
    MPI_Bcast(numbers, 4, MPI_INT, rank == 1, MPI_COMM_WORLD);
}

static void operation(void)
{
    MPI_Allreduce(numbers, others, 4, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
}

static void count(void)
{
    MPI_Bcast(numbers, rank == 1 ? 3 : 4, MPI_INT, 0, MPI_COMM_WORLD);
}

static void signature(void)
{
    MPI_Allreduce(numbers, others, 4, rank == 1 ? MPI_FLOAT : MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void nonblocking(void)
{
    MPI_Request request;
    if (rank == 1) {
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void counts(void)
{
    int all[64], displs[64];
    for (int i = 0; i < size; i++) {
        all[i] = 1;
        displs[i] = i;
    }
    MPI_Gatherv(numbers, rank == 1 ? 2 : 1, MPI_INT, others, all, displs, MPI_INT, 0, MPI_COMM_WORLD);
}

static void extra(void)
{
    if (rank == 1)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void freed(void)
{
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_name(dup, "another world");
    if (rank == 1)
        MPI_Barrier(dup);
    MPI_Comm_free(&dup);
}

static void splits(void)
{
    MPI_Comm new;
    if (rank == 1)
        MPI_Comm_dup(MPI_COMM_WORLD, &new);
    else
        MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &new);
    MPI_Comm_free(&new);
}

static void datatype(void)
{
    float reals[4] = {0};
    if (rank == 0)
        MPI_Send(numbers, 4, MPI_INT, 1, 5, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(reals, 4, MPI_FLOAT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Three bytes are no number of anything that has four. */
static void part(void)
{
    if (rank == 0)
        MPI_Send(numbers, 3, MPI_CHAR, 1, 5, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(others, 4, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void request(void)
{
    static MPI_Request never, persistent;
    if (rank == 0) {
        MPI_Isend(numbers, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &never);
    } else if (rank == 1) {
        MPI_Irecv(others, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &never);
        MPI_Recv_init(others + 1, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, &persistent);
        MPI_Start(&persistent);
    }
}

static int delete_nothing(MPI_Comm comm, int keyval, void *value, void *extra_state)
{
    (void)comm, (void)keyval, (void)value, (void)extra_state;
    return MPI_SUCCESS;
}

static void first(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)len, (void)type;
}

static void ignore(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
}

static void objects(void)
{
    MPI_Comm dup, split;
    MPI_Group group;
    MPI_Datatype pair;
    MPI_Op op;
    MPI_Info info;
    MPI_Errhandler handler;
    MPI_Win window;
    int keyval, *memory;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &split);
    MPI_Comm_free(&dup);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Op_create(first, 1, &op);
    MPI_Info_create(&info);
    MPI_Comm_create_errhandler(ignore, &handler);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_nothing, &keyval, NULL);
    MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
}

static void many(void)
{
    MPI_Datatype types[30];
    for (int i = 0; i < 30; i++)
        MPI_Type_contiguous(i + 1, MPI_INT, &types[i]);
}

static void message(void)
{
    if (rank == 0)
        for (int i = 0; i < 3; i++)
            MPI_Send(numbers, 2, MPI_INT, 1, 17, MPI_COMM_WORLD);
}

static void probed(void)
{
    MPI_Message taken;
    MPI_Status status;
    if (rank == 0)
        MPI_Send(numbers, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Mprobe(0, 4, MPI_COMM_WORLD, &taken, &status);
}

static void session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "wrong", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Session_finalize(&session);
}

/* The program is told, and goes on: this one is right after all. */
static void returned(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int code, len;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Bcast(numbers, 4, MPI_INT, rank == 1, MPI_COMM_WORLD);
    MPI_Error_string(code, text, &len);
    if (class_of(code) != MPI_ERR_OTHER || strstr(text, "different roots") == NULL)
        MPI_Abort(MPI_COMM_WORLD, 9);
    if (MPI_Bcast(numbers, 4, MPI_INT, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 8);
}

/* Nothing is made where there is no place for its handle. */
static void nulls(void)
{
    int flag, one[1] = {1}, range[1][3] = {{0, 0, 1}};
    MPI_Aint zero[1] = {0};
    MPI_Datatype types[1] = {MPI_INT};
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int codes[] = {
        MPI_Comm_group(MPI_COMM_WORLD, NULL),
        MPI_Group_incl(all, 1, one, NULL),
        MPI_Group_range_incl(all, 1, range, NULL),
        MPI_Comm_get_info(MPI_COMM_WORLD, NULL),
        MPI_Info_create(NULL),
        MPI_Info_dup(MPI_INFO_ENV, NULL),
        MPI_Op_create(first, 1, NULL),
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, NULL, NULL),
        MPI_Comm_create_errhandler(ignore, NULL),
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, NULL),
        MPI_Type_contiguous(3, MPI_INT, NULL),
        MPI_Type_vector(3, 2, 3, MPI_INT, NULL),
        MPI_Type_create_hvector(3, 2, 30, MPI_INT, NULL),
        MPI_Type_indexed(1, one, one, MPI_INT, NULL),
        MPI_Type_create_hindexed(1, one, zero, MPI_INT, NULL),
        MPI_Type_create_struct(1, one, zero, types, NULL),
        MPI_Type_create_resized(MPI_INT, 0, 8, NULL),
        MPI_Type_dup(MPI_INT, NULL),
        MPI_Comm_dup(MPI_COMM_SELF, NULL),
        MPI_Improbe(MPI_ANY_SOURCE, 3, MPI_COMM_SELF, &flag, NULL, MPI_STATUS_IGNORE),
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        if (class_of(codes[i]) != MPI_ERR_ARG)
            printf("call %zu: class %d\n", i, class_of(codes[i])), MPI_Abort(MPI_COMM_WORLD, 9);
    MPI_Group_free(&all);
}

static void waits(void)
{
    if (rank == 1)
        MPI_Recv(numbers, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Barrier(MPI_COMM_WORLD);
}

/* The first process and the others, as two groups. */
static MPI_Comm between(void)
{
    MPI_Comm own, both;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, rank == 0, 3, &both);
    MPI_Comm_free(&own);
    return both;
}

static void groups(void)
{
    MPI_Comm both = between();
    MPI_Barrier(both);
    if (rank == 0)
        MPI_Barrier(both);
    else
        MPI_Allreduce(numbers, others, 4, MPI_INT, MPI_SUM, both);
    MPI_Comm_free(&both);
}

static void groups_root(void)
{
    MPI_Comm both = between();
    MPI_Bcast(numbers, 4, MPI_INT, 0, both); /* each group thinks that the other one has the root */
    MPI_Comm_free(&both);
}

static void groups_count(void)
{
    MPI_Comm both = between();
    MPI_Allgather(numbers, rank == 0 ? 1 : 2, MPI_INT, others, rank == 0 ? 2 : 3, MPI_INT, both);
    MPI_Comm_free(&both);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"order", order},         {"root", root},       {"operation", operation}, {"count", count},
        {"signature", signature}, {"counts", counts},   {"nonblocking", nonblocking},
        {"extra", extra},         {"freed", freed},     {"splits", splits},       {"datatype", datatype},
        {"request", request},     {"objects", objects}, {"many", many},           {"message", message},
        {"waits", waits},         {"probed", probed},   {"session", session},     {"returned", returned},
        {"part", part},           {"nulls", nulls},     {"groups", groups},       {"groups_root", groups_root},
        {"groups_count", groups_count},
    };
    begin(&argc, &argv);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (argc > 1 && strcmp(argv[1], all[i].name) == 0)
            all[i].run();
    MPI_Finalize();
    return 0;
}
