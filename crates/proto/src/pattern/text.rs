//! A pattern as text: one fact per line, for people and for files. `;` ends a line too, so that it fits a variable.
use super::shape::{Beyond, Branch, DIMS_MAX, Dims, Ends, Grid, Near, Order, RANKS_MAX, Shape, Step};
use super::{Generator, Last, Pattern, Score};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Write};
use core::str::{FromStr, SplitWhitespace};

/// What the first line says: the format, and its version.
const HEAD: &str = "banyan pattern 1";
/// Longest text that is written.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Longest text that is read: somebody may have written comments.
pub const FILE_BYTES_MAX: usize = 64 << 10;
/// Longest name of a program.
const PROGRAM_BYTES_MAX: usize = 255;
/// Most generators of a pattern.
pub(super) const GENERATORS_MAX: usize = 16;
/// Most pairs that no rule explains.
pub(super) const PAIRS_MAX: usize = 256;
/// Pairs on a line.
const PAIRS_PER_LINE: usize = 16;
/// So much of a word is quoted in an error.
const QUOTE_LETTERS_MAX: usize = 40;

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is too long.
    #[error("it is longer than {FILE_BYTES_MAX} bytes")]
    TooLong,
    /// It ends before it says how many ranks there were.
    #[error("it does not say how many ranks were recorded ('ranks N')")]
    NoRanks,
    /// A line is not understood.
    #[error("line {line}: {what}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: LineError,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is the first, and says something else.
    #[error("'{0}' is not '{HEAD}'")]
    Head(String),
    /// It begins with a word that means nothing.
    #[error("'{0}' is nothing that a pattern has")]
    Unknown(String),
    /// A word is missing.
    #[error("it ends where {0} should be")]
    Missing(&'static str),
    /// A word is wrong.
    #[error("'{word}' is not {wanted}")]
    Wrong {
        /// The word.
        word: String,
        /// What should be there.
        wanted: &'static str,
    },
    /// There is more than there should be.
    #[error("'{0}' is too much")]
    Surplus(String),
    /// There are too many lines like this.
    #[error("there are more than {0} of them")]
    TooMany(usize),
}

impl Pattern {
    /// The text. Of what was learned it is at most [`TEXT_BYTES_MAX`] long.
    pub fn emit(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    /// Leaves out pairs, the latest first, until the text is short enough.
    pub(super) fn fit_text(&mut self) {
        while self.emit().len() > TEXT_BYTES_MAX {
            let pairs = self.generators.iter_mut().find_map(|generator| match &mut generator.shape {
                Shape::Pairs(pairs) if !pairs.is_empty() => Some(pairs),
                _ => None,
            });
            match pairs {
                Some(pairs) => pairs.truncate(pairs.len().saturating_sub(PAIRS_PER_LINE)),
                None => return,
            }
        }
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "{HEAD}\nprogram {}\nranks {}", self.program, self.ranks)?;
        writeln!(text, "degree {}.{:02}", self.degree_percent / 100, self.degree_percent % 100)?;
        if let Some(Last { predicted, used }) = self.last {
            writeln!(text, "last predicted {predicted} used {used}")?;
        }
        for generator in &self.generators {
            let Generator { shape, after_ms, score: Score { hits, misses } } = generator;
            let tail = TailText { after_ms: *after_ms, hits: *hits, misses: *misses };
            match shape {
                Shape::Pairs(pairs) => {
                    for pairs in pairs.chunks(PAIRS_PER_LINE) {
                        writeln!(text, "pairs{}{tail}", PairsText(pairs))?;
                    }
                }
                shape => writeln!(text, "{shape}{tail}")?,
            }
        }
        Ok(())
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Pattern, ParseError> {
        if text.len() > FILE_BYTES_MAX {
            return Err(ParseError::TooLong);
        }
        let mut pattern = Pattern::default();
        let mut lines = Lines { is_headed: false, pairs: 0 };
        // (In the environment of ranks all of it is one line.)
        let is_comment = |line: &str| line.trim_start().starts_with('#');
        for (at, line) in text.split('\n').enumerate().filter(|(_, line)| !is_comment(line)) {
            for part in line.split(';') {
                let parsed = lines.take(part.trim(), &mut pattern);
                parsed.map_err(|what| ParseError::Line { line: at + 1, what })?;
            }
        }
        if pattern.ranks == 0 {
            return Err(ParseError::NoRanks);
        }
        Ok(pattern)
    }

    /// Does a text begin as patterns do, of whatever version, be the rest as it may?
    pub fn is_headed(text: &str) -> bool {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (words, _) = HEAD.rsplit_once(' ').unwrap_or((HEAD, ""));
        lines.into_iter().next().is_none_or(|line| line.starts_with(words))
    }

    /// The same in one line.
    pub fn emit_line(&self) -> String {
        self.emit().trim_end().replace('\n', ";")
    }
}

/// The name of a program as it can stand in a pattern.
pub(super) fn program_name(name: &str) -> String {
    let plain = |letter: char| if letter.is_control() || letter == ';' { '?' } else { letter };
    let mut name: String = name.trim().chars().map(plain).collect();
    while name.len() > PROGRAM_BYTES_MAX {
        name.pop();
    }
    name
}

/// What has been read.
struct Lines {
    is_headed: bool,
    pairs: usize,
}

impl Lines {
    fn take(&mut self, line: &str, pattern: &mut Pattern) -> Result<(), LineError> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if !self.is_headed {
            self.is_headed = true;
            return if line == HEAD { Ok(()) } else { Err(LineError::Head(quote(line))) };
        }
        if let Some(name) = line.strip_prefix("program") {
            pattern.program = program_name(name);
            return Ok(());
        }
        let mut words = Words(line.split_whitespace());
        match words.0.next().unwrap_or_default() {
            "ranks" => pattern.ranks = words.number("a number of ranks", 1, RANKS_MAX)?,
            "degree" => pattern.degree_percent = words.percent()?,
            "last" => {
                words.literal("predicted")?;
                let predicted = words.any("a number")?;
                words.literal("used")?;
                pattern.last = Some(Last { predicted, used: words.any("a number")? });
            }
            "pairs" => return self.pairs(&mut words, pattern),
            word => return self.generator(word, &mut words, pattern),
        }
        words.end()
    }

