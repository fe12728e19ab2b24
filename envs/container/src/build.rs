//! Builds an image from a folder with a Dockerfile.
//!
//! The image is named by its inputs, so that other tasks and runs find it again, and a changed folder is built anew.
//! The engine's own layer cache does the rest.
//!
//! I1. An engine's classic builder knows one pattern file, `.dockerignore`, and excludes the Dockerfile from the
//! context if that says so. If the Dockerfile has its own pattern file, that one applies instead, as in BuildKit; the
//! engine then gets a generated `.dockerignore` that lists exactly the excluded files, itself first. So no build sees
//! the folder's own one then.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::query_parameters::BuildImageOptions;
use bytes::Bytes;
use clawrl_core::{Boundary, Fault, Ignored, ignore_file};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};

use crate::engine::refused;

/// Maximum bytes of a folder: it is held in memory, and sent whole.
const MAX_BYTES: u64 = 512 << 20;

/// Last lines of a build's output that a fault repeats.
const LAST_LINES: usize = 12;

#[derive(Debug)]
pub(crate) struct PackedContext {
    pub(crate) name: String,
    bytes: Bytes,
}

/// Reads a folder.
///
/// # Errors
/// A permanent provider [`Fault`] when it cannot be built.
pub(crate) async fn pack_folder(context: &Path, dockerfile: &str) -> Result<PackedContext, Fault> {
    let (folder, file) = (context.to_owned(), dockerfile.to_owned());
    let packed = tokio::task::spawn_blocking(move || pack(&folder, &file)).await.map_err(|error| {
        Fault::permanent(Boundary::Harness, "panic", format!("packing a folder: {error}"))
    })?;
    let unreadable = |error: io::Error| {
        let message = format!("failed to read the build folder {}: {error}", context.display());
        Fault::permanent(Boundary::Provider, "build-context", message)
    };
    let bytes = packed.map_err(unreadable)?;
    let mut hash = Sha256::new();
    hash.update(dockerfile.as_bytes());
    hash.update([0]);
    hash.update(&bytes);
    let digest: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Ok(PackedContext { name: format!("clawrl-build:{digest}"), bytes: bytes.into() })
}

pub(crate) async fn build(
    docker: &Docker,
    packed: &PackedContext,
    context: &Path,
    dockerfile: &str,
) -> Result<(), Fault> {
    let options = BuildImageOptions {
        dockerfile: dockerfile.to_owned(),
        t: Some(packed.name.clone()),
        rm: true,
        forcerm: true,
        ..BuildImageOptions::default()
    };
    let mut said: Vec<String> = Vec::new();
    let mut steps =
        std::pin::pin!(docker.build_image(options, None, Some(bollard::body_full(packed.bytes.clone()))));
    while let Some(step) = steps.next().await {
        let failure = match step {
            Ok(info) => {
                let text = info.stream.unwrap_or_default();
                said.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
                said.drain(..said.len().saturating_sub(LAST_LINES));
                info.error_detail.and_then(|detail| detail.message)
            }
            Err(bollard::errors::Error::DockerStreamError { error }) => Some(error),
            Err(error) => return Err(refused(&format!("building {}", context.display()), &error)),
        };
        if let Some(why) = failure {
            let message =
                format!("failed to build {}: {why}; last output:\n{}", context.display(), said.join("\n"));
            return Err(Fault::permanent(Boundary::Provider, "build-failed", message));
        }
    }
    Ok(())
}

/// The folder as an archive, byte-identical for the same content. Blocks.
fn pack(context: &Path, dockerfile: &str) -> io::Result<Vec<u8>> {
    let rules = ignore_file(dockerfile, |path| context.join(path).is_file());
    let text = rules.as_ref().map(|path| fs::read_to_string(context.join(path))).transpose()?;
    let wrong = |line| {
        let path = rules.as_deref().unwrap_or_default();
        io::Error::other(format!("{path}, line {line}: invalid pattern"))
    };
    let ignored = Ignored::parse(&text.unwrap_or_default()).map_err(wrong)?;
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    let mut packing =
        Packing { archive, context, ignored, needed: vec![dockerfile], dropped: None, bytes: 0 };
    if rules.is_some_and(|path| path != Ignored::COMMON_FILE) {
        packing.dropped = Some(Ignored::COMMON_FILE);
        let own = for_the_engine(dockerfile, packing.ignored.covers(dockerfile));
        packing.text(Ignored::COMMON_FILE, &own)?;
    } else {
        packing.needed.push(Ignored::COMMON_FILE);
    }
    packing.below(Path::new(""))?;
    packing.archive.into_inner()
}

