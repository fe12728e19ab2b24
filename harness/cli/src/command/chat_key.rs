//! Finds the key for a chat server.
//!
//! I1. A key that `clawrl serve` created is sent to local servers only, unless the user names it explicitly.

use std::net::IpAddr;
use std::path::PathBuf;

use clawrl_core::is_localhost;
use clawrl_remote::Secret;
use clawrl_runtime::environment::Variable;
use clawrl_serve::first_key;

use super::chat::Arguments;
use crate::exit_code::Exit;
use crate::failure::Failure;

/// The key for the server; `None` if there is none, since a server may not need one.
pub(super) fn key(arguments: &Arguments) -> Result<Option<Secret>, Failure> {
    let is_here = is_here(&arguments.base_url);
    let (text, place) = if let Some(file) = &arguments.key_file {
        let help = "`clawrl serve` tells where its keys are when it starts";
        let missing =
            || Failure::with_help(Exit::Refused, format!("there is no file {}", file.display()), help);
        (first_key(file)?.ok_or_else(missing)?, file.display().to_string())
    } else if let Some(key) = Variable::ChatKey.value() {
        (key, Variable::ChatKey.name().to_owned())
    } else {
        let file = usual_file(arguments);
        match is_here.then(|| first_key(&file)).transpose()?.flatten() {
            Some(key) => (key, file.display().to_string()),
            None => return Ok(None),
        }
    };
    if !is_here && arguments.base_url.starts_with("http://") {
        tracing::warn!(
            "the key goes to {} unencrypted; use https:// if the server has it",
            host(&arguments.base_url)
        );
    }
    let none =
        || Failure::new(Exit::Refused, format!("{place} has no key, which is one word of plain characters"));
    Secret::new(&text).map(Some).ok_or_else(none)
}

/// The key file of `clawrl serve`.
pub(super) fn usual_file(arguments: &Arguments) -> PathBuf {
    arguments.data.clone().unwrap_or_else(|| arguments.results.dir().join("chat")).join("keys")
}

/// Whether the server of this base URL is on this machine.
fn is_here(base_url: &str) -> bool {
    let host = host(base_url);
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    address
        .parse::<IpAddr>()
        .map_or_else(|_| is_localhost(&host.to_ascii_lowercase()), |address| address.is_loopback())
}

/// The host of a valid base URL.
fn host(base_url: &str) -> &str {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_this_machine_is_known_by_its_own_names() {
        let check = |base_url: &str, expected| assert_eq!(is_here(base_url), expected, "{base_url}");
        check("http://127.0.0.1:30000/v1", true);
        check("http://localhost/v1", true);
        check("https://LOCALHOST:1", true);
        check("http://[::1]:30000/v1", true);
        check("http://[::1]", true);
        check("http://127.1.2.3", true);
        check("http://10.0.0.1:30000/v1", false);
        check("http://127.0.0.1.example:30000/v1", false);
        check("https://localhost.example/v1", false);
        check("http://[2001:db8::1]:30000/v1", false);
    }
}
