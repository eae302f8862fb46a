/* Communicators, groups, attributes, info objects, names and topologies. */
#include "check.h"

static void dup_and_split(void)
{
    MPI_Comm copy, part, none, shared;
    int result, got, r, s, x;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_compare(copy, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_compare(copy, copy, &result);
    CHECK(result == MPI_IDENT);

    /* the same tag in two communicators: no mixing */
    if (size > 1 && rank < 2) {
        int other = 1 - rank, a = 1, b = 2;
        MPI_Request request[2];
        MPI_Isend(&a, 1, MPI_INT, other, 3, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(&b, 1, MPI_INT, other, 3, copy, &request[1]);
        MPI_Recv(&x, 1, MPI_INT, other, 3, copy, MPI_STATUS_IGNORE);
        CHECK(x == 2);
        MPI_Recv(&x, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(x == 1);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    }
    MPI_Comm_free(&copy);
    CHECK(copy == MPI_COMM_NULL);

    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 10 - rank, &part);
    MPI_Comm_rank(part, &r);
    MPI_Comm_size(part, &s);
    CHECK(s == (rank / 2 * 2 + 1 < size ? 2 : 1) && r == (s == 2 ? 1 - rank % 2 : 0));
    MPI_Allreduce(&rank, &got, 1, MPI_INT, MPI_SUM, part);
    CHECK(got == (s == 2 ? rank / 2 * 4 + 1 : rank));
    MPI_Comm_free(&part);

    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, 0, &none);
    CHECK((none == MPI_COMM_NULL) == (rank == 0));
    if (none != MPI_COMM_NULL)
        MPI_Comm_free(&none);

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    MPI_Comm_size(shared, &s);
    CHECK(s >= 1 && s <= size);
    MPI_Comm_free(&shared);
}

static void groups(void)
{
    MPI_Group world, even, odd, none, both;
    MPI_Comm comm;
    int i, s, r, result, *list = malloc(sizeof(int) * (size_t)size), count = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (i = 0; i < size; i += 2)
        list[count++] = i;
    MPI_Group_incl(world, count, list, &even);
    MPI_Group_excl(world, count, list, &odd);
    MPI_Group_size(even, &s);
    CHECK(s == count);
    MPI_Group_rank(even, &r);
    CHECK(r == (rank % 2 ? MPI_UNDEFINED : rank / 2));
    MPI_Group_intersection(even, odd, &none);
    MPI_Group_size(none, &s);
    CHECK(s == 0);
    MPI_Group_compare(none, MPI_GROUP_EMPTY, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_union(even, odd, &both);
    MPI_Group_compare(both, world, &result);
    CHECK(result == (size > 2 ? MPI_SIMILAR : MPI_IDENT));
    int some[2] = {0, MPI_PROC_NULL}, there[2];
    MPI_Group_translate_ranks(even, 2, some, odd, there);
    CHECK(there[0] == MPI_UNDEFINED && there[1] == MPI_PROC_NULL);
    MPI_Comm_create(MPI_COMM_WORLD, even, &comm);
    CHECK((comm == MPI_COMM_NULL) == (rank % 2 == 1));
    if (comm != MPI_COMM_NULL) {
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
    }
    if (rank % 2 == 0) {
        MPI_Comm_create_group(MPI_COMM_WORLD, even, 17, &comm);
        MPI_Comm_size(comm, &s);
        CHECK(s == count);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&even);
    MPI_Group_free(&odd);
    MPI_Group_free(&none);
    MPI_Group_free(&both);
    CHECK(both == MPI_GROUP_NULL);
    free(list);
}

static int copies, deletes;

static int copy_attr(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)key;
    copies++;
    *(void **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_attr(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    deletes++;
    return MPI_SUCCESS;
}

static int free_key(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)value;
    (void)extra;
    return MPI_Comm_free_keyval(&key);
}

/* A key may be freed for each of the objects that carry it. */
static void freed_twice(void)
{
    int key, again, once_more;
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_key, &key, NULL);
    again = once_more = key;
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_set_attr(copy, key, NULL);
    CHECK(MPI_Comm_free(&copy) == MPI_SUCCESS);
    CHECK(MPI_Comm_free_keyval(&key) == MPI_SUCCESS);
    CHECK(MPI_Comm_free_keyval(&again) == MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_SELF, once_more) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Comm_free_keyval(&once_more)) == MPI_ERR_KEYVAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void attributes(void)
{
    int key, dup_key, step = 4, flag, *tag_ub;
    char base[16];
    void *value;
    MPI_Comm copy;
    MPI_Comm_create_keyval(copy_attr, delete_attr, &key, &step);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, base);
    MPI_Comm_set_attr(MPI_COMM_WORLD, dup_key, base + 8);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_get_attr(copy, key, &value, &flag);
    CHECK(flag && value == base + 4 && copies == 1);
    MPI_Comm_get_attr(copy, dup_key, &value, &flag);
    CHECK(flag && value == base + 8);
    MPI_Comm_free(&copy);
    CHECK(deletes == 1);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, base + 1); /* deletes the former value */
    CHECK(deletes == 2);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, dup_key);
    CHECK(deletes == 3);
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag);
    CHECK(!flag);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_free_keyval(&dup_key);
    CHECK(key == MPI_KEYVAL_INVALID);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag);
    CHECK(flag && *tag_ub >= 32767);
}

