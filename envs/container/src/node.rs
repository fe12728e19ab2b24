//! The node of a container engine: our program beside the engine, for containers that this process cannot enter.
//!
//! It runs in a container that sees the processes and control groups of its machine, as `clawrl` does when it enters
//! containers itself. It communicates over the engine's connection: nothing listens, and nothing else needs to be
//! reachable. Its image consists of the programs beside this one and of their libraries, and is built once.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountType,
};
use bollard::query_parameters::{AttachContainerOptions, CreateImageOptions, StartContainerOptions};
use clawrl_core::{Boundary, Fault};
use clawrl_node::Node;
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use sha2::{Digest as _, Sha256};
use tokio_util::io::StreamReader;

use crate::capabilities;
use crate::container::Container;
use crate::engine::refused;
use crate::engines::Engine;
use crate::image::inspect;

const IMAGE: &str = "clawrl-node";

/// Folder of the programs in the image.
const FOLDER: &str = "clawrl";

/// A program that the node runs as well.
const REMOVER: &str = "/bin/rm";

/// Its capabilities, in addition to those that it leaves to programs inside: for namespaces, files and ending others'
/// processes.
const CAPABILITIES: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_ADMIN",
    "SYS_CHROOT",
    "SYS_PTRACE",
];

/// The node confines each program inside when it starts it.
const UNCONFINED: [&str; 3] = ["seccomp=unconfined", "apparmor=unconfined", "label=disable"];

/// Memory limit, bytes, so that no request can harm its machine. The largest message (1 GiB) is held two or three times
/// while it is read or written, as text and as parsed content; trees and program output are streamed, and a tree in
/// transfer needs a few tens of bytes per entry. Its `/tmp`, which stores such trees, is on the disk of its machine.
const MEMORY: i64 = 4 << 30;

const CGROUPS: &str = "/sys/fs/cgroup";

