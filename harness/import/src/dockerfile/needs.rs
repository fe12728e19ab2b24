//! Finds RUN commands that a sandbox cannot run: those that need a network or root.
//!
//! The first word of each simple command is checked, so that such a command is refused at its line and not by the
//! thousandth attempt. A command that hides the program fails during setup, and the error names it.

/// Programs that use the network, and which of their subcommands do; an empty list means all.
const FETCHING: [(&str, &[&str]); 31] = [
    ("apt-get", &[]),
    ("apt", &[]),
    ("aptitude", &[]),
    ("apk", &[]),
    ("yum", &[]),
    ("dnf", &[]),
    ("microdnf", &[]),
    ("zypper", &[]),
    ("pacman", &[]),
    ("conda", &[]),
    ("mamba", &[]),
    ("pip", &["install", "download", "wheel"]),
    ("pip3", &["install", "download", "wheel"]),
    ("pipx", &[]),
    ("uv", &[]),
    ("uvx", &[]),
    ("poetry", &["install", "add", "update", "lock"]),
    ("npm", &["install", "i", "ci", "add", "update"]),
    ("npx", &[]),
    ("yarn", &[]),
    ("pnpm", &["install", "i", "add", "update"]),
    ("gem", &["install", "update"]),
    ("bundle", &[]),
    ("cargo", &["install", "fetch", "add", "update"]),
    ("go", &["get", "install", "mod"]),
    ("curl", &[]),
    ("wget", &[]),
    ("git", &["clone", "fetch", "pull", "submodule"]),
    ("ssh", &[]),
    ("scp", &[]),
    ("rsync", &[]),
];

/// Programs that only root can use.
const ROOTS: [&str; 15] = [
    "useradd",
    "adduser",
    "groupadd",
    "addgroup",
    "usermod",
    "chown",
    "chgrp",
    "mount",
    "umount",
    "systemctl",
    "service",
    "update-alternatives",
    "ldconfig",
    "dpkg",
    "chpasswd",
];

/// Words that may precede the program.
const BEFORE: [&str; 13] =
    ["sudo", "env", "exec", "time", "then", "do", "else", "if", "while", "until", "!", "{", "command"];

/// A missing capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// The program that uses the network.
    Network(String),
    /// The program that needs root.
    Root(String),
}

/// The first missing capability of a shell text.
pub(crate) fn need(text: &str) -> Option<Need> {
    simple_commands(text).iter().find_map(|words| {
        let mut words = words.iter().map(String::as_str);
        let program =
            words.find(|word| !BEFORE.contains(word) && !is_assignment(word) && !word.starts_with('-'))?;
        let name = program.rsplit('/').next().unwrap_or(program);
        let rest: Vec<&str> = words.collect();
        if matches!(name, "python" | "python3") {
            let module = rest.windows(2).find(|pair| pair[0] == "-m").map(|pair| pair[1]);
            let fetches = module == Some("pip")
                && rest.iter().any(|word| ["install", "download", "wheel"].contains(word));
            return fetches.then(|| Need::Network("pip".to_owned()));
        }
        if ROOTS.contains(&name) {
            return Some(Need::Root(name.to_owned()));
        }
        let (_, verbs) = FETCHING.iter().find(|(fetching, _)| *fetching == name)?;
        let fetches = verbs.is_empty() || rest.iter().any(|word| verbs.contains(word));
        fetches.then(|| Need::Network(name.to_owned()))
    })
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The words of the simple commands of a text, without quotes. Precise enough to find programs.
pub(crate) fn simple_commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut comment = false;
    for character in text.chars() {
        if comment {
            comment = character != '\n';
            if comment {
                continue;
            }
        }
        match (quote, character) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => quote = Some(character),
            (None, '#') if word.is_empty() => comment = true,
            (None, c) if c.is_whitespace() || ";&|()`".contains(c) => {
                if !word.is_empty() {
                    let word = std::mem::take(&mut word);
                    commands.last_mut().into_iter().for_each(|command| command.push(word.clone()));
                }
                if c == '\n' || ";&|()`".contains(c) {
                    commands.push(Vec::new());
                }
            }
            (None, c) => word.push(c),
        }
    }
    if !word.is_empty() {
        commands.last_mut().into_iter().for_each(|command| command.push(word.clone()));
    }
    commands.retain(|command| command.iter().any(|word| !word.is_empty()));
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<Need>) {
        assert_eq!(need(text), expected, "{text}");
    }

    #[test]
    fn network_commands_are_found() {
        let network = |name: &str| Some(Need::Network(name.to_owned()));
        check("apt-get update && apt-get install -y x", network("apt-get"));
        check("mkdir a; DEBIAN_FRONTEND=x sudo apt install b", network("apt"));
        check("/usr/bin/python3 -m pip install x", network("pip"));
        check("pip install -r r.txt || true", network("pip"));
        check("if true; then curl x; fi", network("curl"));
        check("a=$(wget -O- x)", network("wget"));
        check("git clone x", network("git"));
    }

    #[test]
    fn root_commands_are_found() {
        check("useradd -m x", Some(Need::Root("useradd".to_owned())));
        check("cd /app && chown -R a:a .", Some(Need::Root("chown".to_owned())));
    }

    #[test]
    fn other_commands_are_accepted() {
        check("git init && git add . && git commit -m 'apt-get install'", None);
        check("echo apt-get; pip --version; npm run build # curl x", None);
        check("python3 -m venv x && python3 build.py", None);
        check("cargo build --offline", None);
    }
}
