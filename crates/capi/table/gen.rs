//! Reads the two tables (`functions.txt`, `constants.txt`) and writes what follows from them: the constants
//! of the translation, the exports of the two libraries and the C headers.
//!
//! Shared by the build scripts and the header writer; plain text in, plain text out. It knows C only as far
//! as the prototypes of MPI need it.
#![allow(dead_code)] // each user of this module needs another half of it

use std::fmt::Write;

const FUNCTIONS: &str = include_str!("functions.txt");
const CONSTANTS: &str = include_str!("constants.txt");
const TYPES_MPICH: &str = include_str!("types_mpich.h");
const TYPES_STD: &str = include_str!("types_std.h");
const CALLBACKS: &str = include_str!("callbacks.h");
const ORDER: &str = include_str!("order.txt");

/// What the libraries' segments are aligned to. Linux puts a file that takes 2 MiB or more at multiples of 2 MiB, the same
/// page of it at the same place of the translation cache in every process: ranks that share a core then drive each
/// other's pages out (an allreduce of 32 ranks on 2 cores took 1.3 times as long). The loader finds a place of its own
/// for whatever wants to be aligned to more than a page.
const PAGE_SIZE_MAX: u32 = 8192;

/// Tells the linker what a build script may tell it about a library called `soname`, and leaves what it is to read in `out`.
pub fn link(soname: &str, out: &str) {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // Calls inside the library stay inside it, also when a profiler defines the same names.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,max-page-size={PAGE_SIZE_MAX}");
    // A linker that somebody has chosen may not know scripts.
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let chosen =
        flags.contains("linker") || flags.contains("fuse-ld") || std::env::var_os("RUSTC_LINKER").is_some();
    if !chosen && std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        let script = format!("{out}/order.ld");
        std::fs::write(&script, order_script()).expect("the linker's script is written");
        println!("cargo::rustc-cdylib-link-arg=-T{script}"); // (not by -Wl: a path may hold a comma)
    }
}

/// Puts the functions of `order.txt` side by side, before all others: what every process needs is then on few pages, and
/// a process that starts touches those only. Cold functions have sections of another name.
fn order_script() -> String {
    let functions = ORDER.lines().filter(|line| !line.starts_with('#'));
    let sections: String =
        functions.map(|name| format!("    *(.text.{name} .text.unlikely.{name})\n")).collect();
    format!("SECTIONS {{\n  .text.start : {{\n{sections}  }}\n}}\nINSERT BEFORE .text;\n")
}

/// One of the two binary interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Mpich,
    Std,
}

/// A row of `functions.txt`.
pub struct Function {
    sides: String,
    /// Module of the translation; `-` if there is none yet.
    pub module: String,
    pub ret: String,
    /// With its `MPI_` prefix.
    pub name: String,
    /// C declarations, one per parameter.
    pub params: Vec<String>,
}

impl Function {
    pub fn exists_on(&self, side: Side) -> bool {
        matches!((self.sides.as_str(), side), ("both", _) | ("mpich", Side::Mpich) | ("std", Side::Std))
    }

    fn prototype(&self, prefix: &str) -> String {
        let params = if self.params.is_empty() { "void".into() } else { self.params.join(", ") };
        format!("{} {prefix}{}({params});", self.ret, self.name)
    }
}

/// A row of `constants.txt`.
pub struct Constant {
    pub name: String,
    pub ctype: String,
    mpich: String,
    std: String,
}

impl Constant {
    /// The value's text on one side, if it exists there.
    pub fn value(&self, side: Side) -> Option<&str> {
        let text = if side == Side::Mpich { &self.mpich } else { &self.std };
        (text != "-").then_some(text)
    }
}

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// All functions, in the order of the table.
pub fn functions() -> Vec<Function> {
    rows(FUNCTIONS).map(parse_function).collect()
}

