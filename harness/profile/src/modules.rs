//! Which file is mapped where in this process.
//!
//! Addresses of a file are those that its headers speak of; `bias` is what the loader added to them.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use framehop::{ExplicitModuleSectionInfo, Module as Unwound};
use object::{Object, ObjectSection, ObjectSegment, ReadCache};

/// A program or library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) path: PathBuf,
    /// From its first mapping to the end of its last.
    pub(crate) addresses: Range<u64>,
}

/// Every file of which something is mapped executable, in order of address.
pub(crate) fn mapped() -> Vec<Mapped> {
    parse(&fs::read_to_string("/proc/self/maps").unwrap_or_default())
}

fn parse(maps: &str) -> Vec<Mapped> {
    let mut all: Vec<(Mapped, bool)> = Vec::new();
    for line in maps.lines() {
        let Some((addresses, executable, path)) = parse_line(line) else { continue };
        match all.iter_mut().find(|(known, _)| known.path == path) {
            Some((known, known_executable)) => {
                known.addresses.end = known.addresses.end.max(addresses.end);
                *known_executable |= executable;
            }
            None => all.push((Mapped { path, addresses }, executable)),
        }
    }
    all.into_iter().filter(|(_, executable)| *executable).map(|(mapped, _)| mapped).collect()
}

/// Addresses, whether they are executable, and the path of one that begins with a slash.
fn parse_line(line: &str) -> Option<(Range<u64>, bool, PathBuf)> {
    let at = line.find('/')?;
    let (fields, path) = line.split_at(at);
    // What was deleted under a running program cannot be read any more.
    let path = path.strip_suffix(" (deleted)").map_or(Some(path), |_| None)?;
    let mut fields = fields.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let executable = fields.next()?.contains('x');
    Some((hex(start)?..hex(end)?, executable, PathBuf::from(path)))
}

/// A module as unwinding and naming need it.
pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    pub(crate) addresses: Range<u64>,
    pub(crate) bias: u64,
}

impl Mapped {
    /// Reads the unwind tables out of the file. `None` of what is no program.
    pub(crate) fn load(&self) -> Option<(Loaded, Unwound<Vec<u8>>)> {
        let cache = ReadCache::new(fs::File::open(&self.path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let first = file.segments().map(|segment| segment.address()).min()?;
        // The loader maps whole pages, and the first segment from the start of its page.
        let bias = self.addresses.start.checked_sub(first & !0xfff)?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            let addresses = section.address()..section.address() + section.size();
            Some((addresses, section.data().ok()?.to_vec()))
        };
        let (eh_frame_svma, eh_frame) = section(".eh_frame").unzip();
        let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr").unzip();
        let text = file.section_by_name(".text");
        let got = file.section_by_name(".got");
        let place =
            |section: object::Section<'_, '_, _>| section.address()..section.address() + section.size();
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: text.map(place),
            got_svma: got.map(place),
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..Default::default()
        };
        let name = file_name(&self.path);
        let unwound = Unwound::new(name, self.addresses.clone(), bias, sections);
        Some((Loaded { path: self.path.clone(), addresses: self.addresses.clone(), bias }, unwound))
    }
}

/// The last part of a path.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_other_mappings() {
        let maps = "\
55d000-55e000 r--p 00000000 fd:00 12 /usr/bin/a program
55e000-560000 r-xp 00001000 fd:00 12 /usr/bin/a program
560000-561000 rw-p 00000000 00:00 0 [heap]
7f0000-7f1000 r--p 00000000 fd:00 13 /usr/lib/locale/archive
7f2000-7f3000 r-xp 00000000 fd:00 14 /tmp/gone (deleted)
7f4000-7f5000 r-xp 00000000 00:00 0 [vdso]
7f6000-7f7000 r-xp 00000000 00:00 0
7f8000-7f9000 r--p 00000000 fd:00 15 /lib/libc.so.6
7f9000-7fa000 r-xp 00001000 fd:00 15 /lib/libc.so.6
7fa000-7fb000 rw-p 00002000 fd:00 15 /lib/libc.so.6
";
        let of = |path: &str, addresses| Mapped { path: path.into(), addresses };
        assert_eq!(
            parse(maps),
            [of("/usr/bin/a program", 0x55d000..0x560000), of("/lib/libc.so.6", 0x7f8000..0x7fb000)]
        );
    }

    #[test]
    fn this_program_is_found_with_its_tables() {
        let own = std::env::current_exe().unwrap();
        let found = mapped().into_iter().find(|mapped| mapped.path == own).unwrap();
        let (loaded, _) = found.load().unwrap();
        let here = this_program_is_found_with_its_tables as fn() as usize as u64;
        assert!(loaded.addresses.contains(&here) && here > loaded.bias);
    }
}
