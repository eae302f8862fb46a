// expect: `bool` cannot be sent: it is not a number, an array of numbers, or a struct with `#[derive(mpi::Datum)]`
#[derive(Clone, Copy, mpi::Datum)]
#[repr(C)]
struct Flagged {
    flag: bool,
}

fn main() {}