fn parse_function(row: &str) -> Function {
    let (sides, rest) = row.split_once(char::is_whitespace).expect("sides");
    let (module, proto) = rest.trim().split_once(' ').expect("module");
    let proto = proto.trim();
    let open = proto.find('(').expect("parameter list");
    let (head, params) = (proto[..open].trim(), &proto[open + 1..proto.len() - 1]);
    let (ret, name) = head.rsplit_once(' ').expect("return type");
    let params = match params.trim() {
        "void" => Vec::new(),
        list => list.split(',').map(|p| p.trim().to_string()).collect(),
    };
    Function { sides: sides.into(), module: module.into(), ret: ret.into(), name: name.into(), params }
}

/// All constants, in the order of the table.
pub fn constants() -> Vec<Constant> {
    rows(CONSTANTS)
        .map(|row| {
            let mut words = row.split_whitespace().map(String::from);
            let mut next = || words.next().expect("four columns");
            Constant { name: next(), ctype: next(), mpich: next(), std: next() }
        })
        .collect()
}

// ---- Rust: constants -------------------------------------------------------------------------------------

/// `struct Constants` with one value per side: what both sides have, as `i64`.
pub fn rust_constants() -> String {
    let common: Vec<Constant> = constants()
        .into_iter()
        .filter(|c| number(c, Side::Mpich).is_some() && number(c, Side::Std).is_some())
        .collect();
    let mut out =
        String::from("/// The values that the two interfaces give to one name.\n#[allow(missing_docs)]\n");
    out += "#[derive(Debug)]\npub struct Constants {\n";
    for c in &common {
        writeln!(out, "    pub {}: i64,", field(&c.name)).unwrap();
    }
    out += "}\n";
    for (name, side) in [("MPICH", Side::Mpich), ("STANDARD", Side::Std)] {
        writeln!(out, "/// This interface's values.\npub const {name}: Constants = Constants {{").unwrap();
        for c in &common {
            writeln!(out, "    {}: {},", field(&c.name), number(c, side).unwrap()).unwrap();
        }
        out += "};\n";
    }
    out += &datatype_list();
    out
}

/// Name and handles of every predefined datatype: the naming and decoding tables come from it.
fn datatype_list() -> String {
    let mut out = String::from("/// Predefined datatypes: name, MPICH handle, standard handle.\n");
    out += "pub const DATATYPES: &[(&str, Option<i32>, Option<usize>)] = &[\n";
    for c in constants().iter().filter(|c| c.ctype == "MPI_Datatype" && c.name != "MPI_DATATYPE_NULL") {
        let (m, s) = (number(c, Side::Mpich), number(c, Side::Std));
        let m = m.map(|v| v as u32 as i32);
        writeln!(out, "    ({:?}, {m:?}, {s:?}),", c.name).unwrap();
    }
    out + "];\n"
}

/// `MPI_ERR_COMM` becomes `err_comm`.
fn field(name: &str) -> String {
    let lower = name.trim_start_matches("MPI_").to_lowercase();
    if lower.starts_with(|c: char| c.is_ascii_digit()) { format!("n{lower}") } else { lower }
}

