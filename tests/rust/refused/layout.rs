// expect: derive(Datum) needs #[repr(C)] on the struct
#[derive(Clone, Copy, mpi::Datum)]
struct Loose {
    value: u8,
}

fn main() {}
