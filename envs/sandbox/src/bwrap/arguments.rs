//! The command line of bubblewrap, which determines what a sandbox sees.

use std::path::{Path, PathBuf};

use clawrl_core::{Determinism, Fault, NetworkPolicy};

use super::image::Image;
use super::view::{MountPoint, view};
use crate::spec::announcement;
use crate::{FileKind, SandboxCommand, SandboxSpec};

/// Path of the workspace in a sandbox without an image.
pub const WORKSPACE: &str = "/work";

/// User and group id inside every sandbox.
pub(crate) const INSIDE_ID: u32 = 1000;

pub(super) const HOME: &str = "/home/agent";

pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Entries of the host's `/etc` that programs need to start. Nothing else of `/etc` is visible: no shadow file, no host
/// names, no keys. Each entry is one mount, which costs a tenth of a millisecond per start.
const SHARED_ETC: &[&str] = &["/etc/alternatives", "/etc/ld.so.cache", "/etc/vim"];

/// Top-level folders that are symbolic links into `/usr` on merged systems and real folders on others.
const SYSTEM_FOLDERS: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// The inputs of a command line besides the specification.
#[derive(Debug, Clone, Copy)]
pub(super) struct MountContext<'a> {
    /// The root file system. `None`: the host's programs.
    pub(super) image: Option<&'a Image>,
    /// Host folders that back the specification's folders, in the same order; `None` for a writable one.
    pub(super) staged: &'a [Option<PathBuf>],
}

impl MountContext<'_> {
    /// Absolute path of the workspace inside.
    pub(super) fn workspace(&self) -> &str {
        self.image.map_or(WORKSPACE, |image| &image.workdir)
    }

    /// Whether a path lies in one of the writable file systems, so that it does not need its own.
    pub(super) fn has_room_for(&self, path: &str) -> bool {
        self.scratch().iter().any(|place| Path::new(path).starts_with(place))
    }

    /// Further writable file systems, each as large as the workspace.
    pub(super) fn scratch(&self) -> &'static [&'static str] {
        if self.image.is_some() { &["/dev/shm", "/tmp", "/logs", HOME] } else { &["/dev/shm", "/tmp", HOME] }
    }
}

