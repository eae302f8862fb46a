//! Groups, communicators, grids, attributes, hints, error codes.
use super::*;

pub(super) fn check(job: &mut Job) -> Result<()> {
    groups(job)?;
    communicators(job)?;
    contexts(job)?;
    grids(job)?;
    attributes(job)?;
    small_things(job)
}

fn groups(job: &mut Job) -> Result<()> {
    let world = job.mpi.comm_group(CommId::WORLD)?;
    let size = job.size;
    let odd: Vec<i32> = (0..size).filter(|rank| rank % 2 == 1).rev().collect();
    let odd = job.mpi.group_incl(world, &odd)?;
    let even = job.mpi.group_difference(world, odd)?;
    let count = job.mpi.group_size(even)? as i32;
    job.equal(&count, &((size + 1) / 2), "even ranks")?;
    let all = job.mpi.group_union(even, odd)?;
    let how = job.mpi.group_compare(all, world)?;
    let same = if size <= 2 { Comparison::Identical } else { Comparison::Similar };
    job.equal(&how, &same, "even and odd make all")?;
    let none = job.mpi.group_intersection(even, odd)?;
    job.equal(&none, &GroupId::EMPTY, "even and odd have nothing in common")?;
    let ranks: Vec<i32> = (0..count).collect();
    let places = job.mpi.group_translate(even, &ranks, world)?;
    let expected: Vec<Option<u32>> = ranks.iter().map(|rank| Some(*rank as u32 * 2)).collect();
    job.equal(&places, &expected, "even ranks in the world")?;
    let by_range = job.mpi.group_range_incl(world, &[[0, size - 1, 2]])?;
    let how = job.mpi.group_compare(by_range, even)?;
    job.equal(&how, &Comparison::Identical, "even ranks as a range")?;
    let result = job.mpi.group_incl(world, &[0, 0]);
    job.fails(result, ErrorClass::Rank, "a rank twice")?;
    for group in [world, odd, even, all, by_range] {
        job.mpi.group_free(group)?;
    }
    Ok(())
}

/// Who is in the communicator, in order: asks everyone by an allgather of world ranks.
fn roll_call(job: &mut Job, comm: CommId) -> Result<Vec<i32>> {
    let size = job.mpi.comm_size(comm)? as usize;
    let mut mine = Memory::new(&job.rank.to_ne_bytes());
    let mut all = Memory::filled(4 * size, 0xFF);
    let int = TypeId::INT;
    let (send, recv) = (Data::new(mine.send(), 1, int), Data::new(all.recv(), 1, int));
    job.collective(comm, Coll::Allgather { send, recv })?;
    Ok(all.bytes().chunks(4).map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect())
}

fn communicators(job: &mut Job) -> Result<()> {
    let (rank, size) = (job.rank, job.size);
    let dup = job.mpi.comm_dup(CommId::WORLD)?;
    let (how, members) = (job.mpi.comm_compare(CommId::WORLD, dup)?, roll_call(job, dup)?);
    job.equal(&how, &Comparison::Congruent, "duplicate")?;
    job.equal(&members, &(0..size).collect(), "members of a duplicate")?;
    // Reversed by key; of the duplicate's messages nothing is seen here.
    let Some(reversed) = job.mpi.comm_split(dup, Some(4), -rank)? else {
        return job.equal(&false, &true, "every process is in the reversed communicator");
    };
    let members = roll_call(job, reversed)?;
    job.equal(&members, &(0..size).rev().collect(), "members in reverse")?;
    let color = (rank % 3 != 2).then_some(rank % 3);
    let third = job.mpi.comm_split(CommId::WORLD, color, 0)?;
    job.equal(&third.is_some(), &color.is_some(), "who takes part in a split")?;
    if let Some(third) = third {
        let members = roll_call(job, third)?;
        job.equal(&members, &(0..size).filter(|r| r % 3 == rank % 3).collect(), "members of a third")?;
        job.mpi.comm_free(third)?;
    }
    let Some(node) = job.mpi.comm_split_shared(CommId::WORLD, true, 0)? else {
        return job.equal(&false, &true, "every process has a node");
    };
    let members = roll_call(job, node)?;
    let here = job.mpi.node_of(rank as u32);
    let expected = (0..size).filter(|other| job.mpi.node_of(*other as u32) == here).collect();
    job.equal(&members, &expected, "members of a node")?;
    by_group(job)?;
    for comm in [dup, reversed, node] {
        job.mpi.comm_free(comm)?;
    }
    let freed = job.mpi.comm_size(dup);
    job.fails(freed, ErrorClass::Comm, "a freed communicator")?;
    let result = job.mpi.comm_free(CommId::WORLD);
    job.fails(result, ErrorClass::Comm, "free of the world")
}

