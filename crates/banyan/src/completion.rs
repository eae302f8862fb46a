//! `banyan completion SHELL`: what a shell has to know to complete command lines, from the tables of commands and options.
use crate::commands::{COMMANDS, is_help};
use launch::{Entry, OPTION_SECTIONS, Takes};

const HELP: &str = "\
usage: banyan completion bash|zsh|fish

Prints a script for that shell, which completes the command lines of banyan, mpiexec and mpirun:
  bash   eval \"$(banyan completion bash)\"        in ~/.bashrc
  zsh    eval \"$(banyan completion zsh)\"         in ~/.zshrc, behind compinit
  fish   banyan completion fish | source         in ~/.config/fish/config.fish
./install puts the scripts where these shells look for them.
";

pub fn main(args: &[String]) -> i32 {
    if is_help(args, HELP) {
        return 0;
    }
    let text = match args {
        [shell] if shell == "bash" => bash(),
        [shell] if shell == "zsh" => zsh(),
        [shell] if shell == "fish" => fish(),
        [other] => return crate::usage_error(&format!("completion: '{other}' is not bash, zsh or fish")),
        _ => return crate::usage_error("completion needs the name of a shell: bash, zsh or fish"),
    };
    sys::out::print(&text);
    0
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    OPTION_SECTIONS.iter().flat_map(|section| section.entries)
}

/// Both ways to write a long option, if it may be written with two dashes.
fn spellings(entry: &'static Entry) -> Vec<String> {
    entry.all_names().map(String::from).collect()
}

/// `-n|-np`, of entries that take something of a kind.
fn patterns(of_kind: impl Fn(Takes) -> bool) -> String {
    let names = entries().filter(|entry| of_kind(entry.takes)).flat_map(|entry| entry.all_names());
    let both = names.flat_map(|name| {
        let bare = name.trim_start_matches('-');
        [format!("-{bare}"), format!("--{bare}")]
    });
    both.collect::<Vec<_>>().join("|")
}

fn all_names() -> String {
    entries().flat_map(spellings).collect::<Vec<_>>().join(" ")
}

fn commands() -> String {
    COMMANDS.iter().map(|command| command.name).collect::<Vec<_>>().join(" ")
}

/// The words that follow an option, by its spelling.
fn word_cases(line: impl Fn(&str, &str) -> String) -> String {
    let mut cases = String::new();
    for entry in entries() {
        if let Takes::Word(words) = entry.takes {
            let names = entry.all_names().map(|name| {
                let bare = name.trim_start_matches('-');
                format!("-{bare}|--{bare}")
            });
            cases += &line(&names.collect::<Vec<_>>().join("|"), &words.join(" "));
        }
    }
    cases
}

fn maybe_names() -> String {
    let of = |entry: &'static Entry| match entry.takes {
        Takes::Maybe(words) => words.iter().map(|word| format!("{}={word}", entry.names[0])).collect(),
        _ => Vec::new(),
    };
    entries().flat_map(of).collect::<Vec<_>>().join(" ")
}

fn takes_a_word(takes: Takes) -> bool {
    !matches!(takes, Takes::Nothing | Takes::Maybe(_))
}

