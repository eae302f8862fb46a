//! One ELF file: what it needs, where that is searched, and which symbols it imports and exports. Whatever is in the
//! file, reading it is bounded and ends in a value or an error.
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELOCATION_BYTES: usize = 24;
/// Relocations of functions that are looked for when they are called: of x86-64 and of aarch64.
const JUMP_SLOTS: [u32; 2] = [7, 1026];
const SEGMENTS_MAX: u16 = 256;
const SECTIONS_MAX: u16 = 4096;
/// Longest table that is read.
const TABLE_BYTES_MAX: u64 = 64 << 20;
const DYNAMIC_BYTES_MAX: u64 = 1 << 20;
/// The processors that this program is for (`EM_AARCH64`, `EM_X86_64`).
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// Longest first line of a script.
const SCRIPT_LINE_MAX: usize = 256;

/// Why a file cannot be read as a program.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The system's words.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It is no ELF file.
    #[error("it is neither a program nor a script")]
    NotElf,
    /// It is one, but for other processors than this one, or not for 64 bits in this order.
    #[error("it is a program for another kind of machine")]
    OtherMachine,
    /// What it says of itself does not fit.
    #[error("its {0} is damaged")]
    Damaged(&'static str),
}

/// An ELF file of 64 bits.
#[derive(Debug, Default)]
pub struct Elf {
    interpreter: Option<String>,
    has_dynamic: bool,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_RPATH`.
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    pub runpath: Option<String>,
    /// Are the default folders and the cache not searched for it (`-z nodefaultlib`)?
    pub no_default: bool,
    /// Is everything that it imports looked for when it is loaded (`-z now`)?
    pub binds_now: bool,
}

/// The names that an ELF file shares with others.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Names that it expects of others.
    pub imports: BTreeSet<String>,
    /// Those of them without which it cannot be loaded; the others are looked for when they are called.
    pub at_once: BTreeSet<String>,
    /// Names that it defines for others; of a program without libraries, all.
    pub exports: BTreeSet<String>,
}

/// Where the dynamic section is, if there is one: offset and bytes.
type Dynamic = Option<(u64, u64)>;

/// A piece of the file that is mapped.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    address: u64,
    offset: u64,
    bytes: u64,
}

impl Elf {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Elf, ElfError> {
        let (file, header) = open(path)?;
        let mut elf = Elf::default();
        let (mapped, dynamic) = elf.read_segments(&file, &header)?;
        if let Some((offset, bytes)) = dynamic {
            elf.has_dynamic = true;
            elf.read_dynamic(&file, offset, bytes, &mapped)?;
        }
        Ok(elf)
    }

    /// Is it loaded by the dynamic linker?
    pub fn is_dynamic(&self) -> bool {
        self.has_dynamic && (self.interpreter.is_some() || !self.needed.is_empty())
    }

    fn read_segments(&mut self, file: &File, header: &[u8]) -> Result<(Vec<Mapped>, Dynamic), ElfError> {
        let (offset, count) = (u64_at(header, 32), u16_at(header, 56));
        if count > SEGMENTS_MAX || (count > 0 && usize::from(u16_at(header, 54)) != SEGMENT_BYTES) {
            return Err(ElfError::Damaged("table of segments"));
        }
        let table = bytes_at(file, offset, u64::from(count) * SEGMENT_BYTES as u64, "table of segments")?;
        let (mut mapped, mut dynamic) = (Vec::new(), None);
        for segment in table.chunks_exact(SEGMENT_BYTES) {
            let (offset, address, bytes) = (u64_at(segment, 8), u64_at(segment, 16), u64_at(segment, 32));
            match u32_at(segment, 0) {
                1 => mapped.push(Mapped { address, offset, bytes }),
                2 => dynamic = Some((offset, bytes)),
                3 => {
                    let text = bytes_at(file, offset, bytes.min(4096), "interpreter")?;
                    self.interpreter = Some(text_at(&text, 0));
                }
                _ => {}
            }
        }
        Ok((mapped, dynamic))
    }

    fn read_dynamic(
        &mut self,
        file: &File,
        offset: u64,
        bytes: u64,
        mapped: &[Mapped],
    ) -> Result<(), ElfError> {
        const DAMAGED: &str = "dynamic section";
        if bytes > DYNAMIC_BYTES_MAX {
            return Err(ElfError::Damaged(DAMAGED));
        }
        let table = bytes_at(file, offset, bytes, DAMAGED)?;
        let pairs = table.chunks_exact(16).map(|pair| (u64_at(pair, 0), u64_at(pair, 8)));
        let pairs: Vec<(u64, u64)> = pairs.take_while(|(tag, _)| *tag != 0).collect();
        let value = |wanted: u64| pairs.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
        let (Some(strings), Some(length)) = (value(5), value(10)) else { return Ok(()) };
        let place = mapped
            .iter()
            .find(|piece| (piece.address..piece.address.saturating_add(piece.bytes)).contains(&strings));
        let place = place.ok_or(ElfError::Damaged(DAMAGED))?;
        let strings = bytes_at(file, place.offset.saturating_add(strings - place.address), length, DAMAGED)?;
        let text = |at: u64| text_at(&strings, at as usize);
        for (tag, at) in &pairs {
            match tag {
                1 => self.needed.push(text(*at)),
                14 => self.soname = Some(text(*at)),
                15 => self.rpath = Some(text(*at)),
                29 => self.runpath = Some(text(*at)),
                24 => self.binds_now = true,
                30 => self.binds_now |= at & 8 != 0,
                0x6fff_fffb => {
                    self.no_default |= at & 0x800 != 0;
                    self.binds_now |= at & 1 != 0;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Symbols {
    /// Does the file call what begins MPI, in C or in Fortran?
    pub fn begin_mpi(&self) -> bool {
        ["MPI_Init", "MPI_Init_thread", "MPI_Session_init", "mpi_init_", "mpi_init_thread_", "mpi_init_f08_"]
            .iter()
            .any(|name| self.imports.contains(*name))
    }

    /// Reads those of a file, by its sections: dynamic symbols, or all symbols of a program that has no others.
    pub fn read(path: &Path) -> Result<Symbols, ElfError> {
        const DAMAGED: &str = "table of sections";
        let mut found = Symbols::default();
        let (file, header) = open(path)?;
        let (offset, count) = (u64_at(&header, 40), u16_at(&header, 60));
        if offset == 0 || count == 0 {
            return Ok(found); // stripped of them
        }
        if count > SECTIONS_MAX || usize::from(u16_at(&header, 58)) != SECTION_BYTES {
            return Err(ElfError::Damaged(DAMAGED));
        }
        let table = bytes_at(&file, offset, u64::from(count) * SECTION_BYTES as u64, DAMAGED)?;
        let sections: Vec<&[u8]> = table.chunks_exact(SECTION_BYTES).collect();
        let of_kind = |kind| sections.iter().find(|section| u32_at(section, 4) == kind);
        let Some(symbols) = of_kind(11).or_else(|| of_kind(2)) else { return Ok(found) };
        let relocations: Vec<&&[u8]> = sections.iter().filter(|section| u32_at(section, 4) == 4).collect();
        let Some(names) = sections.get(u32_at(symbols, 40) as usize) else { return Ok(found) };
        let contents =
            |section: &[u8]| bytes_at(&file, u64_at(section, 24), u64_at(section, 32), "table of symbols");
        let (symbols, names) = (contents(symbols)?, contents(names)?);
        for relocation in relocations {
            let used = contents(relocation)?;
            let used = used.chunks_exact(RELOCATION_BYTES).map(|entry| u64_at(entry, 8));
            for info in used.filter(|info| !JUMP_SLOTS.contains(&(*info as u32))) {
                let symbol = symbols.get((info >> 32) as usize * SYMBOL_BYTES..).unwrap_or_default();
                if let Some(symbol) = symbol.get(..SYMBOL_BYTES).filter(|symbol| is_import(symbol)) {
                    found.at_once.insert(text_at(&names, u32_at(symbol, 0) as usize));
                }
            }
        }
        for symbol in symbols.chunks_exact(SYMBOL_BYTES).skip(1) {
            let name = text_at(&names, u32_at(symbol, 0) as usize);
            match u16_at(symbol, 6) {
                0 if is_import(symbol) => found.imports.insert(name),
                0 => false, // it can do without
                _ if symbol[4] >> 4 != 0 => found.exports.insert(name),
                _ => false, // its own business
            };
        }
        Ok(found)
    }
}

/// A symbol that others have to define. Without a weak one it can do.
fn is_import(symbol: &[u8]) -> bool {
    u16_at(symbol, 6) == 0 && symbol[4] >> 4 == 1
}

/// A file that begins like one of 64 bits, and its header.
fn open(path: &Path) -> Result<(File, [u8; HEADER_BYTES]), ElfError> {
    // Opening something else, such as a pipe, might take for ever.
    if !path.metadata()?.is_file() {
        return Err(ElfError::NotElf);
    }
    let file = File::open(path)?;
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).map_err(|_| ElfError::NotElf)?;
    if header[..4] != *b"\x7fELF" {
        return Err(ElfError::NotElf);
    }
    if header[4..6] != [2, 1] || u16_at(&header, 18) != MACHINE {
        return Err(ElfError::OtherMachine);
    }
    Ok((file, header))
}

/// The interpreter that the first line of a script names.
pub(super) fn interpreter_of_script(path: &Path) -> Result<Option<String>, String> {
    let mut line = Vec::new();
    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(None);
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(SCRIPT_LINE_MAX as u64).read_to_end(&mut line).map_err(|error| error.to_string())?;
    let Some(rest) = line.strip_prefix(b"#!") else { return Ok(None) };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    Ok(Some(String::from_utf8_lossy(&rest[..end]).trim().to_owned()))
}

fn bytes_at(file: &File, offset: u64, length: u64, what: &'static str) -> Result<Vec<u8>, ElfError> {
    let in_file = file.metadata()?.len();
    if length > TABLE_BYTES_MAX || offset.checked_add(length).is_none_or(|end| end > in_file) {
        return Err(ElfError::Damaged(what));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// The text that begins here and ends with a zero. Outside the table there is none.
fn text_at(table: &[u8], at: usize) -> String {
    let rest = table.get(at..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> std::path::PathBuf {
        std::env::current_exe().unwrap()
    }

    #[test]
    fn a_program_of_this_machine_is_read() {
        let elf = Elf::open(&own()).unwrap();
        assert!(
            elf.is_dynamic() && elf.needed.iter().any(|name| name.starts_with("libc.so")),
            "{:?}",
            elf.needed
        );
        let symbols = Symbols::read(&own()).unwrap();
        assert!(
            symbols.imports.contains("malloc") || symbols.imports.contains("write"),
            "{:?}",
            symbols.imports
        );
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for bytes in [&b""[..], b"plain text", b"\x7fELF", &[0; 100]] {
            std::fs::write(&file, bytes).unwrap();
            assert!(matches!(Elf::open(&file), Err(ElfError::NotElf)), "{bytes:?}");
        }
        std::fs::write(&file, [&b"\x7fELF\x01\x01"[..], &[0; 100]].concat()).unwrap();
        assert!(matches!(Elf::open(&file), Err(ElfError::OtherMachine)));
        let mut of_other = std::fs::read("/bin/true").unwrap();
        of_other[18] ^= 1;
        std::fs::write(&file, of_other).unwrap();
        assert!(matches!(Elf::open(&file), Err(ElfError::OtherMachine)));
        assert!(matches!(Elf::open(folder.path()), Err(ElfError::NotElf)));
    }

    #[test]
    fn damaged_programs_are_errors_or_harmless() {
        let whole = std::fs::read("/bin/true").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        // Every byte of header and segments, with every value that is likely to hurt.
        for at in 0..300 {
            for value in [0x00, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                std::fs::write(&file, &bytes).unwrap();
                let _ = (Elf::open(&file), Symbols::read(&file));
            }
        }
        for length in (0..whole.len()).step_by(997) {
            std::fs::write(&file, &whole[..length]).unwrap();
            let _ = (Elf::open(&file), Symbols::read(&file));
        }
    }

    #[test]
    fn scripts_name_their_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        std::fs::write(&file, "#! /usr/bin/env python3 \nprint()").unwrap();
        assert_eq!(interpreter_of_script(&file), Ok(Some("/usr/bin/env python3".into())));
        assert_eq!(interpreter_of_script(&own()), Ok(None));
    }
}