fn by_group(job: &mut Job) -> Result<()> {
    let world = job.mpi.comm_group(CommId::WORLD)?;
    let half = job.mpi.group_range_incl(world, &[[job.size - 1, 0, -2]])?;
    let inside = job.mpi.group_rank(half)?.is_some();
    let expected: Vec<i32> = (0..job.size).rev().step_by(2).collect();
    let made = job.mpi.start_create(CommId::WORLD, half)?;
    let made = job.mpi.make(made)?;
    job.equal(&made.is_some(), &inside, "who is in a created communicator")?;
    if let Some(comm) = made {
        let members = roll_call(job, comm)?;
        job.equal(&members, &expected, "members of a created communicator")?;
        job.mpi.comm_free(comm)?;
    }
    if inside {
        let made = job.mpi.start_create_group(CommId::WORLD, half, 17)?;
        let made = job.mpi.make(made)?;
        let Some(comm) = made else { return job.equal(&false, &true, "a member gets its communicator") };
        let members = roll_call(job, comm)?;
        job.equal(&members, &expected, "members of a communicator made by its group")?;
        job.mpi.comm_free(comm)?;
    }
    job.mpi.group_free(half)?;
    job.mpi.group_free(world)
}

/// Messages of one communicator are never received in another, even by a wildcard.
fn contexts(job: &mut Job) -> Result<()> {
    let comms = [job.mpi.comm_dup(CommId::WORLD)?, job.mpi.comm_dup(CommId::WORLD)?, CommId::WORLD];
    let mut sends = Vec::new();
    let mut out: Vec<Memory> = (0..3).map(|i| Memory::filled(4, i)).collect();
    for (comm, memory) in comms.iter().zip(&mut out) {
        let to = job.right(1);
        sends.push(job.mpi.isend(*comm, memory.sent(), Dest::new(to, 0), Mode::Standard)?);
    }
    for (i, comm) in comms.iter().enumerate().rev() {
        let mut theirs = Memory::filled(4, 9);
        let got = job.mpi.recv(*comm, theirs.received(), Source::new(Peer::Any, Tag::Any));
        job.done(got)?;
        job.equal(&theirs.bytes(), &vec![i as u8; 4], "a message of this communicator")?;
    }
    for request in sends {
        job.wait(request)?;
    }
    job.mpi.comm_free(comms[0])?;
    job.mpi.comm_free(comms[1])
}

