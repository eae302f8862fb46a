//! The structures and constants of this crate against those of the system's header, where that is installed.
use banyan_verbs::ffi;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// A folder with `infiniband/verbs.h`: the compiler's own, or a named one.
const NAMED_BY: &str = "BANYAN_TEST_VERBS_INCLUDE";

fn compile(source: &Path, program: &Path) -> Option<bool> {
    let mut command = Command::new("cc");
    command.arg("-w").arg(source).arg("-o").arg(program);
    if let Some(folder) = std::env::var_os(NAMED_BY) {
        command.arg("-I").arg(folder);
    }
    Some(command.output().ok()?.status.success())
}

#[test]
fn structures_and_constants_are_those_of_the_header() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (source, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    let head = "#include <infiniband/verbs.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n";
    std::fs::write(&source, format!("{head}return 0; }}\n")).expect("a source file");
    if compile(&source, &program) != Some(true) {
        assert!(std::env::var_os(NAMED_BY).is_none(), "{NAMED_BY} names no folder with infiniband/verbs.h");
        eprintln!("skipped: no infiniband/verbs.h (libibverbs-dev), or no C compiler");
        return;
    }
    let (mut text, mut wanted) = (head.to_string(), String::new());
    for (name, size, fields) in ffi::LAYOUTS {
        writeln!(text, "printf(\"{name} %zu\\n\", sizeof(struct {name}));").unwrap();
        writeln!(wanted, "{name} {size}").unwrap();
        for (field, at) in *fields {
            writeln!(text, "printf(\"{name}.{field} %zu\\n\", offsetof(struct {name}, {field}));").unwrap();
            writeln!(wanted, "{name}.{field} {at}").unwrap();
        }
    }
    for (name, back) in ffi::EXTENDED {
        let at = format!("offsetof(struct verbs_context, context) - offsetof(struct verbs_context, {name})");
        writeln!(text, "printf(\"verbs_context.{name} %zu\\n\", {at});").unwrap();
        writeln!(wanted, "verbs_context.{name} {back}").unwrap();
    }
    writeln!(text, "printf(\"srqn %zu\\n\", offsetof(struct ibv_send_wr, qp_type));").unwrap();
    writeln!(wanted, "srqn {}", std::mem::offset_of!(ffi::ibv_send_wr, remote_srqn)).unwrap();
    for (name, value) in ffi::CONSTANTS {
        writeln!(text, "printf(\"{name} %u\\n\", (unsigned){name});").unwrap();
        writeln!(wanted, "{name} {value}").unwrap();
    }
    std::fs::write(&source, text + "return 0; }\n").expect("a source file");
    assert_eq!(compile(&source, &program), Some(true), "the comparison does not compile");
    let output = Command::new(&program).output().expect("the comparison runs");
    let seen = String::from_utf8_lossy(&output.stdout);
    for (seen, wanted) in seen.lines().zip(wanted.lines()) {
        assert_eq!(seen, wanted);
    }
    assert_eq!(seen.lines().count(), wanted.lines().count());
}
