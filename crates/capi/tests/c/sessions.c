/* Sessions: before and beside the world and when it has ended, several at a time, their errors and their buffers. */
#include "check.h"

static int heard, heard_code;
static MPI_Session heard_session;

static void listen(MPI_Session *session, int *code, ...)
{
    heard++;
    heard_session = *session;
    heard_code = *code;
}

static MPI_Session open_session(const char *level)
{
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", level);
    CHECK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(session != MPI_SESSION_NULL);
    MPI_Info_free(&info);
    return session;
}

static MPI_Comm comm_of(MPI_Session session, const char *set, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm = MPI_COMM_NULL;
    CHECK(MPI_Group_from_session_pset(session, set, &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Group_free(&group);
    return comm;
}

/* Everybody adds its rank. */
static void use(MPI_Comm comm)
{
    int here, n, sum = -1;
    MPI_Comm_rank(comm, &here);
    MPI_Comm_size(comm, &n);
    MPI_Allreduce(&here, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == n * (n - 1) / 2);
}

static void sets(MPI_Session session)
{
    int n, len = 0, flag;
    char name[64], value[16];
    MPI_Info info;
    MPI_Group group;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n);
    CHECK(n == 2);
    for (int i = 0; i < n; i++) {
        len = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, NULL);
        CHECK(len == (int)strlen(i ? "mpi://SELF" : "mpi://WORLD") + 1);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name);
        CHECK(strcmp(name, i ? "mpi://SELF" : "mpi://WORLD") == 0);
        MPI_Session_get_pset_info(session, name, &info);
        MPI_Info_get(info, "mpi_size", sizeof value - 1, value, &flag);
        CHECK(flag && (i ? atoi(value) == 1 : atoi(value) >= 1));
        MPI_Info_free(&info);
    }
    CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &len, name)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_from_session_pset(session, "mpi://nowhere", &group)) == MPI_ERR_ARG);
    CHECK(group == MPI_GROUP_NULL);
    MPI_Session_get_info(session, &info);
    MPI_Info_get(info, "thread_level", sizeof name - 1, name, &flag);
    CHECK(flag && strncmp(name, "MPI_THREAD_", 11) == 0);
    MPI_Info_free(&info);
}

static void errors(MPI_Session session)
{
    MPI_Errhandler mine, same;
    MPI_Group group;
    MPI_Session other = session;
    heard = 0;
    MPI_Session_create_errhandler(listen, &mine);
    MPI_Session_set_errhandler(session, mine);
    MPI_Session_get_errhandler(session, &same);
    CHECK(same == mine);
    MPI_Errhandler_free(&same);
    MPI_Errhandler_free(&mine); /* the session still has it */
    int code = MPI_Group_from_session_pset(session, "no set", &group);
    CHECK(heard == 1 && heard_session == session && heard_code == code && class_of(code) == MPI_ERR_ARG);
    MPI_Session_call_errhandler(session, MPI_ERR_OTHER);
    CHECK(heard == 2 && heard_code == MPI_ERR_OTHER);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);

    /* A level that does not exist: no session, and the given handler decides. */
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_SOME");
    CHECK(class_of(MPI_Session_init(info, MPI_ERRORS_RETURN, &other)) == MPI_ERR_INFO_VALUE);
    CHECK(other == MPI_SESSION_NULL);
    MPI_Info_free(&info);
}