fn number(c: &Constant, side: Side) -> Option<i64> {
    let text = c.value(side)?;
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

// ---- Rust: exports ---------------------------------------------------------------------------------------

/// The `extern "C"` definitions of one library, `MPI_` and `PMPI_`.
pub fn rust_exports(side: Side) -> String {
    let abi = if side == Side::Mpich { "Mpich" } else { "Standard" };
    let all = functions();
    let large: Vec<&str> = all.iter().filter_map(|f| f.name.strip_suffix("_c")).collect();
    let mut out = String::new();
    for f in all.iter().filter(|f| f.exists_on(side)) {
        let (params, names): (Vec<String>, Vec<String>) =
            f.params.iter().map(|p| rust_param(p, side)).unzip();
        let ret = rust_type(&f.ret, side);
        let body = match f.module.as_str() {
            "-" => stub(f, &names, abi),
            _ => format!("{}{}", note_nulls(f, &params, &names, side), call(f, &names, abi, &large)),
        };
        // One body, which the compiler then specialises fully, and two names for it: each export is a jump.
        let (params, args, inner) = (params.join(", "), names.join(", "), format!("inner_{}", f.name));
        writeln!(out, "#[inline(never)]\nextern \"C\" fn {inner}({params}) -> {ret} {{\n    {body}\n}}")
            .unwrap();
        for prefix in ["", "P"] {
            writeln!(out, "#[unsafe(no_mangle)]").unwrap();
            writeln!(out, "pub extern \"C\" fn {prefix}{}({params}) -> {ret} {{", f.name).unwrap();
            writeln!(out, "    {inner}({args})\n}}").unwrap();
        }
    }
    out
}

/// A call of the generic translation. A function with a large-count sibling is generic over the count type,
/// unless the table names a function of its own for each.
fn call(f: &Function, names: &[String], abi: &str, large: &[&str]) -> String {
    if f.module.contains("::") {
        return format!("capi::{}::<{abi}>({})", f.module, names.join(", "));
    }
    let base = f.name.strip_suffix("_c").unwrap_or(&f.name);
    let count = match (large.contains(&base), f.name.ends_with("_c")) {
        (false, _) => "",
        (true, false) => ", c_int",
        (true, true) => ", i64",
    };
    let path = format!("capi::{}::{}", f.module, base.trim_start_matches("MPI_").to_lowercase());
    format!("{path}::<{abi}{count}>({})", names.join(", "))
}

/// Names the arguments that are null, before anything else, so that the error about one of them can do so.
fn note_nulls(f: &Function, params: &[String], names: &[String], side: Side) -> String {
    let is_place = |(param, _): &(&String, &String)| {
        let (name, kind) = param.split_once(": ").expect("a name and a type");
        let pointer = ["In<", "Ptr<", "Text"].iter().any(|start| kind.starts_with(start));
        let list = kind == "Opaque" && name == "array_of_commands_";
        let place = kind == "BufMut" && ["attribute_val_", "baseptr_", "buffer_addr_"].contains(&name);
        // (The standard's MPI_STATUS_IGNORE is null.)
        let ignored = side == Side::Std && kind == "Ptr<Status>";
        let may_be_null = ignored || ["argc_", "array_of_errcodes_"].contains(&name);
        (pointer || list || place) && !may_be_null
    };
    let places: Vec<&String> = params.iter().zip(names).filter(is_place).map(|(_, name)| name).collect();
    if places.is_empty() || f.ret != "int" {
        return String::new();
    }
    let any: Vec<String> = places.iter().map(|name| format!("{name}.is_null()")).collect();
    let all: Vec<String> =
        places.iter().map(|name| format!("({:?}, {name}.is_null())", name.trim_end_matches('_'))).collect();
    format!(
        "if {} {{\n        capi::args::note_nulls({:?}, &[{}]);\n    }}\n    ",
        any.join(" | "),
        f.name,
        all.join(", ")
    )
}

/// A function that does not exist yet says so, through the handler of its communicator if it has one.
fn stub(f: &Function, names: &[String], abi: &str) -> String {
    let comm = f.params.iter().position(|p| p.starts_with("MPI_Comm ") && !p.contains('*'));
    let comm = comm.map_or("None".into(), |i| format!("Some({})", names[i]));
    let unused: String = names.iter().map(|n| format!("let _ = {n}; ")).collect();
    if f.name.starts_with("MPI_File_") {
        return format!("{unused}capi::errors::unsupported_file::<{abi}>({:?})", f.name);
    }
    format!("{unused}capi::errors::unsupported::<{abi}>({:?}, {comm})", f.name)
}

/// A C parameter as Rust `name: type`, and its name.
fn rust_param(decl: &str, side: Side) -> (String, String) {
    if decl == "..." {
        return ("rest_: Opaque".into(), "rest_".into());
    }
    let mut decl = decl.to_string();
    let mut stars = 0;
    while let (Some(open), Some(close)) = (decl.rfind('['), decl.rfind(']')) {
        // Only the first dimension decays to a pointer; `int ranges[][3]` is still a pointer to ints for us.
        stars = 1;
        decl.replace_range(open..=close, "");
    }
    let split = decl.rfind(|c: char| !c.is_alphanumeric() && c != '_').expect("a type before the name");
    let name = format!("{}_", &decl[split + 1..]);
    let ctype = format!("{}{}", decl[..=split].trim(), "*".repeat(stars));
    (format!("{name}: {}", rust_type(&ctype, side)), name)
}

/// The type of an argument: values as they are, pointers in the wrappers of `capi::args`.
fn rust_type(ctype: &str, side: Side) -> String {
    let is_const = ctype.starts_with("const ");
    let base = ctype.trim_start_matches("const ").replace('*', "");
    let base = base.trim();
    let stars = ctype.matches('*').count();
    if base.ends_with("_function") || base.ends_with("_function_c") {
        return "Opaque".into();
    }
    match (base, stars, is_const) {
        ("void", 1, true) => "Buf".into(),
        ("void", 1, false) => "BufMut".into(),
        ("char", 1, true) => "Text".into(),
        ("char", 1, false) => "TextOut".into(),
        (_, 0, _) => rust_base(base, side).into(),
        ("void" | "char", _, _) | (_, 2.., _) => "Opaque".into(),
        (_, 1, true) => format!("In<{}>", rust_base(base, side)),
        (_, 1, false) => format!("Ptr<{}>", rust_base(base, side)),
    }
}

fn rust_base(base: &str, side: Side) -> &'static str {
    match base {
        "int" | "MPI_Fint" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        "double" => "f64",
        "MPI_Count" | "MPI_Aint" | "MPI_Offset" => "i64",
        "MPI_Status" | "MPI_F08_status" => "Status",
        "MPI_File" if side == Side::Mpich => "usize",
        t if t.starts_with("MPI_T_") => "Opaque",
        t if t.starts_with("MPI_") => "Handle",
        other => panic!("no Rust type for {other}"),
    }
}

