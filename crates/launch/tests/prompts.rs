//! What is shown of a line before it ends.
mod common;

use common::{PATIENCE, assert_nothing_left, launcher};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

/// A job whose output is seen while it runs.
struct Dialogue {
    child: Child,
    stdin: ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: Vec<u8>,
    mark: String,
}

impl Dialogue {
    fn start(options: &[&str], script: &str) -> Self {
        let mut args = options.to_vec();
        args.extend(["bash", "-c", script]);
        let (mut command, mark) = launcher(&args);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let (stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 256];
            while let Ok(n @ 1..) = stdout.read(&mut bytes) {
                let _ = sender.send(bytes[..n].to_vec()); // a test that has failed does not listen
            }
        });
        Dialogue { child, stdin, output, seen: Vec::new(), mark }
    }

    /// What comes next is this.
    fn expect(&mut self, text: &str) {
        while self.seen.len() < text.len() {
            let seen = String::from_utf8_lossy(&self.seen);
            let more = self.output.recv_timeout(PATIENCE);
            self.seen.extend(more.unwrap_or_else(|why| panic!("only {seen:?} instead of {text:?}: {why}")));
        }
        let rest = self.seen.split_off(text.len());
        assert_eq!(String::from_utf8(std::mem::replace(&mut self.seen, rest)).unwrap(), text);
    }

    /// Nothing comes any more.
    fn expect_end(mut self) {
        assert_eq!(
            (self.output.recv_timeout(PATIENCE), self.seen),
            (Err(RecvTimeoutError::Disconnected), vec![])
        );
        assert!(self.child.wait().unwrap().success());
        assert_nothing_left(&self.mark);
    }
}

#[test]
fn a_prompt_is_shown_before_it_is_answered() {
    let script = r#"if [ $PMI_RANK = 0 ]; then echo -n "name? "; read name; echo "hello $name"; fi"#;
    let labelled = &["-n", "2", "-l"][..];
    for options in [&["-n", "1"][..], &["-n", "3", "--nodes", "3"], &["-n", "2", "-s", "all"], labelled] {
        let mut dialogue = Dialogue::start(options, script);
        dialogue.expect(if options == labelled { "[0] name? " } else { "name? " });
        dialogue.stdin.write_all(b"Ada\n").unwrap();
        dialogue.expect("hello Ada\n");
        dialogue.expect_end();
    }
}

#[test]
fn who_interrupts_an_unfinished_labelled_line_begins_a_new_one() {
    let script = r#"if [ $PMI_RANK = 0 ]; then echo -n "name? "; read; read name; echo "hello $name"
        else read; echo -n wait; fi"#;
    let mut dialogue = Dialogue::start(&["-n", "2", "--nodes", "2", "-l", "-s", "all"], script);
    dialogue.expect("[0] name? ");
    dialogue.stdin.write_all(b"\n").unwrap();
    dialogue.expect("\n[1] wait");
    dialogue.stdin.write_all(b"Ada\n").unwrap();
    dialogue.expect("\n[0] hello Ada\n");
    dialogue.expect_end();
}

#[test]
fn binary_output_of_one_rank_is_not_touched() {
    let script =
        r"if [ $PMI_RANK = 0 ]; then for i in {1..3}; do echo -ne '\0\n\r\x1b\n\n\0'; read; done; fi";
    let mut dialogue = Dialogue::start(&["-n", "2"], script);
    for _ in 0..3 {
        dialogue.expect("\0\n\r\x1b\n\n\0");
        dialogue.stdin.write_all(b"\n").unwrap();
    }
    dialogue.expect_end();
}
