//! What cannot be sent, and why: the messages that a programmer sees.
use syn::{Attribute, Data, DeriveInput, Error, Fields, Path, Result, Token, parse_quote};

/// A struct of which all that can be seen before types are known is right.
pub(crate) struct Checked<'a> {
    pub(crate) fields: &'a Fields,
    /// Where the library is.
    pub(crate) library: Path,
}

pub(crate) fn checked(input: &DeriveInput) -> Result<Checked<'_>> {
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            let text = "an enum cannot be sent: what arrives is bytes, and not every byte is one of its variants; \
                        send a number and convert it";
            return Err(Error::new(data.enum_token.span, text));
        }
        Data::Union(data) => {
            let text = "a union cannot be sent: nothing says which of its fields is there; send a struct";
            return Err(Error::new(data.union_token.span, text));
        }
    };
    if !input.generics.params.is_empty() {
        let text = "a struct with parameters cannot be sent: the layout of each of its types would be another one; \
                    derive Datum for a struct with concrete types";
        return Err(Error::new_spanned(&input.generics, text));
    }
    if fields.is_empty() {
        return Err(Error::new_spanned(&input.ident, "a struct without fields has nothing to send"));
    }
    if !has_fixed_layout(&input.attrs)? {
        let text = "derive(Datum) needs #[repr(C)] on the struct: without it the compiler may order the fields \
                    differently in each build, and a receiver of another build would read other fields";
        return Err(Error::new_spanned(&input.ident, text));
    }
    Ok(Checked { fields, library: library(&input.attrs)? })
}

/// Is the order of fields the one that is written?
fn has_fixed_layout(attributes: &[Attribute]) -> Result<bool> {
    let mut fixed = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            fixed |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            // `align(8)`, `packed(2)`: where fields are is asked of the compiler.
            if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<syn::LitInt>()?;
            }
            Ok(())
        })?;
    }
    Ok(fixed)
}

/// `#[mpi(crate = path)]`, or `::mpi`.
fn library(attributes: &[Attribute]) -> Result<Path> {
    let mut path = parse_quote!(::mpi);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("mpi")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("#[mpi(crate = path)] is all that can be said here"));
            }
            meta.input.parse::<Token![=]>()?;
            path = meta.input.call(Path::parse_mod_style)?;
            Ok(())
        })?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(input: DeriveInput) -> String {
        checked(&input).err().expect("it cannot be sent").to_string()
    }

    #[test]
    fn each_refusal_says_why() {
        let cases: [(DeriveInput, &str); 7] = [
            (
                parse_quote!(
                    #[repr(C)]
                    enum E {
                        A,
                        B,
                    }
                ),
                "not every byte is one of its variants",
            ),
            (parse_quote!(#[repr(C)] union U { a: u8, b: i8 }), "which of its fields is there"),
            (
                parse_quote!(
                    #[repr(C)]
                    struct S<T> {
                        a: T,
                    }
                ),
                "a struct with parameters",
            ),
            (
                parse_quote!(
                    #[repr(C)]
                    struct S<'a> {
                        a: &'a u8,
                    }
                ),
                "a struct with parameters",
            ),
            (
                parse_quote!(
                    #[repr(C)]
                    struct S;
                ),
                "nothing to send",
            ),
            (
                parse_quote!(
                    struct S {
                        a: u8,
                    }
                ),
                "needs #[repr(C)]",
            ),
            (
                parse_quote!(
                    #[repr(C)]
                    #[mpi(other = b)]
                    struct S {
                        a: u8,
                    }
                ),
                "#[mpi(crate = path)]",
            ),
        ];
        for (input, words) in cases {
            let refusal = refusal(input);
            assert!(refusal.contains(words), "{refusal}");
        }
    }

    #[test]
    fn a_fixed_layout_may_be_aligned_or_packed() {
        for input in [
            parse_quote!(
                #[repr(C)]
                struct S {
                    a: u8,
                }
            ),
            parse_quote!(
                #[repr(C, align(16))]
                struct S {
                    a: u8,
                }
            ),
            parse_quote!(
                #[repr(packed(2), C)]
                struct S {
                    a: u8,
                    b: u64,
                }
            ),
            parse_quote!(
                #[repr(transparent)]
                struct S(f64);
            ),
        ] {
            assert!(checked(&input).is_ok());
        }
    }

    #[test]
    fn the_library_may_have_another_name() {
        let input = parse_quote!(
            #[repr(C)]
            #[mpi(crate = other::mpi)]
            struct S {
                a: u8,
            }
        );
        let library = checked(&input).expect("it can be sent").library;
        assert_eq!(quote::quote!(#library).to_string(), "other :: mpi");
    }
}
