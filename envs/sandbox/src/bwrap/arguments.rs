//! The arguments of bubblewrap: what a sandbox sees.

use std::path::Path;

use clawrl_core::{Determinism, NetworkPolicy};

use crate::backend::announcement;
use crate::{Announcer, SandboxCommand, SandboxSpec};

/// Folder of the workspace inside every sandbox.
pub(super) const WORKSPACE: &str = "/work";

/// User and group id inside every sandbox.
pub(crate) const INSIDE_ID: u32 = 1000;

const HOME: &str = "/home/agent";

/// What of the host's `/etc` programs need to start. Nothing else of it is there: no shadow, no host names, no
/// keys. Each is a mount, which is a tenth of a millisecond of every start.
const SHARED_ETC: &[&str] = &["/etc/alternatives", "/etc/ld.so.cache", "/etc/vim"];

/// Top-level folders that are symbolic links into `/usr` on merged systems and folders on others.
const SYSTEM_FOLDERS: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Options of bubblewrap for a specification, in order, and the contents for its `{fd:N}` places.
pub(crate) fn hidden(spec: &SandboxSpec, determinism: &Determinism) -> (Vec<String>, Vec<String>) {
    let mut list = List::default();
    list.add(&["--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]);
    list.add(&["--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]);
    if spec.network == NetworkPolicy::None {
        list.add(&["--unshare-net"]);
    }
    let id = INSIDE_ID.to_string();
    list.add(&["--uid", &id, "--gid", &id]);
    list.environment(spec, determinism);
    list.system();
    list.files(spec);
    list.writable(u64::from(spec.limits.disk_mib) << 20);
    (list.arguments, list.data)
}

/// What bubblewrap runs.
pub(crate) fn main_program(spec: &SandboxSpec) -> Vec<String> {
    let script = format!("{}; exec \"$@\"", announcement(&spec.limits));
    let before: &[&str] = match spec.announced_by {
        Announcer::Wrapper => &["--", "/bin/sh", "-c", &script, "sh", &spec.main.program],
        Announcer::Main => &["--", &spec.main.program],
    };
    before.iter().map(|&argument| argument.to_owned()).chain(spec.main.arguments.iter().cloned()).collect()
}

/// The variables of every program in a sandbox: never one of the host's.
pub(crate) fn variables(command: &SandboxCommand, determinism: &Determinism) -> Vec<(String, String)> {
    let fixed = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned()),
        ("HOME", HOME.to_owned()),
        ("USER", "agent".to_owned()),
        ("LOGNAME", "agent".to_owned()),
        ("SHELL", "/bin/bash".to_owned()),
        ("TERM", "xterm-256color".to_owned()),
        ("TZ", determinism.time_zone.clone()),
        ("LANG", determinism.locale.clone()),
        ("LC_ALL", determinism.locale.clone()),
        ("SOURCE_DATE_EPOCH", determinism.source_date_epoch.to_string()),
    ];
    let hash_seed = determinism.python_hash_seed.map(|seed| ("PYTHONHASHSEED".to_owned(), seed.to_string()));
    let own = command.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(hash_seed).chain(own).collect()
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
        self.add(&["--proc", "/proc", "--dev", "/dev"]);
    }

    fn files(&mut self, spec: &SandboxSpec) {
        let id = INSIDE_ID;
        self.file(
            "/etc/passwd",
            &format!("root:x:0:0::/root:/usr/sbin/nologin\nagent:x:{id}:{id}::{HOME}:/bin/bash\n"),
        );
        self.file("/etc/group", &format!("root:x:0:\nagent:x:{id}:\n"));
        self.file("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 sandbox\n");
        self.file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
        for (path, content) in &spec.support_files {
            self.file(path, content);
        }
    }

    /// A file of the sandbox's own root, which becomes read-only.
    fn file(&mut self, path: &str, content: &str) {
        let place = format!("{{fd:{}}}", self.data.len());
        self.data.push(content.to_owned());
        self.add(&["--perms", "0444", "--file", &place, path]);
    }

    fn writable(&mut self, disk_bytes: u64) {
        let size = disk_bytes.to_string();
        self.add(&["--size", &size, "--perms", "1777", "--tmpfs", "/dev/shm"]);
        self.add(&["--size", &size, "--perms", "1777", "--tmpfs", "/tmp"]);
        self.add(&["--size", &size, "--perms", "0700", "--tmpfs", HOME]);
        self.add(&["--size", &size, "--perms", "0755", "--tmpfs", WORKSPACE]);
        self.add(&["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORKSPACE]);
    }
}
