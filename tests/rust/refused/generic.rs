// expect: a struct with parameters cannot be sent
#[derive(Clone, Copy, mpi::Datum)]
#[repr(C)]
struct Pair<T> {
    a: T,
    b: T,
}

fn main() {}