    fn generator(
        &mut self,
        word: &str,
        words: &mut Words<'_>,
        pattern: &mut Pattern,
    ) -> Result<(), LineError> {
        let shape = match word {
            "grid" => Shape::Grid(words.grid()?),
            "stride" => Shape::Stride { step: words.step()?, ends: words.ends()? },
            "powers" => Shape::Powers(words.ends()?),
            "xor" => Shape::Xor(words.number("a mask", 1, RANKS_MAX)?),
            "doubling" => Shape::Doubling(words.one_of(&BEYONDS, "beside, behind or among")?),
            "tree" => {
                let by_radix = words.one_of(&[("radix", true), ("arity", false)], "radix or arity")?;
                let number = words.number("a number from 2 on", 2, RANKS_MAX)?;
                let branch = if by_radix { Branch::Radix(number) } else { Branch::Arity(number) };
                words.literal("root")?;
                Shape::Tree { branch, root: words.rank()? }
            }
            "star" => {
                words.literal("root")?;
                Shape::Star { root: words.rank()? }
            }
            "all" => Shape::All,
            other => return Err(LineError::Unknown(quote(other))),
        };
        let (after_ms, score) = words.tail()?;
        words.end()?;
        if pattern.generators.len() == GENERATORS_MAX {
            return Err(LineError::TooMany(GENERATORS_MAX));
        }
        pattern.generators.push(Generator { shape, after_ms, score });
        Ok(())
    }

    /// Pairs may take several lines, which are one generator.
    fn pairs(&mut self, words: &mut Words<'_>, pattern: &mut Pattern) -> Result<(), LineError> {
        let mut found = Vec::new();
        let mut rest = words.0.clone();
        while let Some(word) = rest.next().filter(|word| *word != "after") {
            words.0.next();
            found.push(pair(word)?);
        }
        self.pairs += found.len();
        if self.pairs > PAIRS_MAX {
            return Err(LineError::TooMany(PAIRS_MAX));
        }
        let (after_ms, score) = words.tail()?;
        words.end()?;
        let is_full = pattern.generators.len() == GENERATORS_MAX;
        let known = pattern.generators.iter_mut().find_map(|generator| match &mut generator.shape {
            Shape::Pairs(pairs) => Some(pairs),
            _ => None,
        });
        match known {
            Some(pairs) => pairs.extend(found),
            None if is_full => return Err(LineError::TooMany(GENERATORS_MAX)),
            None => pattern.generators.push(Generator { shape: Shape::Pairs(found), after_ms, score }),
        }
        Ok(())
    }
}