/// Options of bubblewrap for a specification, in order, and the contents for its `{fd:N}` placeholders.
pub(super) fn hidden(
    spec: &SandboxSpec,
    determinism: &Determinism,
    ground: MountContext<'_>,
) -> Result<(Vec<String>, Vec<String>), Fault> {
    let mut list = List::default();
    list.add(&["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]);
    if !spec.inner_sandbox {
        list.add(&["--disable-userns"]);
    }
    list.add(&["--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]);
    if spec.network == NetworkPolicy::None {
        list.add(&["--unshare-net"]);
    }
    let id = INSIDE_ID.to_string();
    list.add(&["--uid", &id, "--gid", &id]);
    list.environment(spec, determinism);
    let files = files(spec, ground.image);
    let present = match ground.image {
        None => {
            list.system();
            vec![false; files.len()]
        }
        Some(image) => list.image(image, spec, ground, &files)?,
    };
    list.add(&["--proc", "/proc", "--dev", "/dev"]);
    for ((path, content), present) in files.iter().zip(present) {
        list.file(path, content, present);
    }
    list.writable(u64::from(spec.limits.disk_mib) << 20, spec, ground);
    Ok((list.arguments, list.data))
}

/// Files that the sandbox itself provides.
fn files(spec: &SandboxSpec, image: Option<&Image>) -> Vec<(String, String)> {
    let id = INSIDE_ID;
    let root = ("root:x:0:0::/root:/usr/sbin/nologin\n".to_owned(), "root:x:0:\n".to_owned());
    let (passwd, group) = match image {
        Some(image) if !image.passwd.is_empty() => {
            (without_agent(&image.passwd), without_agent(&image.group))
        }
        _ => root,
    };
    let own = [
        ("/etc/passwd", format!("{passwd}agent:x:{id}:{id}::{HOME}:/bin/bash\n")),
        ("/etc/group", format!("{group}agent:x:{id}:\n")),
        ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 sandbox\n".to_owned()),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
    ];
    own.map(|(path, content)| (path.to_owned(), content))
        .into_iter()
        .chain(spec.support_files.clone())
        .collect()
}

/// The image's accounts, without those that have the agent's name or number.
fn without_agent(accounts: &str) -> String {
    let id = INSIDE_ID.to_string();
    let others = accounts.lines().filter(|line| {
        let mut fields = line.split(':');
        fields.next() != Some("agent") && fields.nth(1) != Some(&id)
    });
    others.map(|line| format!("{line}\n")).collect()
}

/// The command that bubblewrap runs.
pub(crate) fn main_program(spec: &SandboxSpec) -> Vec<String> {
    let before = spec.announced_by.before("/bin/sh", &announcement(&spec.limits));
    let main = std::iter::once(&spec.main.program).chain(&spec.main.arguments).cloned();
    std::iter::once("--".to_owned()).chain(before).chain(main).collect()
}

/// The environment of every program in a sandbox; no variable of the host is passed on.
pub(crate) fn variables(command: &SandboxCommand, determinism: &Determinism) -> Vec<(String, String)> {
    let fixed = [
        ("PATH", PATH.to_owned()),
        ("HOME", HOME.to_owned()),
        ("USER", "agent".to_owned()),
        ("LOGNAME", "agent".to_owned()),
        ("SHELL", "/bin/bash".to_owned()),
        ("TERM", "xterm-256color".to_owned()),
    ];
    let own = command.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value));
    fixed.chain(determinism.variables()).chain(own).collect()
}

#[derive(Default)]
struct List {
    arguments: Vec<String>,
    data: Vec<String>,
}

impl List {
    fn add(&mut self, arguments: &[&str]) {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
    }

    fn environment(&mut self, spec: &SandboxSpec, determinism: &Determinism) {
        self.add(&["--clearenv"]);
        for (name, value) in variables(&spec.main, determinism) {
            self.add(&["--setenv", &name, &value]);
        }
    }

    fn system(&mut self) {
        self.add(&["--ro-bind", "/usr", "/usr"]);
        for folder in SYSTEM_FOLDERS {
            match std::fs::read_link(folder) {
                Ok(target) => self.add(&["--symlink", &target.to_string_lossy(), folder]),
                Err(_) if Path::new(folder).is_dir() => self.add(&["--ro-bind", folder, folder]),
                Err(_) => {}
            }
        }
        for path in SHARED_ETC {
            self.add(&["--ro-bind-try", path, path]);
        }
        self.add(&["--symlink", "../usr/lib/os-release", "/etc/os-release"]);
    }

    /// Mounts the image. Returns, for each file, whether the image already has an entry at its path.
    fn image(
        &mut self,
        image: &Image,
        spec: &SandboxSpec,
        ground: MountContext<'_>,
        files: &[(String, String)],
    ) -> Result<Vec<bool>, Fault> {
        let point = |path: &str, kind| MountPoint { path: path.into(), kind };
        let folders =
            ground.scratch().iter().copied().chain(spec.folders.iter().map(|folder| folder.path.as_str()));
        let shown =
            spec.read_only.iter().map(|path| MountPoint { path: path.clone(), kind: FileKind::Folder });
        let files = files.iter().map(|(path, _)| point(path, FileKind::Regular));
        let count = files.len();
        let folders = folders.chain([image.workdir.as_str()]).map(|path| point(path, FileKind::Folder));
        let points: Vec<MountPoint> = files.chain(folders).chain(shown).collect();
        let view = view(image, &points)?;
        self.arguments.extend(view.arguments);
        Ok(view.present[..count].to_vec())
    }

    /// Adds a file that nothing inside can change: in the sandbox's own root, which becomes read-only, or mounted over
    /// an existing file.
    fn file(&mut self, path: &str, content: &str, over: bool) {
        let place = format!("{{fd:{}}}", self.data.len());
        self.data.push(content.to_owned());
        let option = if over { "--ro-bind-data" } else { "--file" };
        self.add(&["--perms", "0444", option, &place, path]);
    }

    fn writable(&mut self, disk_bytes: u64, spec: &SandboxSpec, ground: MountContext<'_>) {
        let size = disk_bytes.to_string();
        for &path in ground.scratch() {
            let mode = if path == HOME { "0700" } else { "1777" };
            self.add(&["--size", &size, "--perms", mode, "--tmpfs", path]);
        }
        for (folder, staged) in spec.folders.iter().zip(ground.staged) {
            match staged {
                Some(host) => self.add(&["--ro-bind", &host.to_string_lossy(), &folder.path]),
                None if ground.has_room_for(&folder.path) => self.add(&["--dir", &folder.path]),
                None => self.add(&["--size", &size, "--perms", "0755", "--tmpfs", &folder.path]),
            }
        }
        let workspace = ground.workspace();
        self.add(&["--size", &size, "--perms", "0755", "--tmpfs", workspace]);
        // Mounted after everything that may contain them: a folder below the host's `/tmp` lies in the sandbox's own
        // `/tmp`.
        for path in &spec.read_only {
            let path = path.to_string_lossy();
            self.add(&["--ro-bind", &path, &path]);
        }
        self.add(&["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", workspace]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_account_is_unique_in_image() {
        let check =
            |accounts: &str, expected: &str| assert_eq!(without_agent(accounts), expected, "{accounts}");
        check(
            "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/opt/node:/bin/sh",
            "root:x:0:0::/root:/bin/sh\n",
        );
        check("agent:x:7:\nusers:x:100:\n", "users:x:100:\n");
        check("", "");
    }
}
