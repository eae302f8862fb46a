/* Errors: what is wrong is found, goes to the right handler, and can be asked about. With an argument the
 * program makes that mistake under the default handler, and so must end with an error:
 *   rank, abort, unimplemented, early, late */
#include "check.h"

static int heard, heard_code;
static MPI_Comm heard_comm;

static void listen(MPI_Comm *comm, int *code, ...)
{
    heard++;
    heard_comm = *comm;
    heard_code = *code;
}

static void returned(void)
{
    int x = 0, flag;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm gone;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Send(&x, 1, MPI_INT, size, 0, MPI_COMM_WORLD)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Send(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Send(&x, -1, MPI_INT, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Send(&x, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Send(&x, 1, MPI_INT, 0, -5, MPI_COMM_WORLD)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Bcast(&x, 1, MPI_INT, size, MPI_COMM_WORLD)) == MPI_ERR_ROOT);
    CHECK(class_of(MPI_Allreduce(&x, &flag, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD)) == MPI_ERR_OP);
    CHECK(class_of(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Reduce(&x, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Gather(&x, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Start(&request)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Comm_size(MPI_COMM_WORLD, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &x)) == MPI_ERR_GROUP);
    CHECK(class_of(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Info_set(MPI_INFO_NULL, "a", "b")) == MPI_ERR_INFO);
    MPI_Comm_dup(MPI_COMM_SELF, &gone);
    MPI_Comm stale = gone;
    MPI_Comm_free(&gone);
    CHECK(class_of(MPI_Barrier(stale)) == MPI_ERR_COMM);
}

static void handlers(void)
{
    int x = 0, code, class, added, len;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Errhandler mine, same;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(listen, &mine);
    MPI_Comm_set_errhandler(comm, mine);
    MPI_Comm_get_errhandler(comm, &same);
    CHECK(same == mine);
    MPI_Errhandler_free(&same);
    MPI_Errhandler_free(&mine); /* still in use by comm */
    code = MPI_Send(&x, 1, MPI_INT, size, 0, comm);
    CHECK(heard == 1 && heard_comm == comm && heard_code == code && class_of(code) == MPI_ERR_RANK);
    code = MPI_Send(&x, 1, MPI_INT, size, 0, MPI_COMM_WORLD); /* still returns */
    CHECK(heard == 1 && class_of(code) == MPI_ERR_RANK);
    MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    CHECK(heard == 2 && heard_code == MPI_ERR_OTHER);
    MPI_Comm_free(&comm);

    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &added);
    MPI_Add_error_string(added, "too many roots");
    MPI_Error_string(added, text, &len);
    CHECK(strcmp(text, "too many roots") == 0 && len == 14 && class_of(added) == class);
    CHECK(class > MPI_ERR_LASTCODE && added > class);
    MPI_Error_string(MPI_ERR_TRUNCATE, text, &len);
    CHECK(strstr(text, "MPI_ERR_TRUNCATE") != NULL && len == (int)strlen(text));

    /* What the last error was about is said with its code. */
    code = MPI_Send(&x, 1, MPI_INT, size + 7, 0, MPI_COMM_WORLD);
    char number[16];
    snprintf(number, sizeof number, "%d", size + 7);
    MPI_Error_string(code, text, &len);
    CHECK(strstr(text, "MPI_Send") != NULL && strstr(text, number) != NULL && len == (int)strlen(text));
}

/* Classes and codes of the program go in any order, a class behind its codes. */
static void removed(void)
{
    int class[2], code[2], *last, flag, before, still;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag);
    before = *last;
    MPI_Add_error_class(&class[0]);
    MPI_Add_error_class(&class[1]);
    MPI_Add_error_code(class[0], &code[0]);
    MPI_Add_error_code(class[0], &code[1]);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(*last == code[1]);
    CHECK(MPI_Remove_error_code(code[0]) == MPI_SUCCESS);
    CHECK(class_of(MPI_Remove_error_class(class[0])) == MPI_ERR_OTHER);
    CHECK(MPI_Error_class(code[1], &still) == MPI_SUCCESS && still == class[0]);
    CHECK(MPI_Remove_error_class(class[1]) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_code(code[1]) == MPI_SUCCESS && MPI_Remove_error_class(class[0]) == MPI_SUCCESS);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(*last == before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Errors of no object are for the handler of MPI_COMM_SELF; of MPI_COMM_WORLD, if the program has set none there. */
static void unattached(void)
{
    MPI_Errhandler mine;
    MPI_Comm_create_errhandler(listen, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Info_set(MPI_INFO_NULL, "a", "b")) == MPI_ERR_INFO);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    heard = 0;
    CHECK(class_of(MPI_Info_set(MPI_INFO_NULL, "a", "b")) == MPI_ERR_INFO);
    CHECK(heard == 1 && heard_comm == MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&mine);
}

/* What needs no datatype, and what leaves no handle behind. */
static void nothing(void)
{
    MPI_Request request;
    MPI_Status status;
    MPI_File file;
    MPI_Comm comm = MPI_COMM_WORLD;
    int dims[1] = {size + 1}, periods[1] = {0};
    MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Send(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Send(NULL, 0, MPI_DATATYPE_NULL, rank, 0, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, rank, 0, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm) != MPI_SUCCESS && comm == MPI_COMM_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    /* Errors of files come back by default. */
    CHECK(MPI_File_open(MPI_COMM_SELF, "/nowhere/at all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS);
}

/* What has no place for its request does not begin: no receive takes the next message, no message arrives. */
static void without_request(void)
{
    int sent = 7, got = 0, flag = 1;
    MPI_Comm own;
    MPI_Comm_dup(MPI_COMM_SELF, &own);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    CHECK(MPI_Irecv(&got, 1, MPI_INT, 0, 3, own, NULL) != MPI_SUCCESS);
    CHECK(MPI_Isend(&sent, 1, MPI_INT, 0, 3, own, NULL) != MPI_SUCCESS);
    CHECK(MPI_Issend(&sent, 1, MPI_INT, 0, 3, own, NULL) != MPI_SUCCESS);
    CHECK(MPI_Isendrecv(&sent, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, own, NULL) != MPI_SUCCESS);
    CHECK(MPI_Iprobe(0, 3, own, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag && got == 0);
    CHECK(MPI_Send(&sent, 1, MPI_INT, 0, 3, own) == MPI_SUCCESS);
    CHECK(MPI_Iprobe(0, 3, own, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag && got == 0);
    CHECK(MPI_Recv(&got, 1, MPI_INT, 0, 3, own, MPI_STATUS_IGNORE) == MPI_SUCCESS && got == 7);
    MPI_Comm_free(&own);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Ibarrier(MPI_COMM_WORLD, NULL) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* What is read may not be written, unless it is said to be. */
static void aliased(void)
{
    int *all = calloc(2 * size, sizeof(int)), i, part = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Allreduce(all, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Scan(all, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Reduce_local(all, all, 2, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Alltoall(all, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Allgather(all + rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    if (rank == 0) {
        CHECK(class_of(MPI_Gather(all, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Scatter(all, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
        CHECK(class_of(MPI_Reduce(all, all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    }
    /* What has nothing in common is not: other blocks of one array, and no elements at all. */
    all[2 * size - 1] = rank;
    CHECK(MPI_Allgather(all + 2 * size - 1, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (i = 0; i < (size > 1 ? size : 0); i++) CHECK(all[i] == i);
    CHECK(MPI_Allreduce(&part, &part, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    free(all);
}

/* The processes are in step: a collective gives what it should. */
static void in_step(MPI_Comm comm)
{
    int sum = -1;
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == size * (size - 1) / 2);
}

/* Messages of a collective that are shorter or longer than others expect. */
static void lengths(MPI_Comm comm)
{
    int a[10] = {0}, b[10], code, len;
    char text[MPI_MAX_ERROR_STRING];
    code = MPI_Bcast(a, rank ? 10 : 1, MPI_INT, 0, comm);
    CHECK(rank ? class_of(code) == MPI_ERR_TRUNCATE : code == MPI_SUCCESS);
    MPI_Error_string(code, text, &len);
    /* Who heard it from another process than the root got nothing from that one. */
    CHECK(rank == 0 || (strstr(text, "40 bytes") != NULL || strstr(text, "where 40") != NULL));
    CHECK(rank != 1 || (strstr(text, "rank 0") != NULL && strstr(text, "4 bytes where 40") != NULL));
    in_step(comm);
    code = MPI_Bcast(a, rank ? 1 : 10, MPI_INT, 0, comm);
    CHECK(rank ? class_of(code) == MPI_ERR_TRUNCATE : code == MPI_SUCCESS);
    in_step(comm);
    code = MPI_Allreduce(a, b, rank ? 10 : 1, MPI_INT, MPI_SUM, comm);
    CHECK(size > 1 ? class_of(code) == MPI_ERR_TRUNCATE : code == MPI_SUCCESS);
    in_step(comm);
    code = MPI_Reduce(a, b, rank ? 1 : 10, MPI_INT, MPI_SUM, 0, comm);
    CHECK(rank > 0 || (size > 1 ? class_of(code) == MPI_ERR_TRUNCATE : code == MPI_SUCCESS));
    in_step(comm);
}

/* A process whose own block does not fit takes part all the same: nobody waits, and all who depend on it fail. */
static void misfits(MPI_Comm comm)
{
    int *many = calloc(20 * size, sizeof(int)), *all = calloc(20 * size, sizeof(int)), code, flag = 0, i;
    int *counts = calloc(size, sizeof(int)), *displs = calloc(size, sizeof(int)), *fewer = calloc(size, sizeof(int));
    MPI_Request request[2];
    MPI_Status status[2];
    code = MPI_Gather(many, 10, MPI_INT, all, 1, MPI_INT, 0, comm);
    CHECK(rank > 0 || class_of(code) == MPI_ERR_TRUNCATE);
    in_step(comm);
    code = MPI_Scatter(many, 1, MPI_INT, all, 10, MPI_INT, 0, comm);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE);
    in_step(comm);
    code = MPI_Allgather(many, rank ? 10 : 1, MPI_INT, all, 10, MPI_INT, comm);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE);
    in_step(comm);
    code = MPI_Alltoall(many, rank ? 10 : 20, MPI_INT, all, 10, MPI_INT, comm);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE);
    in_step(comm);
    for (i = 0; i < size; i++) {
        counts[i] = fewer[i] = 10;
        displs[i] = 10 * i;
    }
    fewer[rank] = 3;
    CHECK(class_of(MPI_Alltoallv(many, counts, displs, MPI_INT, all, fewer, displs, MPI_INT, comm))
          == MPI_ERR_TRUNCATE);
    CHECK(class_of(MPI_Alltoallv(many, fewer, displs, MPI_INT, all, counts, displs, MPI_INT, comm))
          == MPI_ERR_TRUNCATE);
    in_step(comm);
    /* As requests, beside one that is well; whoever asks again hears the same. */
    MPI_Iscatter(many, 1, MPI_INT, all, 10, MPI_INT, 0, comm, &request[0]);
    MPI_Ibarrier(comm, &request[1]);
    while (!flag) {
        code = MPI_Testall(2, request, &flag, status);
    }
    CHECK(class_of(code) == MPI_ERR_IN_STATUS && class_of(status[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
    CHECK(status[1].MPI_ERROR == MPI_SUCCESS && request[0] == MPI_REQUEST_NULL);
    MPI_Scatter_init(many, 1, MPI_INT, all, 10, MPI_INT, 0, comm, MPI_INFO_NULL, &request[0]);
    for (i = 0; i < 2; i++) {
        MPI_Start(&request[0]);
        CHECK(class_of(MPI_Wait(&request[0], MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
    }
    MPI_Request_free(&request[0]);
    in_step(comm);
    free(many), free(all), free(counts), free(displs), free(fewer);
}

/* A result that has no place is found before anything else, and heard where no handler was set by whom it is for. */
static void null_results(void)
{
    int ranges[1][3] = {{1, -7, 1}};
    MPI_Group group;
    MPI_Comm comm;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Group_range_incl(group, 1, ranges, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_range_excl(group, 1, ranges, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_split(comm, 0, rank, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_create(comm, group, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_create_group(comm, group, 0, NULL)) == MPI_ERR_ARG);
    /* A handler of its own hears it. */
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    CHECK(class_of(MPI_Comm_split(comm, 0, rank, NULL)) == MPI_ERR_ARG);
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    int x = 0;
    MPI_Comm comm;
    const char *mistake = argc > 1 ? argv[1] : "";
    if (strcmp(mistake, "early") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    begin(&argc, &argv);
    if (strcmp(mistake, "rank") == 0 && rank == 0)
        MPI_Send(&x, 1, MPI_INT, size + 3, 0, MPI_COMM_WORLD);
    if (strcmp(mistake, "abort") == 0 && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (strcmp(mistake, "unimplemented") == 0 && rank == 0)
        MPI_Register_datarep("upside down", NULL, NULL, NULL, NULL);
    if (strcmp(mistake, "late") == 0) {
        MPI_Finalize();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (*mistake) /* the others wait for what will not come */
        MPI_Barrier(MPI_COMM_WORLD);
    returned();
    handlers();
    removed();
    unattached();
    nothing();
    without_request();
    aliased();
    null_results();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    lengths(comm);
    misfits(comm);
    MPI_Comm_free(&comm);
    return finish("errors");
}