fn pair(word: &str) -> Result<(u32, u32), LineError> {
    let ranks = word.split_once('-').and_then(|(low, high)| Some((rank(low)?, rank(high)?)));
    ranks.filter(|(low, high)| low < high).ok_or_else(|| wrong(word, "two ranks such as 3-17"))
}

fn rank(word: &str) -> Option<u32> {
    word.parse().ok().filter(|rank| *rank < RANKS_MAX)
}

fn quote(word: &str) -> String {
    word.chars().take(QUOTE_LETTERS_MAX).collect()
}

fn wrong(word: &str, wanted: &'static str) -> LineError {
    LineError::Wrong { word: quote(word), wanted }
}

const ORDERS: [(&str, Order); 2] = [("rows", Order::Rows), ("columns", Order::Columns)];
const NEARS: [(&str, Near); 2] = [("faces", Near::Faces), ("corners", Near::Corners)];
const ENDS: [(&str, Ends); 2] = [("open", Ends::Open), ("wrap", Ends::Wrap)];
const BEYONDS: [(&str, Beyond); 3] =
    [("beside", Beyond::Beside), ("behind", Beyond::Behind), ("among", Beyond::Among)];

/// The word for a value of a table.
fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| *word)
}

/// The words of a line that have not been read.
struct Words<'t>(SplitWhitespace<'t>);

impl<'t> Words<'t> {
    fn next(&mut self, wanted: &'static str) -> Result<&'t str, LineError> {
        self.0.next().ok_or(LineError::Missing(wanted))
    }

    fn end(&mut self) -> Result<(), LineError> {
        self.0.next().map_or(Ok(()), |word| Err(LineError::Surplus(quote(word))))
    }

    fn literal(&mut self, wanted: &'static str) -> Result<(), LineError> {
        let word = self.next(wanted)?;
        if word == wanted { Ok(()) } else { Err(wrong(word, wanted)) }
    }

    fn any<T: FromStr>(&mut self, wanted: &'static str) -> Result<T, LineError> {
        let word = self.next(wanted)?;
        word.parse().map_err(|_| wrong(word, wanted))
    }

    fn number(&mut self, wanted: &'static str, least: u32, most: u32) -> Result<u32, LineError> {
        let word = self.next(wanted)?;
        let number = word.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| wrong(word, wanted))
    }

    fn rank(&mut self) -> Result<u32, LineError> {
        self.number("a rank", 0, RANKS_MAX - 1)
    }