fn bash() -> String {
    let cases = word_cases(|names, words| {
        format!("        {names}) COMPREPLY=($(compgen -W '{words}' -- \"$cur\")); return ;;\n")
    });
    let of_commands: String = COMMANDS
        .iter()
        .filter(|command| !command.words.is_empty())
        .map(|command| {
            let words = command.words.join(" ");
            let words =
                if command.name == "bench" { format!("{} {words}", crate::bench::names()) } else { words };
            let words = words.replace(',', "");
            format!("        {}) COMPREPLY=($(compgen -W '{words}' -- \"$cur\")) ;;\n", command.name)
        })
        .collect();
    format!(
        "# bash completion of banyan, mpiexec and mpirun\n\
         _banyan_run() {{\n\
         \x20   local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} at=$1 word\n\
         \x20   # Behind the program everything is the program's own.\n\
         \x20   while [ \"$at\" -lt \"$COMP_CWORD\" ]; do\n\
         \x20       word=${{COMP_WORDS[at]}}\n\
         \x20       case $word in\n\
         \x20           {with_value}) at=$((at + 2)) ;;\n\
         \x20           {with_pair}) at=$((at + 3)) ;;\n\
         \x20           -*|=) at=$((at + 1)) ;;\n\
         \x20           *) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n\
         \x20       esac\n\
         \x20   done\n\
         \x20   case $prev in\n\
         {cases}\
         \x20       {files}) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n\
         \x20       {folders}) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n\
         \x20       {values}) return ;;\n\
         \x20   esac\n\
         \x20   case $cur in\n\
         \x20       -*) COMPREPLY=($(compgen -W '{names} {maybe}' -- \"$cur\")) ;;\n\
         \x20       *) COMPREPLY=($(compgen -c -f -- \"$cur\")) ;;\n\
         \x20   esac\n\
         }}\n\
         _mpiexec() {{ COMPREPLY=(); _banyan_run 1; }}\n\
         _banyan() {{\n\
         \x20   local cur=${{COMP_WORDS[COMP_CWORD]}}\n\
         \x20   COMPREPLY=()\n\
         \x20   if [ \"$COMP_CWORD\" -eq 1 ]; then\n\
         \x20       COMPREPLY=($(compgen -W '{commands} help' -- \"$cur\"))\n\
         \x20       return\n\
         \x20   fi\n\
         \x20   case ${{COMP_WORDS[1]}} in\n\
         \x20       run) _banyan_run 2 ;;\n\
         {of_commands}\
         \x20   esac\n\
         \x20   [ \"${{COMP_WORDS[1]}}\" != check ] || [ \"${{cur#-}}\" != \"$cur\" ] || COMPREPLY=($(compgen -c -f -- \"$cur\"))\n\
         }}\n\
         complete -o filenames -F _banyan banyan\n\
         complete -o filenames -F _mpiexec mpiexec mpirun\n",
        with_value = patterns(|takes| takes_a_word(takes) && takes != Takes::Pair),
        with_pair = patterns(|takes| takes == Takes::Pair),
        files = patterns(|takes| takes == Takes::File),
        folders = patterns(|takes| takes == Takes::Folder),
        values = patterns(|takes| matches!(takes, Takes::Value | Takes::Pair)),
        names = all_names(),
        maybe = maybe_names(),
        commands = commands(),
    )
}

/// A text in single quotes of any of these shells.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The beginning of what an option does, as far as a list shows it.
fn short(text: &str) -> String {
    const LETTERS_MAX: usize = 70;
    let end = text.char_indices().nth(LETTERS_MAX).map_or(text.len(), |(at, _)| at);
    text[..end].replace(['\n', ':'], " ").trim_end().to_owned()
}

