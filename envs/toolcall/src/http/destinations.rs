//! Permitted network addresses.
//!
//! R1. A name resolves to public addresses only, whatever a name server answers, unless the exact address is permitted.
//! R2. An address embedded in another one, as IPv6 embeds IPv4 addresses in several ways, is judged as the embedded
//! one.

use std::collections::BTreeSet;
use std::net::IpAddr;

use clawrl_core::{AllowedUrl, is_public};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Destinations {
    /// Any address that the suite's author named.
    Anything,
    /// Public addresses, and the listed ones.
    Public {
        besides: BTreeSet<IpAddr>,
        /// This machine, by its own name.
        localhost: bool,
    },
}

impl Destinations {
    /// Derived from a list of permitted URLs.
    pub(crate) fn of(allowed: &[AllowedUrl]) -> Self {
        Self::Public {
            besides: allowed.iter().filter_map(AllowedUrl::address).collect(),
            localhost: allowed.iter().any(AllowedUrl::is_localhost),
        }
    }

    /// Whether an address is permitted.
    pub(crate) fn allows(&self, address: IpAddr, is_localhost: bool) -> bool {
        match self {
            Self::Anything => true,
            Self::Public { besides, localhost } => {
                let by_name = *localhost && is_localhost && address.is_loopback();
                by_name || besides.contains(&address) || is_public(address)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &[&str], address: &str, is_localhost: bool, expected: bool) {
        let allowed: Vec<_> = allowed.iter().map(|text| AllowedUrl::parse(text).unwrap()).collect();
        let found = Destinations::of(&allowed).allows(address.parse().unwrap(), is_localhost);
        assert_eq!(found, expected, "{address}");
    }

    #[test]
    fn r1_r2_private_addresses_are_named_or_not_reached() {
        let names = ["https://api.example.com/"];
        // The classification of private addresses is tested in its own module.
        for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1"] {
            check(&names, address, false, false);
        }
        for address in ["93.184.215.14", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"] {
            check(&names, address, false, true);
        }
        check(&["http://127.0.0.1:8000/"], "127.0.0.1", false, true);
        check(&["http://127.0.0.1:8000/"], "127.0.0.2", false, false);
        check(&["http://localhost:8000/"], "127.0.0.1", true, true);
        check(&["http://localhost:8000/"], "127.0.0.1", false, false);
        check(&["http://localhost:8000/"], "10.0.0.1", true, false);
    }
}
