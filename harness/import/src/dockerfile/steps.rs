//! Build steps on their way into a sandbox: copied files and commands.

use std::collections::BTreeMap;

use clawrl_config::Span;

use crate::draft::FixtureSource;
use crate::shell_text::word;

/// A file that a COPY creates.
pub(super) struct CopiedFile {
    pub(super) to: String,
    pub(super) content: FixtureSource,
    pub(super) mode: u32,
    pub(super) span: Span,
}

/// A build step that runs after all files are copied.
pub(super) struct Run {
    /// A folder that a WORKDIR creates; then there is no command.
    pub(super) makes: Option<String>,
    pub(super) command: String,
    /// Absolute.
    pub(super) workdir: String,
    pub(super) arguments: BTreeMap<String, String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) span: Span,
}

/// A RUN as a setup command: in its folder, with the variables of its place in the file, and with an empty standard
/// input.
pub(super) fn setup_command(run: &Run, environment: &[(String, String)], workdir: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for (name, _) in
        environment.iter().filter(|(name, _)| !run.environment.iter().any(|(known, _)| known == name))
    {
        words.push(format!("-u {}", word(name)));
    }
    let set = |name: &str, value: &str| word(&format!("{name}={value}"));
    for (name, value) in &run.arguments {
        if !run.environment.iter().any(|(known, _)| known == name) {
            words.push(set(name, value));
        }
    }
    for (name, value) in run.environment.iter().filter(|pair| !environment.contains(pair)) {
        words.push(set(name, value));
    }
    let before = if words.is_empty() { String::new() } else { format!("env {} ", words.join(" ")) };
    let enter = if run.workdir == workdir { String::new() } else { format!("cd {} && ", word(&run.workdir)) };
    format!("({enter}{before}{} < /dev/null)", run.command)
}

/// Message and help for a source that ADD would download or unpack.
pub(super) fn refused_by_add(source: &str) -> Option<(String, &'static str)> {
    let remote =
        ["http://", "https://", "ftp://", "git://", "git@"].iter().any(|start| source.starts_with(start));
    if remote || source.ends_with(".git") {
        let help = "put the file beside the Dockerfile: a sandbox has no network during setup";
        return Some((format!("ADD downloads `{source}`"), help));
    }
    let archive = [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst"];
    archive.iter().any(|end| source.ends_with(end)).then(|| {
        let help = "copy the files themselves, or copy the archive with COPY and unpack it in a RUN";
        (format!("ADD unpacks `{source}`"), help)
    })
}
