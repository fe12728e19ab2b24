//! Facts about processes from /proc.

/// The fields of `/proc/<pid>/stat` that we need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// Parent process id.
    pub(crate) parent: u32,
    /// Process group.
    pub(crate) group: u32,
    /// Start time in clock ticks since boot: with the id it names a process for good.
    pub(crate) start_ticks: u64,
    /// Whether it has ended and waits to be reaped.
    pub(crate) zombie: bool,
}

impl ProcessStat {
    /// Reads it; `None` when there is no such process.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name in parentheses may itself contain parentheses and spaces; the last `)` ends it.
    fn parse(stat: &str) -> Option<Self> {
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let zombie = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        // Field 22 of the file; three of those after the name are consumed.
        let start_ticks = fields.nth(16)?.parse().ok()?;
        Some(Self { parent, group, start_ticks, zombie })
    }
}

/// The command line with arguments joined by spaces; empty for kernel threads and zombies.
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.trim_end_matches('\0').replace('\0', " ")
}

/// All process ids of the host.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_do_not_shift_fields() {
        let line = "12 (a ) R 1 (b) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        let expected = ProcessStat { parent: 7, group: 12, start_ticks: 987_654, zombie: false };
        assert_eq!(ProcessStat::parse(line), Some(expected));
        assert_eq!(ProcessStat::parse("12 (a"), None);
    }

    #[test]
    fn we_exist() {
        let stat = ProcessStat::read(std::process::id()).unwrap();
        assert!(stat.start_ticks > 0 && !stat.zombie && stat.parent > 0);
        assert!(all().contains(&std::process::id()));
        assert!(!command_line(std::process::id()).is_empty());
    }
}
