//! An image of this machine's own programs, built in a second without a registry.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;

/// Its name.
pub(crate) const NAME: &str = "clawrl-test:small";

/// Perl for things that no other program can do: system calls by number.
const PROGRAMS: &[&str] = &[
    "bash", "cat", "chmod", "chown", "cp", "env", "find", "grep", "head", "id", "kill", "ln", "ls", "mkdir",
    "mkfifo", "mount", "mv", "perl", "readlink", "rm", "seq", "setsid", "sh", "sleep", "stat", "tail",
    "touch", "tr", "tty", "wc",
];

const DATA: &[&str] =
    &["/usr/lib/locale/C.utf8", "/usr/share/terminfo/x/xterm-256color", "/lib/terminfo/x/xterm-256color"];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000::/home/agent:/bin/bash\n";
const GROUP: &str = "root:x:0:\nagent:x:1000:\nextra:x:4242:agent\n";

/// Gives the engine the image: `/app` is its folder, with one file.
pub(crate) async fn import(socket: &str) {
    let docker = bollard::Docker::connect_with_unix(socket, 60, bollard::API_DEFAULT_VERSION).unwrap();
    let docker = docker.negotiate_version().await.unwrap();
    let options = CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some("clawrl-test".to_owned()),
        tag: Some("small".to_owned()),
        changes: vec!["WORKDIR /app".to_owned(), "ENV FROM_IMAGE=yes".to_owned()],
        ..CreateImageOptions::default()
    };
    let packed = tokio::task::spawn_blocking(pack).await.unwrap();
    let mut steps =
        std::pin::pin!(docker.create_image(Some(options), Some(bollard::body_full(packed.into())), None));
    while let Some(step) = steps.next().await {
        step.unwrap();
    }
}

pub(crate) fn pack() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (folder, mode, owner) in [
        ("app", 0o755, 0),
        ("etc", 0o755, 0),
        ("root", 0o700, 0),
        ("tmp", 0o1777, 0),
        ("home", 0o755, 0),
        ("home/agent", 0o755, 1000),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_size(0);
        archive.append_data(&mut header, folder, std::io::empty()).unwrap();
    }
    let mut file = |path: &str, bytes: &[u8], mode| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(mode);
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, path, bytes).unwrap();
    };
    file("etc/passwd", PASSWD.as_bytes(), 0o644);
    file("etc/group", GROUP.as_bytes(), 0o644);
    file("app/in-image.txt", b"from the image\n", 0o644);
    // Files that a shell expects for its locale and its terminal.
    for data in DATA {
        let files = Command::new("find").args([data, "-type", "f"]).output().unwrap();
        for path in String::from_utf8_lossy(&files.stdout).lines() {
            file(path.trim_start_matches('/'), &std::fs::read(path).unwrap(), 0o644);
        }
    }
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        let path = found(program);
        file(&format!("bin/{program}"), &std::fs::read(&path).unwrap(), 0o755);
        let output = Command::new("ldd").arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        libraries.extend(said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    for library in libraries {
        // Where the loader looks for it, whatever links lead there on this machine.
        let inside = library.strip_prefix("/").unwrap().display().to_string();
        file(&inside, &std::fs::read(&library).unwrap(), 0o755);
    }
    archive.into_inner().unwrap()
}

fn found(program: &str) -> PathBuf {
    ["/usr/bin", "/bin"]
        .map(|folder| Path::new(folder).join(program))
        .into_iter()
        .find(|path| path.exists())
        .unwrap()
}
