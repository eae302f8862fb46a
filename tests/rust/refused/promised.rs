// expect: the trait `Datum` requires an `unsafe impl` declaration
#[derive(Clone, Copy)]
struct Mine(&'static u8);

impl mpi::Datum for Mine {
    const SHAPE: mpi::datum::Shape = <u64 as mpi::Datum>::SHAPE;
}

fn main() {}
