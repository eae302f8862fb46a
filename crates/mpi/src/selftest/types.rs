//! Datatypes: what is sent with gaps arrives without, and the other way round.
use super::*;

/// A datatype, what it should be, and the places of its bytes in order.
struct Case {
    ty: TypeId,
    name: &'static str,
    extent: (i64, i64),
    places: Vec<i64>,
    elements: u64,
}

pub(super) fn check(job: &mut Job) -> Result<()> {
    for case in cases(&mut job.mpi)? {
        shape(job, &case)?;
        for count in [1, 2, 7, 3000] {
            exchange(job, &case, count)?;
        }
        pack(job, &case)?;
        job.mpi.type_free(case.ty)?;
        let freed = job.mpi.type_size(case.ty);
        job.fails(freed, ErrorClass::Type, "a freed datatype")?;
    }
    rules(job)
}

fn bytes_at(starts: &[i64], len: i64) -> Vec<i64> {
    starts.iter().flat_map(|start| *start..start + len).collect()
}

fn cases(mpi: &mut Mpi) -> Result<Vec<Case>> {
    let int = TypeId::INT;
    let case = |ty, name, extent, places, elements| Case { ty, name, extent, places, elements };
    let mut list = Vec::new();
    let ty = mpi.type_contiguous(3, TypeId::DOUBLE)?;
    list.push(case(ty, "contiguous", (0, 24), bytes_at(&[0], 24), 3));
    let ty = mpi.type_vector(3, 2, 4, int)?;
    list.push(case(ty, "vector", (0, 40), bytes_at(&[0, 16, 32], 8), 6));
    let ty = mpi.type_hvector(2, 1, 7, TypeId::SHORT)?;
    list.push(case(ty, "hvector", (0, 9), bytes_at(&[0, 7], 2), 2));
    let ty = mpi.type_vector(2, 1, -3, int)?;
    list.push(case(ty, "vector backwards", (-12, 16), bytes_at(&[0, -12], 4), 2));
    let ty = mpi.type_indexed(&[1, 0, 2], &[5, 9, 0], int)?;
    list.push(case(ty, "indexed", (0, 24), [bytes_at(&[20], 4), bytes_at(&[0], 8)].concat(), 3));
    let ty = mpi.type_hindexed_block(2, &[16, 0], TypeId::CHAR)?;
    list.push(case(ty, "hindexed block", (0, 18), bytes_at(&[16, 0], 2), 4));
    let ty = mpi.type_struct(&[1, 1, 3], &[0, 4, 16], &[TypeId::CHAR, int, TypeId::SHORT])?;
    let places = [bytes_at(&[0], 1), bytes_at(&[4], 4), bytes_at(&[16], 6)].concat();
    list.push(case(ty, "struct", (0, 24), places, 5));
    let ty = mpi.type_subarray(&[4, 5], &[2, 3], &[1, 2], Order::C, int)?;
    list.push(case(ty, "subarray", (0, 80), bytes_at(&[28, 48], 12), 6));
    let ty = mpi.type_subarray(&[5, 4], &[3, 2], &[2, 1], Order::Fortran, int)?;
    list.push(case(ty, "subarray of Fortran", (0, 80), bytes_at(&[28, 48], 12), 6));
    let column = mpi.type_vector(4, 1, 4, int)?;
    let ty = mpi.type_resized(column, 0, 4)?;
    list.push(case(ty, "resized column", (0, 4), bytes_at(&[0, 16, 32, 48], 4), 4));
    mpi.type_free(column)?;
    let ty = mpi.type_dup(TypeId::DOUBLE_INT)?;
    list.push(case(ty, "pair", (0, 16), bytes_at(&[0], 12), 2));
    for case in &list {
        mpi.type_commit(case.ty)?;
    }
    Ok(list)
}

fn shape(job: &mut Job, case: &Case) -> Result<()> {
    let extent = job.mpi.type_extent(case.ty)?;
    job.equal(&extent, &case.extent, case.name)?;
    let size = job.mpi.type_size(case.ty)?;
    job.equal(&size, &case.places.len(), case.name)?;
    let status = Status { bytes: 3 * size, ..Status::EMPTY };
    let count = job.mpi.get_count(&status, case.ty)?;
    job.equal(&count, &Some(3), case.name)?;
    let elements = job.mpi.get_elements(&status, case.ty)?;
    job.equal(&elements, &Some(3 * case.elements), case.name)?;
    let (low, high) = (case.places.iter().min().copied(), case.places.iter().max().copied());
    let (low, high) = (low.unwrap_or(0), high.unwrap_or(-1));
    let found = job.mpi.type_true_extent(case.ty)?;
    job.equal(&found, &(low, high + 1 - low), case.name)
}