/* The buffer of the communicator, then the session's, then the process's. */
static void buffers(MPI_Session session)
{
    enum { ROOM = 1000 + MPI_BSEND_OVERHEAD };
    static char of_comm[ROOM], of_session[2 * ROOM], data[1000], in[1000], large[ROOM];
    MPI_Comm comm = comm_of(session, "mpi://SELF", "buffers"), copy;
    MPI_Request request[4];
    void *address;
    int bytes;
    MPI_Count count;
    CHECK(class_of(MPI_Bsend(data, 1000, MPI_CHAR, 0, 0, comm)) == MPI_ERR_BUFFER);
    CHECK(MPI_Session_attach_buffer(session, of_session, sizeof of_session) == MPI_SUCCESS);
    CHECK(class_of(MPI_Session_attach_buffer(session, of_session, 1)) == MPI_ERR_BUFFER);
    CHECK(MPI_Comm_attach_buffer(comm, of_comm, sizeof of_comm) == MPI_SUCCESS);
    MPI_Comm_dup(comm, &copy);

    memset(data, 7, sizeof data);
    /* The copy has no buffer of its own: what it sends goes through the session's, which has more room. */
    CHECK(MPI_Bsend(data, 1000, MPI_CHAR, 0, 1, comm) == MPI_SUCCESS);
    CHECK(MPI_Bsend(data, 1000, MPI_CHAR, 0, 2, copy) == MPI_SUCCESS);
    MPI_Recv(in, 1000, MPI_CHAR, 0, 2, copy, MPI_STATUS_IGNORE);
    MPI_Recv(in, 1000, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE);
    CHECK(in[0] == 7 && in[999] == 7);
    CHECK(class_of(MPI_Bsend(large, ROOM, MPI_CHAR, 0, 1, comm)) == MPI_ERR_BUFFER);
    CHECK(MPI_Bsend(large, ROOM, MPI_CHAR, 0, 3, copy) == MPI_SUCCESS);
    MPI_Recv(large, ROOM, MPI_CHAR, 0, 3, copy, MPI_STATUS_IGNORE);

    CHECK(MPI_Comm_flush_buffer(comm) == MPI_SUCCESS && MPI_Session_flush_buffer(session) == MPI_SUCCESS);
    CHECK(MPI_Comm_iflush_buffer(comm, &request[0]) == MPI_SUCCESS);
    CHECK(MPI_Session_iflush_buffer(session, &request[1]) == MPI_SUCCESS);
    CHECK(MPI_Buffer_iflush(&request[2]) == MPI_SUCCESS);
    MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    CHECK(request[0] == MPI_REQUEST_NULL);

    MPI_Comm_detach_buffer(comm, &address, &bytes);
    CHECK(address == of_comm && bytes == sizeof of_comm);
    CHECK(class_of(MPI_Comm_detach_buffer(comm, &address, &bytes)) == MPI_ERR_BUFFER);
    MPI_Session_detach_buffer_c(session, &address, &count);
    CHECK(address == of_session && count == sizeof of_session);
    MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0);
    CHECK(MPI_Bsend(data, 1000, MPI_CHAR, 0, 4, comm) == MPI_SUCCESS);
    MPI_Recv(in, 1000, MPI_CHAR, 0, 4, comm, MPI_STATUS_IGNORE);
    MPI_Comm_detach_buffer(comm, &address, &bytes);
    CHECK(address == MPI_BUFFER_AUTOMATIC && bytes == 0);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
}

/* A flush is over when what was sent before it is, whatever comes after. */
static void flushes(MPI_Comm comm)
{
    enum { LARGE = 1 << 20 };
    static char out[LARGE], in[LARGE];
    int here, n, done = 1;
    MPI_Request request;
    void *address;
    MPI_Comm_rank(comm, &here);
    MPI_Comm_size(comm, &n);
    int left = (here + n - 1) % n, right = (here + 1) % n;
    MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0);
    memset(out, here + 1, sizeof out);
    MPI_Bsend(out, LARGE, MPI_CHAR, right, 0, comm);
    MPI_Comm_iflush_buffer(comm, &request);
    MPI_Bsend(out, LARGE, MPI_CHAR, right, 1, comm);
    if (n > 1) { /* nobody receives before everybody is here */
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        CHECK(!done);
    }
    MPI_Barrier(comm);
    MPI_Recv(in, LARGE, MPI_CHAR, left, 0, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    MPI_Recv(in, LARGE, MPI_CHAR, left, 1, comm, MPI_STATUS_IGNORE);
    CHECK(in[0] == (char)(left + 1) && in[LARGE - 1] == (char)(left + 1));
    int bytes;
    MPI_Comm_detach_buffer(comm, &address, &bytes);
}

static void alone_with_sessions(void)
{
    MPI_Session first = open_session("MPI_THREAD_MULTIPLE"), second = open_session("MPI_THREAD_SINGLE");
    MPI_Comm a = comm_of(first, "mpi://WORLD", "a"), b = comm_of(second, "mpi://world", "b");
    MPI_Comm self = comm_of(second, "mpi://SELF", "self"), none = MPI_COMM_WORLD;
    int is, n;
    MPI_Initialized(&is);
    CHECK(!is);
    use(a);
    use(b);
    use(self);
    MPI_Comm_size(self, &n);
    CHECK(n == 1);
    CHECK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &none) == MPI_SUCCESS);
    CHECK(none == MPI_COMM_NULL);
    sets(first);
    errors(second);
    buffers(first);
    flushes(a);
    MPI_Comm_free(&self);
    MPI_Comm_free(&b);
    MPI_Session_finalize(&second);
    CHECK(second == MPI_SESSION_NULL);
    use(a);
    MPI_Comm_free(&a);
    MPI_Session_finalize(&first);
}

int main(int argc, char **argv)
{
    /* The library starts and is left three times before the world begins. */
    for (int i = 0; i < 3; i++)
        alone_with_sessions();
    MPI_Session across = open_session("MPI_THREAD_MULTIPLE");
    begin(&argc, &argv);
    MPI_Comm comm = comm_of(across, "mpi://WORLD", "across");
    use(comm);
    use(MPI_COMM_WORLD);
    int wrong = finish("sessions");
    int is;
    MPI_Finalized(&is);
    CHECK(is);
    use(comm); /* the session outlives the world */
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&across);
    return wrong || failures;
}
