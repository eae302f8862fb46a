// expect: is not a number, so `Op` does not combine it
#[derive(Clone, Copy, mpi::Datum)]
#[repr(C)]
struct Point {
    x: f64,
}

fn main() -> mpi::Result<()> {
    let (a, mut b) = ([Point { x: 1.0 }], [Point { x: 0.0 }]);
    mpi::init()?.world().allreduce(&a, &mut b, mpi::Op::Sum)
}
