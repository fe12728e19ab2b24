//! Maps the path of a request to the name of a file.
//!
//! P1. The name is only used for look-ups among names; even so it never starts with `/`, and contains no `..`, no empty
//! component and no NUL.
//! P2. A path is decoded once. An encoded slash does not separate: it is part of no name.

use percent_encoding::percent_decode_str;

/// The path in readable form. Invalid UTF-8 is replaced.
pub(super) fn shown(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// The file that a path stands for, relative to the site's root; for a folder, its `index.html`.
pub(super) fn file_name(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.strip_prefix('/')?.split('/') {
        parts.push(percent_decode_str(part).decode_utf8().ok()?);
    }
    if let Some(last) = parts.last_mut()
        && last.is_empty()
    {
        *last = "index.html".into();
    }
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['/', '\0']);
    parts.iter().all(|part| is_name(part)).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(path: &str, expected: Option<&str>) {
        assert_eq!(file_name(path).as_deref(), expected, "{path:?}");
    }

    #[test]
    fn paths_stand_for_files() {
        check("/", Some("index.html"));
        check("/a/", Some("a/index.html"));
        check("/a/b.html", Some("a/b.html"));
        check("/a%20b/%C3%A9.txt", Some("a b/é.txt"));
        check("/a\\b", Some("a\\b"));
        check("/100%", Some("100%"));
    }

    #[test]
    fn p1_p2_paths_that_lead_elsewhere_stand_for_nothing() {
        for path in [
            "",
            "a",
            "*",
            "//",
            "//etc/passwd",
            "/a//b",
            "/..",
            "/../x",
            "/a/../b",
            "/%2e%2e/x",
            "/%2E./x",
            "/./x",
            "/a%2Fb",
            "/..%2fx",
            "/%00",
            "/a%00.html",
            "/%ff",
        ] {
            check(path, None);
        }
        // Decoded once: the result is a name like any other.
        check("/%252e%252e/x", Some("%2e%2e/x"));
        check("/..%5cx", Some("..\\x"));
    }

    proptest! {
        #[test]
        fn p1_names_are_plain(path in "(/|%2[eEfF]|%00|%5c|\\.|\\\\|[a-c]){0,24}") {
            if let Some(name) = file_name(&format!("/{path}")) {
                prop_assert!(!name.contains('\0'), "{name}");
                prop_assert!(name.split('/').all(|part| !matches!(part, "" | "." | "..")), "{name}");
                prop_assert_eq!(name.matches('/').count(), path.matches('/').count());
            }
        }
    }
}