fn grids(job: &mut Job) -> Result<()> {
    let mut dims = [0, 0];
    Mpi::dims_create(job.size, &mut dims)?;
    let made = job.mpi.start_cart(CommId::WORLD, &dims, &[true, false])?;
    let Some(grid) = job.mpi.make(made)? else {
        return job.equal(&false, &true, "the grid has room for all");
    };
    let rank = job.mpi.comm_rank(grid)? as i32;
    let coords = job.mpi.cart_coords(grid, rank)?;
    let back = job.mpi.cart_rank(grid, &coords)? as i32;
    job.equal(&back, &rank, "rank of the own coordinates")?;
    let (source, dest) = job.mpi.cart_shift(grid, 1, 1)?;
    let expected = |inside: bool, rank| if inside { Peer::Rank(rank) } else { Peer::Null };
    job.equal(&source, &expected(coords[1] > 0, rank - 1), "source of a shift")?;
    job.equal(&dest, &expected(coords[1] + 1 < dims[1], rank + 1), "destination of a shift")?;
    let made = job.mpi.start_cart_sub(grid, &[false, true])?;
    let Some(row) = job.mpi.make(made)? else {
        return job.equal(&false, &true, "every process is in a row");
    };
    let (place, size) = (job.mpi.comm_rank(row)? as i32, job.mpi.comm_size(row)? as i32);
    job.equal(&(place, size), &(coords[1], dims[1]), "a row of the grid")?;
    job.mpi.comm_free(row)?;
    job.mpi.comm_free(grid)
}

fn attributes(job: &mut Job) -> Result<()> {
    let (world, int) = (Object::Comm(CommId::WORLD), Object::Type(TypeId::INT));
    for (carrier, object, other) in [(Carrier::Comm, world, int), (Carrier::Type, int, world)] {
        let key = job.mpi.keyval_create(Keyval { carrier, copy: 1, delete: 2, extra: 3 });
        let empty = job.mpi.attr_get(object, key)?;
        job.equal(&empty, &None, "no attribute yet")?;
        job.mpi.attr_set(object, key, 42)?;
        let old = job.mpi.attr_set(object, key, 43)?;
        job.equal(&old, &Some(42), "former attribute")?;
        let list = job.mpi.attrs(object)?;
        job.equal(&list, &vec![(key, 43)], "attributes")?;
        let wrong = job.mpi.attr_set(other, key, 44);
        job.fails(wrong, ErrorClass::Keyval, "a key for other objects")?;
        job.mpi.keyval_free(key)?;
        let still = job.mpi.keyval(key)?;
        job.equal(&still.delete, &2, "a freed key lives while an object has it")?;
        job.mpi.attr_delete(object, key)?;
        let gone = job.mpi.keyval(key);
        job.fails(gone, ErrorClass::Keyval, "a key that nobody has")?;
    }
    Ok(())
}

fn small_things(job: &mut Job) -> Result<()> {
    let info = registry().info_create();
    registry().info_set(info, "b", "1")?;
    registry().info_set(info, "a", "2")?;
    registry().info_set(info, "b", "3")?;
    let copy = registry().info_dup(info)?;
    registry().info_delete(info, "a")?;
    let found = {
        let all = registry();
        (all.info_nkeys(info)?, all.info_nkeys(copy)?)
    };
    job.equal(&found, &(1, 2), "keys of an info object and its copy")?;
    let value = registry().info_get(copy, "b")?.map(String::from);
    job.equal(&value, &Some("3".into()), "value of a key")?;
    let missing = registry().info_delete(info, "a");
    job.fails(missing, ErrorClass::InfoNokey, "no such key")?;
    registry().info_free(info)?;
    registry().info_free(copy)?;
    let class = registry().add_error_class();
    let code = registry().add_error_code(class)?;
    registry().add_error_string(code, "broken")?;
    let text = registry().user_error(code).map(|(class, text)| (class, String::from(text)));
    job.equal(&text, &Some((class, "broken".into())), "an added error code")?;
    let handler = registry().errhandler_create(99);
    job.mpi.comm_set_errhandler(CommId::SELF, handler)?;
    registry().errhandler_free(handler)?;
    let found = registry().errhandler(handler)?;
    job.equal(&found, &Errhandler::User(99), "a freed handler lives while an object has it")?;
    job.mpi.comm_set_errhandler(CommId::SELF, ErrhandlerId::FATAL)?;
    let gone = registry().errhandler(handler);
    job.fails(gone, ErrorClass::Errhandler, "a handler that nobody has")
}
