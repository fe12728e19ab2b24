//! Freezes all processes of a container at once through its control group.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Polling interval for a version 1 group, which has no event for being frozen.
const SLICE: Duration = Duration::from_millis(2);

/// The file that freezes and thaws a control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Freezer {
    file: PathBuf,
    stop: &'static str,
    go: &'static str,
}

impl Freezer {
    /// Finds the freezer among a container's control groups, which are named by their entrance files.
    pub(crate) fn among(entrances: &[PathBuf]) -> Option<Self> {
        entrances.iter().filter_map(|entrance| entrance.parent()).find_map(|folder| {
            let versions = [("freezer.state", "FROZEN", "THAWED"), ("cgroup.freeze", "1", "0")];
            versions
                .into_iter()
                .map(|(file, stop, go)| Self { file: folder.join(file), stop, go })
                .find(|freezer| freezer.file.exists())
        })
    }

    /// Freezes all processes and waits until they are frozen, up to `limit`. Blocks.
    pub(crate) fn freeze(&self, limit: Duration) {
        let _ = std::fs::write(&self.file, self.stop);
        let until = Instant::now() + limit;
        while !self.is_frozen() && Instant::now() < until {
            // timer: see SLICE.
            std::thread::sleep(SLICE);
        }
    }

    /// Thaws all processes. In version 1, signals sent meanwhile take effect now.
    pub(crate) fn thaw(&self) {
        let _ = std::fs::write(&self.file, self.go);
    }

    /// Whether all are frozen. Version 2 reports it in another file.
    fn is_frozen(&self) -> bool {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        match self.file.file_name().and_then(|name| name.to_str()) {
            Some("cgroup.freeze") => read(&self.file.with_file_name("cgroup.events")).contains("frozen 1"),
            _ => read(&self.file).trim() == self.stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, stop: &str, go: &str) {
        let folder = tempfile::tempdir().unwrap();
        let (other, own) = (folder.path().join("memory"), folder.path().join("own"));
        std::fs::create_dir_all(&other).unwrap();
        std::fs::create_dir_all(&own).unwrap();
        let entrances = [other.join("tasks"), own.join("tasks")];
        assert_eq!(Freezer::among(&entrances), None);
        std::fs::write(own.join(file), go).unwrap();
        std::fs::write(own.join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
        let freezer = Freezer::among(&entrances).unwrap();
        freezer.freeze(Duration::from_secs(20));
        assert_eq!(std::fs::read_to_string(own.join(file)).unwrap(), stop);
        assert!(freezer.is_frozen());
        freezer.thaw();
        assert_eq!(std::fs::read_to_string(own.join(file)).unwrap(), go);
    }

    #[test]
    fn both_versions_have_their_file_and_words() {
        check("freezer.state", "FROZEN", "THAWED");
        check("cgroup.freeze", "1", "0");
    }
}
