//! Building an image from a folder with a Dockerfile.
//!
//! The image is named by what it is built from, so that what was built is found again, by other tasks and other runs, and
//! a folder that changed is built anew. The engine's own cache of layers does the rest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::query_parameters::BuildImageOptions;
use clawrl_core::{Boundary, Fault};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};

use crate::engine::refused;
use crate::ignore::Ignored;
use crate::image::look;

/// Most bytes of a folder: it is held in memory, and sent whole.
const MOST_BYTES: u64 = 512 << 20;

/// Lines of a build's output that a fault repeats.
const LAST_LINES: usize = 12;

/// Builds the image if it is not there, and returns its name.
pub(crate) async fn build(docker: &Docker, context: &Path, dockerfile: &str) -> Result<String, Fault> {
    let (folder, file) = (context.to_owned(), dockerfile.to_owned());
    let packed = tokio::task::spawn_blocking(move || pack(&folder, &file)).await.map_err(|error| {
        Fault::permanent(Boundary::Harness, "panic", format!("packing a folder: {error}"))
    })?;
    let unreadable = |error: io::Error| {
        let message = format!("the folder {} cannot be built from: {error}", context.display());
        Fault::permanent(Boundary::Provider, "build-context", message)
    };
    let packed = packed.map_err(unreadable)?;
    let mut hash = Sha256::new();
    hash.update(dockerfile.as_bytes());
    hash.update([0]);
    hash.update(&packed);
    let digest: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("clawrl-build:{digest}");
    if look(docker, &name).await?.is_some() {
        return Ok(name);
    }
    let options = BuildImageOptions {
        dockerfile: dockerfile.to_owned(),
        t: Some(name.clone()),
        rm: true,
        forcerm: true,
        ..BuildImageOptions::default()
    };
    let mut said: Vec<String> = Vec::new();
    let mut steps =
        std::pin::pin!(docker.build_image(options, None, Some(bollard::body_full(packed.into()))));
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
                format!("building {} failed: {why}; it said last:\n{}", context.display(), said.join("\n"));
            return Err(Fault::permanent(Boundary::Provider, "build-failed", message));
        }
    }
    Ok(name)
}

/// The folder as an archive, the same bytes for the same content. Blocks.
fn pack(context: &Path, dockerfile: &str) -> io::Result<Vec<u8>> {
    let text = match fs::read_to_string(context.join(".dockerignore")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let ignored = Ignored::parse(&text)
        .map_err(|line| io::Error::other(format!(".dockerignore has no such pattern: {line}")))?;
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    let mut bytes = 0;
    add(&mut archive, context, Path::new(""), &ignored, dockerfile, &mut bytes)?;
    archive.into_inner()
}

fn add(
    archive: &mut tar::Builder<Vec<u8>>,
    context: &Path,
    folder: &Path,
    ignored: &Ignored,
    dockerfile: &str,
    bytes: &mut u64,
) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(context.join(folder))?
        .map(|entry| Ok(folder.join(entry?.file_name())))
        .collect::<io::Result<_>>()?;
    entries.sort_unstable();
    for path in entries {
        let text = path.to_str().ok_or_else(|| io::Error::other(format!("{path:?} is no UTF-8")))?;
        // The engine needs these two in any case, and leaves them out of what it copies.
        let left_out = ignored.covers(text) && text != dockerfile && text != ".dockerignore";
        let real = context.join(&path);
        let kind = real.symlink_metadata()?;
        if kind.is_dir() {
            if !left_out {
                archive.append_dir(&path, &real)?;
            }
            if !left_out || ignored.takes_back() || dockerfile.starts_with(&format!("{text}/")) {
                add(archive, context, &path, ignored, dockerfile, bytes)?;
            }
        } else if !left_out {
            *bytes += kind.len();
            if *bytes > MOST_BYTES {
                return Err(io::Error::other(format!("it holds more than {} MiB", MOST_BYTES >> 20)));
            }
            archive.append_path_with_name(&real, &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_depends_on_content_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Dockerfile", "FROM x");
        write(".dockerignore", "*.log\nd\n!d/keep\n");
        write("a.log", "never");
        write("d/drop", "never");
        write("d/keep", "kept");
        write("e/f", "kept");
        let names = |bytes: &[u8]| -> Vec<String> {
            let mut archive = tar::Archive::new(bytes);
            archive
                .entries()
                .unwrap()
                .map(|entry| entry.unwrap().path().unwrap().display().to_string())
                .collect()
        };
        let first = pack(folder.path(), "Dockerfile").unwrap();
        assert_eq!(names(&first), [".dockerignore", "Dockerfile", "d/keep", "e", "e/f"]);
        write("a.log", "changed, and still never");
        fs::remove_file(folder.path().join("e/f")).unwrap();
        write("e/f", "kept");
        assert!(pack(folder.path(), "Dockerfile").unwrap() == first);
        write("e/f", "other");
        assert!(pack(folder.path(), "Dockerfile").unwrap() != first);
    }
}
