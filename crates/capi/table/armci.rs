//! Reads the prototypes of `include/armci.h` and `message.h`, and writes what follows from them: the table of functions that a
//! library of MPI has, and the exports of `libarmci.so`, which call it.
#![allow(dead_code)] // each user of this module needs another half of it

use std::fmt::Write;

const HEADERS: [&str; 2] = [include_str!("../include/armci.h"), include_str!("../include/message.h")];

/// Two libraries that are not of one build must not meet in one process: what the table looks like, as a number.
pub fn fingerprint() -> u64 {
    let bytes = HEADERS.iter().flat_map(|header| header.bytes());
    // (FNV-1a.)
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A prototype.
pub struct Function {
    pub name: String,
    ret: String,
    /// Type and name.
    params: Vec<(String, String)>,
}

/// All functions but second names, in the order of the headers.
pub fn functions() -> Vec<Function> {
    let mut found = Vec::new();
    for header in HEADERS {
        let plain = without_comments(header);
        let behind_types = plain.rfind("#define").map_or(0, |at| plain[at..].find('\n').unwrap_or(0) + at);
        for statement in plain[behind_types..].split(';').filter(|statement| statement.contains('(')) {
            let statement: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
            let start = statement.rfind("{").map_or(0, |at| at + 1);
            found.push(parse(statement[start..].trim()));
        }
    }
    found.retain(|function| !function.name.starts_with("PARMCI_"));
    found
}

fn without_comments(text: &str) -> String {
    let mut plain = String::new();
    for (at, part) in text.split("/*").enumerate() {
        plain.push_str(if at == 0 { part } else { part.split_once("*/").expect("a comment ends").1 });
    }
    plain
}

fn parse(prototype: &str) -> Function {
    let (head, params) = prototype.split_once('(').expect("parameters");
    let (ret, name) = declared(head.trim());
    let params = params.trim_end_matches(')').split(',').map(str::trim).filter(|param| *param != "void");
    Function { name, ret, params: params.map(declared).collect() }
}

/// Type and name of `int *x` or `int x[]`.
fn declared(text: &str) -> (String, String) {
    let (text, array) = match text.strip_suffix("[]") {
        Some(text) => (text, "*"),
        None => (text, ""),
    };
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let start = text.rfind(|c| !word(c)).map_or(0, |at| at + 1);
    (format!("{}{array}", text[..start].replace(' ', "")), text[start..].to_string())
}

/// `ARMCI_NbPutS` is `nb_put_s` in Rust.
fn rust_name(name: &str) -> String {
    let name = name.strip_prefix("ARMCI_").or(name.strip_prefix("armci_")).expect("ARMCI's");
    if name.chars().all(|c| c.is_uppercase() || c == '_') {
        return name.to_lowercase();
    }
    let mut snake = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_uppercase() && at > 0 && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// A parameter or result as the translation takes it.
fn translated(ctype: &str, name: &str) -> &'static str {
    match (ctype, name) {
        (_, "x" | "buf" | "buffer") => "BufMut",
        ("void*", _) => "BufMut",
        ("void**", _) => "Ptr<usize>",
        ("int*" | "ARMCI_Group*", _) => "Ptr<c_int>",
        ("char***", _) => "Opaque",
        ("constchar*" | "char*", _) => "Text",
        ("armci_giov_t*", _) => "Ptr<Segment>",
        ("armci_hdl_t*", _) => "Ptr<Handle>",
        ("MPI_Comm", _) => "usize",
        _ => number(ctype),
    }
}

/// As the leaf passes it on.
fn passed(ctype: &str) -> &'static str {
    match ctype {
        "MPI_Comm" => "usize",
        pointer if pointer.ends_with('*') => "*mut c_void",
        _ => number(ctype),
    }
}

fn number(ctype: &str) -> &'static str {
    match ctype {
        "void" => "()",
        "int" | "armci_domain_t" => "c_int",
        "long" | "armci_size_t" => "c_long",
        "unsignedlong" => "c_ulong",
        "float" => "f32",
        "double" => "f64",
        other => panic!("the type '{other}' is not known"),
    }
}

fn list(function: &Function, of: impl Fn(&str, &str) -> &'static str, named: bool) -> String {
    let one = |(ctype, name): &(String, String)| match named {
        true => format!("{name}: {}", of(ctype, name)),
        false => of(ctype, name).to_string(),
    };
    function.params.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn returns(rust: &str) -> String {
    if rust == "()" { String::new() } else { format!(" -> {rust}") }
}

fn table(of: impl Fn(&str, &str) -> &'static str + Copy) -> String {
    let mut text = String::from("#[repr(C)]\npub struct Table {\n    pub fingerprint: u64,\n");
    for function in functions() {
        let (name, params) = (rust_name(&function.name), list(&function, of, false));
        writeln!(text, "    pub {name}: extern \"C\" fn({params}){},", returns(of(&function.ret, "")))
            .unwrap();
    }
    text + "}\n"
}

/// The table of a library of MPI, filled with the functions of `capi::armci`.
pub fn translation() -> String {
    let mut text = table(translated);
    text += "impl Table {\n    pub const fn of<A: Abi>() -> Table {\n        Table {\n";
    writeln!(text, "            fingerprint: {},", fingerprint()).unwrap();
    for function in functions() {
        let name = rust_name(&function.name);
        writeln!(text, "            {name}: {name}::<A>,").unwrap();
    }
    text + "        }\n    }\n}\n"
}

/// The exports of `libarmci.so`: each function by both of its names.
pub fn exports() -> String {
    let mut text = table(|ctype, _| passed(ctype));
    writeln!(text, "const FINGERPRINT: u64 = {};", fingerprint()).unwrap();
    for function in functions() {
        let mut names = vec![function.name.clone()];
        match function.name.strip_prefix("ARMCI_") {
            Some(rest) => names.push(format!("PARMCI_{rest}")),
            None => names.push(format!("p{}", function.name)),
        }
        let rust = rust_name(&function.name);
        let arguments: Vec<&str> = function.params.iter().map(|(_, name)| name.as_str()).collect();
        for name in names {
            writeln!(
                text,
                "#[unsafe(no_mangle)]\npub extern \"C\" fn {name}({}){} {{\n    (table().{rust})({})\n}}",
                list(&function, |ctype, _| passed(ctype), true),
                returns(passed(&function.ret)),
                arguments.join(", ")
            )
            .unwrap();
        }
    }
    text
}