/// The places of the bytes of `count` elements, and the room they need around the origin.
fn spread(case: &Case, count: i64) -> (Vec<usize>, usize, usize) {
    let all: Vec<i64> =
        (0..count).flat_map(|k| case.places.iter().map(move |place| k * case.extent.1 + place)).collect();
    let low = all.iter().min().copied().unwrap_or(0).min(0);
    let high = all.iter().max().copied().unwrap_or(0) + 1;
    (all.iter().map(|place| (place - low) as usize).collect(), -low as usize, (high - low) as usize)
}

/// With gaps to the right as bytes, and as bytes to the right with gaps.
fn exchange(job: &mut Job, case: &Case, count: i64) -> Result<()> {
    let (places, origin, room) = spread(case, count);
    let (to, from) = (job.right(1), job.right(-1));
    let left = (job.rank - 1).rem_euclid(job.size);
    let swap = |job: &mut Job, send, recv, tag| {
        let (dest, source) = (Dest::new(to, tag), Source::new(from, Tag::Is(tag)));
        let begun = job.mpi.sendrecv(CommId::WORLD, (send, dest), (recv, source));
        job.done(begun)
    };

    let mut gaps = Memory::new(&pattern(job.rank, room));
    let mut flat = Memory::filled(places.len(), 0);
    let spread = Data::new(gaps.send().shifted(origin as isize), count, case.ty);
    swap(job, spread, flat.received(), 1)?;
    let theirs = pattern(left, room);
    let expected: Vec<u8> = places.iter().map(|place| theirs[*place]).collect();
    job.equal(&flat.bytes(), &expected, case.name)?;

    let overlapping = case.extent.1 < *case.places.iter().max().unwrap_or(&0) && count > 1;
    if overlapping && case.name != "resized column" {
        return Ok(());
    }
    let mut flat = Memory::new(&pattern(job.rank, places.len()));
    let mut gaps = Memory::filled(room, 0xEE);
    let spread = Data::new(gaps.recv().shifted(origin as isize), count, case.ty);
    swap(job, flat.sent(), spread, 2)?;
    let mut expected = vec![0xEE; room];
    for (byte, place) in pattern(left, places.len()).iter().zip(&places) {
        expected[*place] = *byte;
    }
    job.equal(&gaps.bytes(), &expected, case.name)
}

fn pack(job: &mut Job, case: &Case) -> Result<()> {
    let (places, origin, room) = spread(case, 2);
    let bytes = job.mpi.pack_size(2, case.ty)? as i64;
    let mut gaps = Memory::new(&pattern(1, room));
    let mut packed = Memory::filled(bytes as usize + 10, 0);
    let mut position = 10;
    let from = Data::new(gaps.send().shifted(origin as isize), 2, case.ty);
    job.mpi.pack(from, packed.recv(), bytes + 10, &mut position)?;
    job.equal(&position, &(bytes + 10), "position after packing")?;
    let expected: Vec<u8> = places.iter().map(|place| pattern(1, room)[*place]).collect();
    job.equal(&packed.bytes()[10..].to_vec(), &expected, case.name)?;
    let mut again = Memory::filled(room, 0);
    let mut position = 10;
    let to = Data::new(again.recv().shifted(origin as isize), 2, case.ty);
    job.mpi.unpack(packed.send(), bytes + 10, &mut position, to)?;
    let found: Vec<u8> = places.iter().map(|place| again.bytes()[*place]).collect();
    job.equal(&found, &expected, case.name)?;
    let mut position = 11;
    let beyond = job.mpi.pack(from, packed.recv(), bytes + 10, &mut position);
    job.fails(beyond, ErrorClass::Truncate, "packing beyond the end")
}

fn rules(job: &mut Job) -> Result<()> {
    let raw = job.mpi.type_vector(2, 1, 2, TypeId::INT)?;
    let none = Data { ty: raw, ..SendData::NONE };
    let sent = job.mpi.send(CommId::WORLD, none, Dest::new(Peer::Rank(0), 0), Mode::Standard);
    job.fails(sent, ErrorClass::Type, "a datatype that is not committed")?;
    let contents = job.mpi.type_contents(raw)?;
    let expected = Contents {
        combiner: Combiner::Vector,
        integers: vec![2, 1, 2],
        addresses: vec![],
        types: vec![TypeId::INT],
        large: false,
    };
    job.equal(&contents, &expected, "contents of a vector")?;
    job.mpi.type_free(raw)?;
    let freed = job.mpi.type_free(TypeId::INT);
    job.fails(freed, ErrorClass::Type, "free of a predefined datatype")?;
    // A message that ends in the middle of an element.
    let pair = job.mpi.type_struct(&[1, 1], &[0, 8], &[TypeId::INT, TypeId::DOUBLE])?;
    let status = Status { bytes: 16, ..Status::EMPTY };
    let (count, elements) = (job.mpi.get_count(&status, pair)?, job.mpi.get_elements(&status, pair)?);
    job.equal(&(count, elements), &(None, Some(3)), "one element and a part")?;
    let status = Status { bytes: 14, ..Status::EMPTY };
    let elements = job.mpi.get_elements(&status, pair)?;
    job.equal(&elements, &None, "a torn element")?;
    job.mpi.type_free(pair)
}
