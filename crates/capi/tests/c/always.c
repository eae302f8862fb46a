/* What MPI allows at any time: before MPI_Init, while it is initialised, after MPI_Finalize, from any thread. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

static int class, code;
static MPI_Info kept;
static MPI_Errhandler handler;

static void listen(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

static void infos(void)
{
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY + 1], value[32];
    int flag, count, len = sizeof value;
    CHECK(MPI_Info_create(&info) == MPI_SUCCESS);
    MPI_Info_set(info, "one", "1");
    MPI_Info_set(info, "two", "2");
    MPI_Info_dup(info, &copy);
    MPI_Info_delete(info, "one");
    MPI_Info_get_nkeys(info, &count);
    CHECK(count == 1);
    MPI_Info_get_nthkey(copy, 0, key);
    CHECK(strcmp(key, "one") == 0);
    MPI_Info_get_string(copy, "two", &len, value, &flag);
    CHECK(flag && len == 2 && strcmp(value, "2") == 0);
    MPI_Info_get_valuelen(copy, "three", &len, &flag);
    CHECK(!flag);
    MPI_Info_free(&info);
    MPI_Info_free(&copy);
    CHECK(info == MPI_INFO_NULL);
    MPI_Info_create_env(0, NULL, &info);
    MPI_Info_get_nkeys(info, &count);
    CHECK(count > 0);
    MPI_Info_free(&info);
}

static void versions(void)
{
    int major = 0, minor = -1, len = 0, is;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Info info;
    MPI_Get_version(&major, &minor);
    CHECK(major >= 4 && minor >= 0);
    MPI_Get_library_version(text, &len);
    CHECK(len == (int)strlen(text) && len > 0);
    CHECK(MPI_Abi_get_version(&major, &minor) == MPI_SUCCESS);
    MPI_Abi_get_info(&info);
    MPI_Info_get_nkeys(info, &is);
    CHECK(is > 0);
    MPI_Info_free(&info);
    CHECK(MPI_Initialized(&is) == MPI_SUCCESS && MPI_Finalized(&is) == MPI_SUCCESS);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Info_fromint(MPI_Info_toint(kept)) == kept);
    CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
}

static void errors(void)
{
    int another, again, len;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(code, text, &len);
    CHECK(strcmp(text, "lost its roots") == 0 && class_of(code) == class);
    MPI_Error_string(MPI_ERR_RANK, text, &len);
    CHECK(len > 0);
    MPI_Add_error_class(&another);
    MPI_Add_error_code(another, &again);
    MPI_Add_error_string(again, "x");
    MPI_Remove_error_string(again);
    CHECK(MPI_Remove_error_code(again) == MPI_SUCCESS && MPI_Remove_error_class(another) == MPI_SUCCESS);
    MPI_Errhandler mine;
    MPI_Session_create_errhandler((MPI_Session_errhandler_function *)listen, &mine);
    MPI_Errhandler_free(&mine);
    CHECK(mine == MPI_ERRHANDLER_NULL);
}

/* What a Fortran interface tells is kept for those who ask. */
static void fortran(void)
{
    int yes = 1, no = 0, got_yes = -1, got_no = -1, set = -1, flag;
    char value[8];
    MPI_Info info;
    MPI_Abi_get_fortran_info(&info);
    CHECK(info == MPI_INFO_NULL);
    MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &set);
    CHECK(set == 0);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_logical_size", "4");
    CHECK(MPI_Abi_set_fortran_info(info) == MPI_SUCCESS);
    MPI_Info_free(&info);
    CHECK(MPI_Abi_set_fortran_booleans(4, &yes, &no) == MPI_SUCCESS);
    MPI_Abi_get_fortran_info(&info);
    MPI_Info_get(info, "mpi_logical_size", 7, value, &flag);
    CHECK(flag && strcmp(value, "4") == 0);
    MPI_Info_free(&info);
    MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &set);
    CHECK(set && got_yes == 1 && got_no == 0);
#if defined(MPI_LB)
    /* MPICH's library of Fortran bindings says here where Fortran's constants are: not in the program's copy, in ours. */
    MPI_Fint *volatile *ours = dlsym(dlopen("libmpi.so.12", RTLD_NOLOAD | RTLD_LAZY), "MPI_F_STATUS_IGNORE");
    CHECK(ours != NULL);
    *ours = *ours;
#endif
}

static void *all(void *unused)
{
    char value[8];
    int flag;
    infos();
    versions();
    errors();
    MPI_Info_get(kept, "who", 7, value, &flag);
    CHECK(flag && strcmp(value, "banyan") == 0);
    return unused;
}

static void in_two_threads(void)
{
    pthread_t other;
    pthread_create(&other, NULL, all, NULL);
    all(NULL);
    pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
    int is, *last, flag;
    MPI_Info_create(&kept);
    MPI_Info_set(kept, "who", "banyan");
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "lost its roots");
    MPI_Comm_create_errhandler(listen, &handler);
    fortran();
    in_two_threads();
    MPI_Initialized(&is);
    CHECK(!is);

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &is);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    in_two_threads();
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last >= code);
    /* What was made before serves now. */
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_info(MPI_COMM_SELF, kept) == MPI_SUCCESS);
    int wrong = finish("always");

    MPI_Finalized(&is);
    CHECK(is);
    in_two_threads();
    MPI_Errhandler_free(&handler);
    MPI_Info_free(&kept);
    return wrong || failures;
}
