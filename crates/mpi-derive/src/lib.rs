//! `#[derive(Datum)]`: a struct that can be sent.
//!
//! It says where the struct's fields are, each of which has to be a `Datum` itself, so that padding is neither sent nor
//! written. What it refuses, it refuses with the reason: see `refuse.rs`. Programs find it as `mpi::Datum`, where it is
//! documented.
#![forbid(unsafe_code)]
mod implementation;
mod refuse;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct something that `mpi` sends.
///
/// The struct is `#[repr(C)]`, has at least one field and no type parameters, and every field is a `Datum`: a number, an array
/// of elements, or another such struct. `#[mpi(crate = path)]` says where the library is found, where a program has it under
/// another name than `mpi`.
#[proc_macro_derive(Datum, attributes(mpi))]
pub fn derive_datum(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let written = refuse::checked(&input).map(|checked| implementation::of(&input, &checked));
    written.unwrap_or_else(|error| error.into_compile_error()).into()
}
