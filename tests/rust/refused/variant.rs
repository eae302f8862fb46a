// expect: an enum cannot be sent: what arrives is bytes, and not every byte is one of its variants
#[derive(Clone, Copy, mpi::Datum)]
#[repr(C)]
enum Color {
    Red,
    Green,
}

fn main() {}
