//! Files with programs, one per line, as `--configfile` reads them. Pure.
use std::ffi::OsString;

/// Longest file that is read.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;

/// The words of all lines, with `:` between lines. The error is the number of a line with an open quote.
pub(super) fn sections(text: &str) -> Result<Vec<OsString>, usize> {
    let mut all: Vec<OsString> = Vec::new();
    for (number, line) in (1_usize..).zip(text.lines()) {
        let words = split(line).ok_or(number)?;
        if words.is_empty() {
            continue;
        }
        if !all.is_empty() {
            all.push(":".into());
        }
        all.extend(words.into_iter().map(OsString::from));
    }
    Ok(all)
}

/// Words as a shell splits them, with quotes and backslashes but nothing else. `None`: a quote is not closed.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '#' if word.is_none() => break,
            '\'' | '"' => quoted(letter, &mut letters, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(letters.next()?),
            letter if letter.is_whitespace() => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Some(words)
}

fn quoted(quote: char, letters: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match letters.next()? {
            letter if letter == quote => return Some(()),
            '\\' if quote == '"' => word.push(letters.next()?),
            letter => word.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_section() {
        let text = "# head\n-n 2 ./a x  # tail\n\n  -n 1 b 'two words' \"q\\\"q\" c\\ d e#f ''\n";
        let words = ["-n", "2", "./a", "x", ":", "-n", "1", "b", "two words", "q\"q", "c d", "e#f", ""];
        assert_eq!(sections(text).unwrap(), words);
        assert!(sections("# nothing\n").unwrap().is_empty());
    }

    #[test]
    fn an_open_quote_is_found() {
        assert_eq!(sections("a\nb 'c\n"), Err(2));
        assert_eq!(sections("a \\"), Err(1));
    }
}