// ---- C headers -------------------------------------------------------------------------------------------

/// The whole `mpi.h` of one side.
pub fn c_header(side: Side) -> String {
    let (types, what) = match side {
        Side::Mpich => (TYPES_MPICH, "the MPICH ABI (libmpi.so.12)"),
        Side::Std => (TYPES_STD, "the MPI 5 standard ABI (libmpi_abi.so.1)"),
    };
    let mut out = format!("/* Banyan: MPI with {what}. Written from a table; do not edit. */\n");
    out += "#ifndef MPI_INCLUDED\n#define MPI_INCLUDED\n\n#define BANYAN 1\n\n";
    writeln!(out, "{types}\n#if defined(__cplusplus)\nextern \"C\" {{\n#endif\n\n{CALLBACKS}").unwrap();
    if side == Side::Mpich {
        out += "extern MPI_T_pvar_handle const MPI_T_PVAR_ALL_HANDLES;\n";
        out += "int MPIR_Dup_fn(MPI_Comm comm, int keyval, void *extra_state, void *attribute_val_in, \
                void *attribute_val_out, int *flag);\n\n";
    }
    for c in constants() {
        let Some(value) = c.value(side) else { continue };
        writeln!(out, "#define {:30} {}", c.name, c_value(&c.ctype, value)).unwrap();
    }
    for prefix in ["", "P"] {
        out += "\n";
        for f in functions().iter().filter(|f| f.exists_on(side)) {
            out += &f.prototype(prefix);
            out += "\n";
        }
    }
    out += "\n#if defined(__cplusplus)\n}\n#endif\n\n#endif /* MPI_INCLUDED */\n";
    out
}

fn c_value(ctype: &str, value: &str) -> String {
    match ctype {
        "int" if value.starts_with('-') => format!("({value})"),
        "int" => value.to_string(),
        pointer if pointer.contains('*') => format!("(({}){value})", pointer.replacen('*', " *", 1)),
        handle => format!("(({handle}){value})"),
    }
}