/// I1.
fn for_the_engine(dockerfile: &str, is_left_out: bool) -> String {
    // A leading slash escapes `!` and `#`, a backslash the others.
    let escaped: String = dockerfile
        .chars()
        .flat_map(|c| matches!(c, '*' | '?' | '[' | '\\').then_some('\\').into_iter().chain([c]))
        .collect();
    let more = if is_left_out { format!("/{escaped}\n") } else { String::new() };
    format!("{}\n{more}", Ignored::COMMON_FILE)
}

struct Packing<'a> {
    archive: tar::Builder<Vec<u8>>,
    context: &'a Path,
    ignored: Ignored,
    /// Files that the engine always needs. It excludes them from copies if the patterns say so.
    needed: Vec<&'a str>,
    /// A file that another one replaces.
    dropped: Option<&'a str>,
    bytes: u64,
}

impl Packing<'_> {
    fn below(&mut self, folder: &Path) -> io::Result<()> {
        let mut entries: Vec<PathBuf> = fs::read_dir(self.context.join(folder))?
            .map(|entry| Ok(folder.join(entry?.file_name())))
            .collect::<io::Result<_>>()?;
        entries.sort_unstable();
        for path in entries {
            let text = path.to_str().ok_or_else(|| io::Error::other(format!("{path:?} is not UTF-8")))?;
            if self.dropped == Some(text) {
                continue;
            }
            let left_out = self.ignored.covers(text) && !self.needed.contains(&text);
            let real = self.context.join(&path);
            let kind = real.symlink_metadata()?;
            if kind.is_dir() {
                if !left_out {
                    self.archive.append_dir(&path, &real)?;
                }
                let inside = format!("{text}/");
                let needed = self.needed.iter().any(|needed| needed.starts_with(&inside));
                if !left_out || self.ignored.takes_back() || needed {
                    self.below(&path)?;
                }
            } else if !left_out {
                self.bytes += kind.len();
                if self.bytes > MAX_BYTES {
                    return Err(io::Error::other(format!("it exceeds {} MiB", MAX_BYTES >> 20)));
                }
                self.archive.append_path_with_name(&real, &path)?;
            }
        }
        Ok(())
    }

    /// Adds a file that is not in the folder.
    fn text(&mut self, path: &str, text: &str) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        self.archive.append_data(&mut header, path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn names(bytes: &[u8]) -> Vec<String> {
        let mut archive = tar::Archive::new(bytes);
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn an_archive_depends_on_content_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| write(folder.path(), path, text);
        write("Dockerfile", "FROM x");
        write(".dockerignore", "*.log\nd\n!d/keep\n");
        write("a.log", "never");
        write("d/drop", "never");
        write("d/keep", "kept");
        write("e/f", "kept");
        let first = pack(folder.path(), "Dockerfile").unwrap();
        assert_eq!(names(&first), [".dockerignore", "Dockerfile", "d/keep", "e", "e/f"]);
        write("a.log", "changed, and still never");
        fs::remove_file(folder.path().join("e/f")).unwrap();
        write("e/f", "kept");
        assert!(pack(folder.path(), "Dockerfile").unwrap() == first);
        write("e/f", "other");
        assert!(pack(folder.path(), "Dockerfile").unwrap() != first);
    }

    /// I1.
    #[test]
    fn dockerfile_patterns_override_dockerignore() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| write(folder.path(), path, text);
        let engines = |bytes: &[u8]| {
            let mut archive = tar::Archive::new(bytes);
            let mut first = archive.entries().unwrap().next().unwrap().unwrap();
            assert_eq!(first.path().unwrap().to_str(), Some(".dockerignore"));
            let mut text = String::new();
            first.read_to_string(&mut text).unwrap();
            text
        };
        write("Dockerfile", "FROM x");
        write("b/Other*", "FROM x");
        write("common", "");
        write("own", "");
        write(".dockerignore", "common\nDockerfile\n");
        write("Dockerfile.dockerignore", "own\n");
        write("b/Other*.dockerignore", "*\n!own\n");
        let packed = pack(folder.path(), "Dockerfile").unwrap();
        let left = ["b", "b/Other*", "b/Other*.dockerignore", "common"];
        let expected = [".dockerignore", "Dockerfile", "Dockerfile.dockerignore"].iter().chain(&left);
        assert_eq!(names(&packed), expected.map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(engines(&packed), ".dockerignore\n");
        let packed = pack(folder.path(), "b/Other*").unwrap();
        assert_eq!(names(&packed), [".dockerignore", "b/Other*", "own"]);
        assert_eq!(engines(&packed), ".dockerignore\n/b/Other\\*\n");
        write("Dockerfile.dockerignore", "a\n[b-a]\n");
        let wrong = pack(folder.path(), "Dockerfile").unwrap_err();
        assert_eq!(wrong.to_string(), "Dockerfile.dockerignore, line 2: invalid pattern");
    }
}
