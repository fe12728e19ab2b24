//! Resolves user names from the container's own files, as an engine does.

use clawrl_core::{Boundary, Fault};

use super::root::ContainerRoot;

/// User and group files are small; a larger one is ignored.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerUser {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Supplementary groups.
    pub(super) groups: Vec<u32>,
    pub(super) name: String,
    pub(super) home: String,
}

impl ContainerUser {
    /// Resolves `USER` or `USER:GROUP`, each a name or a number; empty for root. Blocks.
    ///
    /// # Errors
    /// A permanent provider [`Fault`] for a name that the container does not know.
    pub(super) fn find(root: &ContainerRoot, wanted: &str) -> Result<Self, Fault> {
        let text = |path| {
            let bytes = root.read_trusting_links(path, MAX_BYTES).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Self::among(&text("/etc/passwd"), &text("/etc/group"), wanted).ok_or_else(|| {
            let message =
                format!("the image's /etc/passwd lacks the user `{wanted}`: use a listed name, or a number");
            Fault::permanent(Boundary::Provider, "no-such-user", message)
        })
    }

    fn among(passwd: &str, group: &str, wanted: &str) -> Option<Self> {
        let (user, wanted_group) = match wanted.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (wanted, None),
        };
        let user = if user.is_empty() { "0" } else { user };
        let number: Option<u32> = user.parse().ok();
        let known = passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let uid: u32 = fields.get(2)?.parse().ok()?;
            (fields[0] == user || number == Some(uid)).then(|| {
                let gid = fields.get(3).and_then(|gid| gid.parse().ok()).unwrap_or(0);
                let home = fields.get(5).copied().filter(|home| home.starts_with('/')).unwrap_or("/");
                Self { uid, gid, groups: Vec::new(), name: fields[0].to_owned(), home: home.to_owned() }
            })
        });
        let mut found = match (known, number) {
            // Id 0 is always root, whatever the agent wrote into the file.
            (known, _) if user == "root" || number == Some(0) => {
                let home =
                    known.filter(|known| known.uid == 0).map_or("/root".to_owned(), |known| known.home);
                Self { uid: 0, gid: 0, groups: Vec::new(), name: "root".to_owned(), home }
            }
            (Some(known), _) => known,
            (None, Some(uid)) => {
                Self { uid, gid: 0, groups: Vec::new(), name: user.to_owned(), home: "/".to_owned() }
            }
            (None, None) => return None,
        };
        let groups = || {
            group.lines().filter_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                Some((
                    fields[0],
                    fields.get(2)?.parse::<u32>().ok()?,
                    fields.get(3).copied().unwrap_or_default(),
                ))
            })
        };
        match wanted_group.filter(|group| !group.is_empty()) {
            Some(wanted) => {
                let number = wanted.parse().ok();
                found.gid =
                    number.or_else(|| groups().find(|group| group.0 == wanted).map(|group| group.1))?;
            }
            None => {
                found.groups = groups()
                    .filter(|(_, gid, members)| {
                        *gid != found.gid && members.split(',').any(|member| member == found.name)
                    })
                    .map(|(_, gid, _)| gid)
                    .collect();
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1001:A:/home/agent:/bin/sh\nodd:x:7\n";
    const GROUP: &str = "root:x:0:\nsudo:x:27:agent,other\nagent:x:1001:agent\nvideo:x:44:other\n";

    fn check(wanted: &str, expected: Option<(u32, u32, &[u32], &str)>) {
        let found = ContainerUser::among(PASSWD, GROUP, wanted);
        let found =
            found.as_ref().map(|user| (user.uid, user.gid, user.groups.as_slice(), user.home.as_str()));
        assert_eq!(found, expected, "{wanted:?}");
    }

    #[test]
    fn users_are_names_or_numbers() {
        check("", Some((0, 0, &[], "/root")));
        check("root", Some((0, 0, &[], "/root")));
        check("agent", Some((1000, 1001, &[27], "/home/agent")));
        check("1000", Some((1000, 1001, &[27], "/home/agent")));
        check("agent:video", Some((1000, 44, &[], "/home/agent")));
        check("agent:5", Some((1000, 5, &[], "/home/agent")));
        check("4711", Some((4711, 0, &[], "/")));
        check("odd", Some((7, 0, &[], "/")));
        check("nobody", None);
        check("agent:nogroup", None);
    }

    #[test]
    fn root_stays_root() {
        let found = ContainerUser::among("root:x:1000:1000::/tmp:/bin/sh\n", "", "root").unwrap();
        assert_eq!((found.uid, found.gid, found.home.as_str()), (0, 0, "/root"));
    }
}