    fn one_of<T: Clone>(&mut self, words: &[(&str, T)], wanted: &'static str) -> Result<T, LineError> {
        let word = self.next(wanted)?;
        let found = words.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| value.clone()).ok_or_else(|| wrong(word, wanted))
    }

    fn ends(&mut self) -> Result<Ends, LineError> {
        self.one_of(&ENDS, "open or wrap")
    }

    /// `3.50`
    fn percent(&mut self) -> Result<u32, LineError> {
        let word = self.next("a number")?;
        let (whole, part) = word.split_once('.').unwrap_or((word, "0"));
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|number| *number <= RANKS_MAX);
        let (whole, part) = (number(whole), number(part).filter(|part| *part < 100));
        let value = whole.zip(part).map(|(whole, part)| whole * 100 + part);
        value.ok_or_else(|| wrong(word, "a number such as 3.50"))
    }

    fn step(&mut self) -> Result<Step, LineError> {
        let wanted = "a number of ranks, or a part of them such as n/2";
        let word = self.next(wanted)?;
        let number = |digits: &str| rank(digits).filter(|number| *number > 0);
        let step = match word.strip_prefix("n/") {
            Some(part) => number(part).map(Step::Part),
            None => number(word).map(Step::Ranks),
        };
        step.ok_or_else(|| wrong(word, wanted))
    }

    fn grid(&mut self) -> Result<Grid, LineError> {
        let wanted = "created:2 (to 4), or extents such as 4x16";
        let word = self.next(wanted)?;
        let dims = match word.strip_prefix("created:") {
            Some(count) => {
                let count = count.parse().ok().filter(|count| (2..=DIMS_MAX).contains(count));
                count.map(Dims::Created)
            }
            None => extents(word),
        };
        let dims = dims.ok_or_else(|| wrong(word, wanted))?;
        let order = self.one_of(&ORDERS, "rows or columns")?;
        let near = self.one_of(&NEARS, "faces or corners")?;
        let ends = self.next("open or wrap")?;
        let read = |word: &str| ENDS.iter().find(|(known, _)| *known == word).map(|(_, ends)| *ends);
        let all: Option<Vec<Ends>> = ends.split(',').map(read).collect();
        let ends = all.and_then(|all| match all[..] {
            [one] => Some([one; DIMS_MAX]),
            ref some if some.len() == dims.count() => {
                let mut ends = [Ends::Open; DIMS_MAX];
                ends[..some.len()].copy_from_slice(some);
                Some(ends)
            }
            _ => None,
        });
        let ends = ends.ok_or_else(|| wrong(word, "open or wrap, for all dimensions or for each"))?;
        Ok(Grid { dims, order, near, ends })
    }

    /// What stands behind every shape.
    fn tail(&mut self) -> Result<(u32, Score), LineError> {
        self.literal("after")?;
        let after_ms = self.any("a number of milliseconds")?;
        self.literal("hits")?;
        let hits = self.any("a number")?;
        self.literal("misses")?;
        Ok((after_ms, Score { hits, misses: self.any("a number")? }))
    }
}

fn extents(word: &str) -> Option<Dims> {
    let mut dims = [1; DIMS_MAX];
    let mut count = 0;
    for digits in word.split('x') {
        *dims.get_mut(count)? = rank(digits).filter(|extent| *extent > 0)?;
        count += 1;
    }
    (count > 1).then_some(Dims::Fixed(dims, count))
}

struct TailText {
    after_ms: u32,
    hits: u64,
    misses: u64,
}

impl Display for TailText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " after {} hits {} misses {}", self.after_ms, self.hits, self.misses)
    }
}

struct PairsText<'p>(&'p [(u32, u32)]);

impl Display for PairsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(low, high)| write!(f, " {low}-{high}"))
    }
}

impl Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Grid(grid) => {
                let (order, near) = (word_of(&ORDERS, &grid.order), word_of(&NEARS, &grid.near));
                write!(f, "grid {} {order} {near} {}", DimsText(grid.dims), EndsText(grid))
            }
            Shape::Stride { step: Step::Ranks(ranks), ends } => {
                write!(f, "stride {ranks} {}", word_of(&ENDS, ends))
            }
            Shape::Stride { step: Step::Part(part), ends } => {
                write!(f, "stride n/{part} {}", word_of(&ENDS, ends))
            }
            Shape::Powers(ends) => write!(f, "powers {}", word_of(&ENDS, ends)),
            Shape::Xor(mask) => write!(f, "xor {mask}"),
            Shape::Doubling(beyond) => write!(f, "doubling {}", word_of(&BEYONDS, beyond)),
            Shape::Tree { branch: Branch::Radix(radix), root } => write!(f, "tree radix {radix} root {root}"),
            Shape::Tree { branch: Branch::Arity(arity), root } => write!(f, "tree arity {arity} root {root}"),
            Shape::Star { root } => write!(f, "star root {root}"),
            Shape::All => f.write_str("all"),
            Shape::Pairs(pairs) => write!(f, "pairs{}", PairsText(pairs)),
        }
    }
}

struct DimsText(Dims);

impl Display for DimsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Dims::Created(count) => write!(f, "created:{count}"),
            Dims::Fixed(dims, count) => {
                let extents: Vec<String> = dims[..count].iter().map(ToString::to_string).collect();
                f.write_str(&extents.join("x"))
            }
        }
    }
}

struct EndsText<'g>(&'g Grid);

impl Display for EndsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = &self.0.ends[..self.0.dims.count()];
        if ends.iter().all(|end| *end == ends[0]) {
            return f.write_str(word_of(&ENDS, &ends[0]));
        }
        let words: Vec<String> = ends.iter().map(|end| word_of(&ENDS, end).to_owned()).collect();
        f.write_str(&words.join(","))
    }
}