static void info(void)
{
    MPI_Info a, b;
    char value[16], key[MPI_MAX_INFO_KEY];
    int flag, n, len;
    MPI_Info_create(&a);
    MPI_Info_set(a, "soil", "clay");
    MPI_Info_set(a, "leaf", "green");
    MPI_Info_set(a, "soil", "sand");
    MPI_Info_get(a, "soil", 15, value, &flag);
    CHECK(flag && strcmp(value, "sand") == 0);
    MPI_Info_dup(a, &b);
    MPI_Info_delete(a, "soil");
    MPI_Info_get_nkeys(a, &n);
    CHECK(n == 1);
    MPI_Info_get_nthkey(a, 0, key);
    CHECK(strcmp(key, "leaf") == 0);
    MPI_Info_get_valuelen(b, "soil", &len, &flag);
    CHECK(flag && len == 4);
    len = 3;
    MPI_Info_get_string(b, "leaf", &len, value, &flag);
    CHECK(flag && len == 6 && strcmp(value, "gr") == 0);
    MPI_Info_free(&a);
    MPI_Info_free(&b);
    CHECK(b == MPI_INFO_NULL);
}

static void names_and_grid(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int len, dims[2] = {0, 0}, periods[2] = {1, 0}, coords[2], r, up, down;
    MPI_Comm grid, row;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &len);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && len == 14);
    MPI_Dims_create(size, 2, dims);
    CHECK(dims[0] * dims[1] == size);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Comm_set_name(grid, "grid");
    MPI_Comm_get_name(grid, name, &len);
    CHECK(strcmp(name, "grid") == 0);
    MPI_Cart_coords(grid, rank, 2, coords);
    CHECK(coords[0] * dims[1] + coords[1] == rank);
    MPI_Cart_rank(grid, coords, &r);
    CHECK(r == rank);
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    CHECK(down == (coords[0] + 1) % dims[0] * dims[1] + coords[1]);
    MPI_Cart_shift(grid, 1, 1, &up, &down);
    CHECK(down == (coords[1] + 1 < dims[1] ? rank + 1 : MPI_PROC_NULL));
    int keep[2] = {0, 1};
    MPI_Cart_sub(grid, keep, &row);
    MPI_Comm_size(row, &len);
    CHECK(len == dims[1]);
    MPI_Comm_free(&row);
    MPI_Comm_free(&grid);
}

/* A communicator has the hints that mean something, from the program's first to its last word. */
static void hints(void)
{
    MPI_Info info, used;
    MPI_Comm comm, copy;
    char value[16];
    int flag, count;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Info_set(info, "colour", "green");
    MPI_Comm_set_info(comm, info);
    MPI_Info_set(info, "mpi_assert_exact_length", "true");
    MPI_Info_delete(info, "mpi_assert_no_any_tag");
    MPI_Comm_set_info(comm, info);
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_get_info(copy, &used);
    MPI_Info_get_nkeys(used, &count);
    MPI_Info_get(used, "mpi_assert_no_any_tag", 15, value, &flag);
    CHECK(count == 2 && flag && strcmp(value, "true") == 0);
    MPI_Info_free(&used);
    MPI_Comm_free(&copy);
    MPI_Comm_dup_with_info(comm, info, &copy);
    MPI_Comm_get_info(copy, &used);
    MPI_Info_get_nkeys(used, &count);
    CHECK(count == 1);
    MPI_Info_free(&used);
    MPI_Info_free(&info);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    dup_and_split();
    groups();
    attributes();
    freed_twice();
    info();
    hints();
    names_and_grid();
    return finish("comm");
}
