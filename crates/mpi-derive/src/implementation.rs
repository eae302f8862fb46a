//! What is written for a struct that can be sent.
//!
//! The implementation promises (`mpi::Datum` is an unsafe trait) what is checked: where each field is, the compiler says; that
//! a field is any bytes, its own type promises, and a field without that promise does not compile; that fields do not overlap
//! and stay inside, `Shape::structure` asserts while the program is compiled.
use crate::refuse::Checked;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Index, Member};

pub(crate) fn of(input: &DeriveInput, checked: &Checked<'_>) -> TokenStream {
    let (name, library) = (&input.ident, &checked.library);
    let fields = checked.fields.iter().enumerate().map(|(at, field)| {
        let member = match &field.ident {
            Some(name) => Member::Named(name.clone()),
            None => Member::Unnamed(Index::from(at)),
        };
        let ty = &field.ty;
        // Under the name of the field's type, so that an error points there.
        quote_spanned! { ty.span() =>
            #library::datum::Field {
                at: ::core::mem::offset_of!(#name, #member),
                shape: &<#ty as #library::datum::Datum>::SHAPE,
            }
        }
    });
    quote! {
        // SAFETY: any bytes are a value of each field, as its own `Datum` promises; the compiler says where it is.
        unsafe impl #library::datum::Datum for #name {
            const SHAPE: #library::datum::Shape =
                #library::datum::Shape::structure(&[#(#fields),*], ::core::mem::size_of::<#name>());
        }
    }
}
