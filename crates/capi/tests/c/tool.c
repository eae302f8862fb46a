/* The tools interface: before, during and after the world. Settings are written before the library starts. */
#include "check.h"

static int cvar(const char *name)
{
    int index = -1;
    CHECK(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS);
    return index;
}

/* The value of a counter. */
static unsigned long long counter(MPI_T_pvar_session session, const char *name, int var_class)
{
    unsigned long long value = 77;
    int index, count;
    MPI_T_pvar_handle handle;
    CHECK(MPI_T_pvar_get_index(name, var_class, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_start(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_reset(session, handle) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_write(session, handle, &value) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_free(session, &handle) == MPI_SUCCESS && handle == MPI_T_PVAR_HANDLE_NULL);
    return value;
}

static void texts(void)
{
    char name[64], cut[4] = "...";
    int len = 0, number = -1, full, bind, scope, verbosity;
    MPI_Datatype type;
    MPI_T_enum words;
    MPI_T_cvar_get_num(&number);
    CHECK(number > 0);
    CHECK(MPI_T_cvar_get_info(number, name, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_get_info(-1, name, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    for (int i = 0; i < number; i++) {
        len = full = 0;
        MPI_T_cvar_get_info(i, NULL, &full, &verbosity, &type, &words, NULL, &len, &bind, &scope);
        CHECK(len > 1 && full > 1 && bind == MPI_T_BIND_NO_OBJECT);
        len = sizeof name;
        MPI_T_cvar_get_info(i, name, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        CHECK(len == full && len == (int)strlen(name) + 1 && strncmp(name, "BANYAN_", 7) == 0);
        len = sizeof cut;
        MPI_T_cvar_get_info(i, cut, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        CHECK(len == full && strcmp(cut, "BAN") == 0);
        CHECK((type == MPI_INT) == (words != MPI_T_ENUM_NULL));
    }
    CHECK(MPI_T_cvar_get_index("BANYAN_NO_SUCH_NAME", &len) == MPI_T_ERR_INVALID_NAME);
    MPI_T_cvar_get_info(cvar("BANYAN_COLL"), NULL, NULL, NULL, NULL, &words, NULL, NULL, NULL, NULL);
    CHECK(MPI_T_enum_get_info(words, &number, NULL, NULL) == MPI_SUCCESS && number == 3);
    len = sizeof name;
    CHECK(MPI_T_enum_get_item(words, 1, &number, name, &len) == MPI_SUCCESS);
    CHECK(number == 1 && strcmp(name, "flat") == 0);
    CHECK(MPI_T_enum_get_item(words, 3, &number, name, &len) == MPI_T_ERR_INVALID_ITEM);
    CHECK(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &number, NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
}

static void categories(void)
{
    int number, cvars, pvars, all_cvars, all_pvars, inside, seen = 0, list[256];
    MPI_T_category_get_num(&number);
    MPI_T_cvar_get_num(&all_cvars);
    MPI_T_pvar_get_num(&all_pvars);
    for (int i = 0; i < number; i++) {
        char name[64];
        int len = sizeof name, same = -1, events = -1;
        MPI_T_category_get_info(i, name, &len, NULL, NULL, &cvars, &pvars, &inside);
        MPI_T_category_get_index(name, &same);
        CHECK(same == i && inside == 0);
        MPI_T_category_get_pvars(i, 256, list);
        for (int j = 0; j < pvars; j++)
            CHECK(list[j] >= 0 && list[j] < all_pvars);
        CHECK(MPI_T_category_get_cvars(i, 256, list) == MPI_SUCCESS);
        CHECK(MPI_T_category_get_num_events(i, &events) == MPI_SUCCESS && events == 0);
        all_cvars -= cvars;
        seen += pvars;
    }
    CHECK(all_cvars == 0 && seen == all_pvars);
    CHECK(MPI_T_category_get_index("nothing", &number) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_category_changed(&number) == MPI_SUCCESS);
    CHECK(MPI_T_event_get_num(&number) == MPI_SUCCESS && number == 0);
    CHECK(MPI_T_source_get_num(&number) == MPI_SUCCESS && number == 0);
    CHECK(MPI_T_event_get_index("nothing", &number) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_source_get_timestamp(0, NULL) == MPI_T_ERR_INVALID_INDEX);
}

/* Settings can be changed until the library starts. */
static void settings(int early)
{
    MPI_T_cvar_handle coll, warn;
    int count, word = -1, old;
    char text[512];
    CHECK(MPI_T_cvar_handle_alloc(cvar("BANYAN_COLL"), NULL, &coll, &count) == MPI_SUCCESS && count == 1);
    CHECK(MPI_T_cvar_handle_alloc(cvar("BANYAN_WAIT_WARN"), NULL, &warn, &count) == MPI_SUCCESS);
    CHECK(count > 1 && count <= (int)sizeof text);
    CHECK(MPI_T_cvar_read(coll, &old) == MPI_SUCCESS);
    word = 1;
    if (early) {
        CHECK(MPI_T_cvar_write(coll, &word) == MPI_SUCCESS);
        word = 9;
        CHECK(MPI_T_cvar_write(coll, &word) == MPI_T_ERR_INVALID);
        CHECK(MPI_T_cvar_write(warn, "soon") == MPI_T_ERR_INVALID);
        CHECK(MPI_T_cvar_write(warn, "44") == MPI_SUCCESS);
    } else {
        CHECK(MPI_T_cvar_write(coll, &word) == MPI_T_ERR_CVAR_SET_NOT_NOW);
    }
    CHECK(MPI_T_cvar_read(coll, &word) == MPI_SUCCESS && word == 1);
    CHECK(MPI_T_cvar_read(warn, text) == MPI_SUCCESS && strcmp(text, "44") == 0);
    CHECK(MPI_T_cvar_handle_free(&coll) == MPI_SUCCESS && coll == MPI_T_CVAR_HANDLE_NULL);
    CHECK(MPI_T_cvar_read(coll, &word) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_cvar_handle_free(&coll) == MPI_T_ERR_INVALID_HANDLE);
    MPI_T_cvar_handle_free(&warn);
}

int main(int argc, char **argv)
{
    int provided, number;
    MPI_T_pvar_session session, none = MPI_T_PVAR_SESSION_NULL;
    CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    texts();
    categories();
    settings(1);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(counter(session, "bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE) == 0);

    begin(&argc, &argv);
    settings(0);
    char data[1000] = {0};
    unsigned long long before = counter(session, "bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE);
    MPI_Sendrecv_replace(data, 1000, MPI_CHAR, (rank + 1) % size, 0, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    if (size > 1)
        CHECK(counter(session, "bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE) >= before + 1000);
    CHECK(counter(session, "init_total_ns", MPI_T_PVAR_CLASS_TIMER) > 0);
    CHECK(MPI_T_pvar_get_index("bytes_sent", MPI_T_PVAR_CLASS_TIMER, &number) == MPI_T_ERR_INVALID_NAME);
    int wrong = finish("tool");

    CHECK(counter(session, "init_total_ns", MPI_T_PVAR_CLASS_TIMER) > 0);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == none);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_T_ERR_INVALID_SESSION);
    CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
    texts();
    CHECK(MPI_T_finalize() == MPI_SUCCESS && MPI_T_cvar_get_num(&number) == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_SUCCESS && MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    return wrong || failures;
}