/// Dynamic loader paths named by programs, for the supported architectures.
const LOADERS: &[&str] = &[
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// Starts a node.
///
/// # Errors
/// A provider [`Fault`]: our programs are missing, or the engine refuses.
pub(crate) async fn start(engine: &Arc<Engine>, labels: HashMap<String, String>) -> Result<Node, Fault> {
    let programs = tokio::task::spawn_blocking(Programs::find);
    let panicked = |error: tokio::task::JoinError| {
        Fault::permanent(Boundary::Harness, "panic", format!("failed to find the node's programs: {error}"))
    };
    let programs = programs.await.map_err(panicked)??;
    let image = format!("{IMAGE}:{}", programs.tag());
    if inspect(&engine.docker, &image).await?.is_none() {
        import(engine, &image, programs).await?;
    }
    let created = engine.docker.create_container(None, body(image, labels)).await;
    let id = created.map_err(|error| refused("making the node's container", &error))?.id;
    let container = Container::new(id, Arc::downgrade(engine), None);
    let options = AttachContainerOptions {
        stream: true,
        stdin: true,
        stdout: true,
        stderr: true,
        ..AttachContainerOptions::default()
    };
    let attached = engine.docker.attach_container(&container.id, Some(options)).await;
    let AttachContainerResults { output, input } =
        attached.map_err(|error| refused("attaching to the node's container", &error))?;
    let started = engine.docker.start_container(&container.id, None::<StartContainerOptions>).await;
    started.map_err(|error| refused("starting the node's container", &error))?;
    let socket = engine.socket.clone();
    let last_said = Arc::new(Mutex::new(String::new()));
    let said_last = Arc::clone(&last_said);
    let output = output.map_err(std::io::Error::other).try_filter_map(move |said| {
        future::ready(Ok(match said {
            LogOutput::StdOut { message } => Some(message),
            LogOutput::StdErr { message } | LogOutput::Console { message } => {
                let line = String::from_utf8_lossy(&message).trim_end().to_owned();
                tracing::warn!(engine = socket, "{line}");
                *said_last.lock().unwrap_or_else(PoisonError::into_inner) = line;
                None
            }
            LogOutput::StdIn { .. } => None,
        }))
    });
    let connected = Node::connect(tokio::io::join(StreamReader::new(output), input), container).await;
    connected.map_err(|fault| {
        let said = last_said.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match said.as_str() {
            "" => fault.message,
            said => format!("{}; last output: {said}", fault.message),
        };
        Fault { message, ..fault }
    })
}

/// Dropped with the connection; the engine also removes it when its program has ended.
fn body(image: String, labels: HashMap<String, String>) -> ContainerCreateBody {
    let cgroups = Mount {
        target: Some(CGROUPS.to_owned()),
        source: Some(CGROUPS.to_owned()),
        typ: Some(MountType::BIND),
        ..Mount::default()
    };
    let inside = capabilities::KEPT.iter().map(|(name, _)| *name).chain([capabilities::FIRST_PROCESS_ONLY]);
    let kept = CAPABILITIES.iter().copied().filter(|name| !inside.clone().any(|other| other == *name));
    let kept = kept.chain(inside.clone());
    let host = HostConfig {
        auto_remove: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(kept.map(str::to_owned).collect()),
        security_opt: Some(UNCONFINED.map(str::to_owned).to_vec()),
        memory: Some(MEMORY),
        // No additional swap.
        memory_swap: Some(MEMORY),
        pid_mode: Some("host".to_owned()),
        userns_mode: Some("host".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::HOST),
        mounts: Some(vec![cgroups]),
        network_mode: Some("none".to_owned()),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(image),
        entrypoint: Some(vec![format!("/{FOLDER}/clawrl-node")]),
        open_stdin: Some(true),
        // It ends when the connection is closed.
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        labels: Some(labels),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

async fn import(engine: &Engine, image: &str, programs: Programs) -> Result<(), Fault> {
    let packed = tokio::task::spawn_blocking(move || programs.pack());
    let failed = |error: String| {
        let message = format!("failed to pack the node's programs: {error}");
        Fault::permanent(Boundary::Provider, "node-image", message)
    };
    let packed = packed.await.map_err(|error| failed(error.to_string()))?;
    let packed = packed.map_err(|error| failed(error.to_string()))?;
    let (repo, tag) = image.split_once(':').unwrap_or((image, "latest"));
    let options = CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some(repo.to_owned()),
        tag: Some(tag.to_owned()),
        ..CreateImageOptions::default()
    };
    let body = bollard::body_full(packed.into());
    let mut steps = std::pin::pin!(engine.docker.create_image(Some(options), Some(body), None));
    while let Some(step) = steps.next().await {
        step.map_err(|error| refused("importing the image of the node", &error))?;
    }
    Ok(())
}

struct Programs {
    /// Name in the image, file here.
    files: Vec<(String, PathBuf)>,
}

impl Programs {
    /// Blocks.
    fn find() -> Result<Self, Fault> {
        let missing = |message: String| Fault::permanent(Boundary::Provider, "node-missing", message);
        let own = std::env::current_exe().unwrap_or_default();
        let beside = |name: &str| {
            // Test programs are one folder below.
            let mut folders = own.ancestors().skip(1).take(2).map(|folder| folder.join(name));
            folders.find(|path| path.is_file()).ok_or_else(|| {
                missing(format!(
                    "cannot find `{name}` beside {}, which must run beside a container engine whose \
                     containers this process cannot enter; install all ClawRL programs into one folder, or \
                     run `cargo build -p clawrl-node`",
                    own.display()
                ))
            })
        };
        let mut files = Vec::new();
        let mut libraries = BTreeSet::new();
        for name in ["clawrl-node", "clawrl-sbx"] {
            let path = beside(name)?;
            libraries.extend(libraries_of(&path));
            files.push((format!("{FOLDER}/{name}"), path));
        }
        libraries.extend(libraries_of(Path::new(REMOVER)));
        // Copied to the paths where their loader searches, which links on this machine may redirect.
        libraries.extend(LOADERS.iter().chain([&REMOVER]).map(|&path| path.to_owned()));
        for path in libraries {
            if Path::new(&path).is_file() {
                files.push((path.trim_start_matches('/').to_owned(), PathBuf::from(path)));
            }
        }
        Ok(Self { files })
    }

    /// Distinguishes images of different builds.
    fn tag(&self) -> String {
        let mut hash = Sha256::new();
        for (name, path) in &self.files {
            let stat = std::fs::metadata(path);
            let stat = stat.map(|stat| (stat.len(), stat.mtime(), stat.mtime_nsec(), stat.ino())).ok();
            hash.update(format!("{name} {stat:?}\n"));
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Blocks.
    fn pack(&self) -> std::io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for folder in ["tmp", "proc", "sys", "dev", "etc"] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(if folder == "tmp" { 0o1777 } else { 0o755 });
            header.set_size(0);
            archive.append_data(&mut header, folder, std::io::empty())?;
        }
        for (name, path) in &self.files {
            // Links are followed: the named path holds the content.
            let mut file = std::fs::File::open(path)?;
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Regular);
            header.set_mode(0o755);
            header.set_size(file.metadata()?.len());
            archive.append_data(&mut header, name, &mut file)?;
        }
        archive.into_inner()
    }
}

/// Absolute paths of a program's libraries; empty for a static program. Glibc's loader lists them instead of running
/// the program; musl's loader is the only library there.
fn libraries_of(program: &Path) -> Vec<String> {
    let output =
        Command::new(program).env_clear().env("LD_TRACE_LOADED_OBJECTS", "1").arg("--version").output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    let lines = String::from_utf8_lossy(&output).into_owned();
    lines.lines().filter_map(library).map(str::to_owned).collect()
}

/// Parses `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld-linux-x86-64.so.2 (0x…)`.
fn library(line: &str) -> Option<&str> {
    let line = line.trim();
    let path = line.split_once(" => ").map_or(line, |(_, path)| path);
    path.split_once(" (0x").map(|(path, _)| path).filter(|path| path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_lists_libraries() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(library(line), expected, "{line}");
        check(
            "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f12)",
            Some("/lib/x86_64-linux-gnu/libc.so.6"),
        );
        check("\t/lib64/ld-linux-x86-64.so.2 (0x00007f12)", Some("/lib64/ld-linux-x86-64.so.2"));
        check("\tlinux-vdso.so.1 (0x00007ffd)", None);
        check("\tlibodd.so => not found", None);
        check("rm (GNU coreutils) 9.1", None);
        check("", None);
    }

    #[test]
    fn this_test_is_linked_with_something() {
        let own = std::env::current_exe().unwrap();
        let found = libraries_of(&own);
        assert!(found.iter().any(|path| path.contains("libc")), "{found:?}");
    }
}