fn zsh() -> String {
    let cases = word_cases(|names, words| format!("        {names}) compadd -- {words}; return ;;\n"));
    let described: String = entries()
        .flat_map(|entry| {
            spellings(entry).into_iter().map(move |name| quoted(&format!("{name}:{}", short(entry.text))))
        })
        .map(|line| format!("        {line}\n"))
        .collect();
    let of_commands: String = COMMANDS
        .iter()
        .map(|command| {
            format!("            {}\n", quoted(&format!("{}:{}", command.name, short(command.text))))
        })
        .collect();
    let words_of: String = COMMANDS
        .iter()
        .filter(|command| !command.words.is_empty())
        .map(|command| {
            let benches =
                if command.name == "bench" { crate::bench::names().replace(',', "") } else { String::new() };
            format!("        {}) compadd -- {} {benches} ;;\n", command.name, command.words.join(" "))
        })
        .collect();
    format!(
        "#compdef banyan mpiexec mpirun\n\
         # zsh completion of banyan, mpiexec and mpirun\n\
         _banyan_run() {{\n\
         \x20   local at=$1 word prev=${{words[CURRENT-1]}}\n\
         \x20   while (( at < CURRENT )); do\n\
         \x20       word=${{words[at]}}\n\
         \x20       case $word in\n\
         \x20           {with_value}) (( at += 2 )) ;;\n\
         \x20           {with_pair}) (( at += 3 )) ;;\n\
         \x20           -*) (( at += 1 )) ;;\n\
         \x20           *) _files; return ;;\n\
         \x20       esac\n\
         \x20   done\n\
         \x20   case $prev in\n\
         {cases}\
         \x20       {files}) _files; return ;;\n\
         \x20       {folders}) _files -/; return ;;\n\
         \x20       {values}) return ;;\n\
         \x20   esac\n\
         \x20   local -a options\n\
         \x20   options=(\n\
         {described}\
         \x20   )\n\
         \x20   if [[ ${{words[CURRENT]}} == -* ]]; then\n\
         \x20       _describe -o option options\n\
         \x20   else\n\
         \x20       _command_names -e; _files\n\
         \x20   fi\n\
         }}\n\
         _banyan() {{\n\
         \x20   if [[ ${{words[1]:t}} != banyan ]]; then _banyan_run 2; return; fi\n\
         \x20   if (( CURRENT == 2 )); then\n\
         \x20       local -a commands\n\
         \x20       commands=(\n\
         {of_commands}\
         \x20       )\n\
         \x20       _describe command commands\n\
         \x20       return\n\
         \x20   fi\n\
         \x20   case ${{words[2]}} in\n\
         \x20       run) _banyan_run 3 ;;\n\
         {words_of}\
         \x20   esac\n\
         \x20   [[ ${{words[2]}} == check ]] && {{ _command_names -e; _files }}\n\
         \x20   return 0\n\
         }}\n\
         if [[ $funcstack[1] == _banyan ]]; then _banyan \"$@\"; else compdef _banyan banyan mpiexec mpirun; fi\n",
        with_value = patterns(|takes| takes_a_word(takes) && takes != Takes::Pair),
        with_pair = patterns(|takes| takes == Takes::Pair),
        files = patterns(|takes| takes == Takes::File),
        folders = patterns(|takes| takes == Takes::Folder),
        values = patterns(|takes| matches!(takes, Takes::Value | Takes::Pair)),
    )
}

fn fish() -> String {
    let mut text = String::from("# fish completion of banyan, mpiexec and mpirun\n");
    for command in &COMMANDS {
        text += &format!(
            "complete -c banyan -n __fish_use_subcommand -f -a {} -d {}\n",
            command.name,
            quoted(&short(command.text))
        );
        for word in command.words {
            text += &format!(
                "complete -c banyan -n '__fish_seen_subcommand_from {}' -a '{word}'\n",
                command.name
            );
        }
    }
    text += &format!(
        "complete -c banyan -n '__fish_seen_subcommand_from bench' -f -a '{}'\n",
        crate::bench::names().replace(',', "")
    );
    for (to, condition) in
        [("banyan", " -n '__fish_seen_subcommand_from run'"), ("mpiexec", ""), ("mpirun", "")]
    {
        for entry in entries() {
            for name in entry.all_names() {
                text += &format!("complete -c {to}{condition} {}{}\n", fish_name(name), fish_value(entry));
            }
        }
    }
    text
}

/// One letter, a long name behind one dash, or behind two.
fn fish_name(name: &str) -> String {
    match name.strip_prefix("--") {
        Some(long) => format!("-l {long}"),
        None if name.len() == 2 => format!("-s {}", &name[1..]),
        None => format!("-o {}", &name[1..]),
    }
}

fn fish_value(entry: &Entry) -> String {
    let value = match entry.takes {
        Takes::Nothing => String::new(),
        Takes::Maybe(words) => format!(" -a '{}'", words.join(" ")),
        Takes::Word(words) => format!(" -x -a '{}'", words.join(" ")),
        Takes::File => " -r".into(),
        Takes::Folder => " -x -a '(__fish_complete_directories)'".into(),
        Takes::Value | Takes::Pair => " -x".into(),
    };
    format!("{value} -d {}", quoted(&short(entry.text)))
}
