//! Rules for single values: names, paths, modes, patterns, keys. Each reports the mistake and the correction.

use regex::Regex;
use url::Url;

/// A mistake in a value, and its correction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadValue {
    pub(crate) message: String,
    pub(crate) help: String,
}

fn bad<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, BadValue> {
    Err(BadValue { message: message.into(), help: help.into() })
}

/// Key names in the order of messages. F1 to F12, single characters, and the prefixes `C-`, `M-` and `S-` are also allowed. Names
/// are case-insensitive.
pub(crate) const KEY_NAMES: [&str; 15] = [
    "Enter",
    "Tab",
    "Escape",
    "Space",
    "Backspace",
    "Delete",
    "Insert",
    "Up",
    "Down",
    "Left",
    "Right",
    "Home",
    "End",
    "PageUp",
    "PageDown",
];

/// Other names of the same keys.
const KEY_ALIASES: [&str; 6] = ["return", "esc", "del", "ins", "pgup", "pgdn"];

/// Signals that can be sent to the foreground job.
pub(crate) const SIGNALS: [&str; 6] = ["INT", "TERM", "KILL", "TSTP", "CONT", "QUIT"];

/// Words that the template language keeps for itself.
const RESERVED: [&str; 18] = [
    "and", "or", "not", "in", "is", "if", "elif", "else", "for", "endfor", "endif", "set", "true", "false",
    "none", "loop", "self", "range",
];

/// Ids of suites and tasks.
pub(crate) fn id(text: &str) -> Result<(), BadValue> {
    name(text, "a suite or task", "my-task")
}

/// Checks a tool name: model servers accept it, and it differs from the tool that every task has.
pub(crate) fn tool_name(text: &str) -> Result<(), BadValue> {
    if text == "submit" {
        return bad(
            "every task has a tool `submit`, which ends the episode",
            "give this one another name, such as `send`",
        );
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=64).contains(&text.len()) && text.chars().all(allowed) {
        return Ok(());
    }
    bad(
        format!("`{text}` is not a name for a tool"),
        "use 1 to 64 letters without accents, digits, `_` and `-`; a name is no template",
    )
}

/// Names of servers.
pub(crate) fn server_name(text: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=64).contains(&text.len()) && text.chars().all(allowed) {
        return Ok(());
    }
    bad(
        format!("`{text}` is not a name for a server"),
        "use 1 to 64 letters without accents, digits, `_` and `-`; a name is no template",
    )
}

/// Checks a prefix of tool names.
pub(crate) fn tool_prefix(text: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if text.len() <= 32 && text.chars().all(allowed) {
        return Ok(());
    }
    bad(
        format!("`{text}` cannot stand before the name of a tool"),
        "use up to 32 letters without accents, digits, `_` and `-`, such as `docs_`",
    )
}

/// Names of HTTP headers.
pub(crate) fn header_name(text: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if (1..=256).contains(&text.len()) && text.chars().all(allowed) {
        return Ok(());
    }
    bad(
        format!("`{text}` cannot be the name of a header"),
        "use letters without accents, digits and `-`, such as `X-Request-Id`",
    )
}

/// Names of sites, which are parts of host names.
pub(crate) fn site_name(text: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=63).contains(&text.len())
        && text.chars().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
    {
        return Ok(());
    }
    bad(
        format!("`{text}` is not a name for a site"),
        "use up to 63 lower-case letters, digits and `-`, such as `shop`: its address is http://shop.localhost",
    )
}

/// Checks an origin: a scheme, a host and an optional port.
pub(crate) fn origin(text: &str) -> Result<(), BadValue> {
    let bare = Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    });
    if bare {
        return Ok(());
    }
    let help = match origin_of(text) {
        Some(origin) => format!("write `{origin}`"),
        None => "write scheme, host and port: `https://example.org`, `http://127.0.0.1:8080`".to_owned(),
    };
    bad(format!("`{text}` is no origin"), help)
}

/// The origin of an address, as browsers compare them.
pub(crate) fn origin_of(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.origin().ascii_serialization())
}

/// First pages: addresses, or paths.
pub(crate) fn start_page(text: &str) -> Result<(), BadValue> {
    if text.starts_with('/') || origin_of(text).is_some() {
        return Ok(());
    }
    bad(
        format!("`{text}` is no address of a page"),
        "write `http://NAME.localhost/page.html`, or a path of the first site: `/page.html`",
    )
}

/// Paths of files of a site.
pub(crate) fn site_path(text: &str) -> Result<(), BadValue> {
    match text.strip_prefix('/') {
        Some(path) if !path.contains(['?', '#', '*']) => Ok(()),
        Some(_) => bad(
            format!("`{text}` is more than a path"),
            "leave the query and the fragment out: `/index.html`",
        ),
        None => bad(format!("`{text}` is no path of a site"), format!("start with a slash: `/{text}`")),
    }
}

/// Paths of requests, which may end in any rest.
pub(crate) fn path_of_requests(text: &str) -> Result<(), BadValue> {
    site_path(text.strip_suffix('*').unwrap_or(text)).map_err(|found| match text.find('*') {
        Some(at) if at + 1 < text.len() => BadValue {
            message: format!("`{text}` has a `*` in the middle"),
            help: "a `*` stands at the end alone, for any rest: `/api/*`".to_owned(),
        },
        _ => found,
    })
}

/// Methods of HTTP.
pub(crate) fn method(text: &str) -> Result<(), BadValue> {
    if (1..=20).contains(&text.len()) && text.chars().all(|c| c.is_ascii_uppercase()) {
        return Ok(());
    }
    bad(
        format!("`{text}` is no method"),
        format!(
            "write it in capitals, such as `{}`",
            match text.to_ascii_uppercase() {
                upper if !upper.is_empty() && upper.chars().all(|c| c.is_ascii_uppercase()) => upper,
                _ => "POST".to_owned(),
            }
        ),
    )
}

/// Values of HTTP headers.
pub(crate) fn header_value(text: &str) -> Result<(), BadValue> {
    if text.chars().all(|c| !c.is_control() || c == '\t') {
        return Ok(());
    }
    bad("a header cannot have line breaks or control characters", "write it on one line")
}

/// Cookies as sites set them.
pub(crate) fn set_cookie(text: &str) -> Result<(), BadValue> {
    header_value(text)?;
    let pair = text.split(';').next().and_then(|pair| pair.split_once('='));
    if pair.is_some_and(|(name, _)| !name.trim().is_empty()) {
        return Ok(());
    }
    bad(format!("`{text}` sets no cookie"), "write name and value: `session=7; Path=/`")
}

/// Checks a text to search for.
pub(crate) fn some_text(text: &str) -> Result<(), BadValue> {
    if !text.is_empty() {
        return Ok(());
    }
    bad("every text contains the empty text", "write some text; `equals: \"\"` asks for an empty one")
}

/// Names of files without folders.
pub(crate) fn file_name(text: &str) -> Result<(), BadValue> {
    file_path(text)?;
    if text.contains('/') {
        return bad(format!("`{text}` is in a folder, a name is wanted"), "downloads are all in one folder");
    }
    Ok(())
}

/// Numbers that are finite.
pub(crate) fn finite(text: &str) -> Result<f64, BadValue> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => bad(format!("`{text}` is not a number"), "write one such as 42, -0.5 or 1e-6"),
    }
}

/// Differences that are allowed.
pub(crate) fn tolerance(text: &str) -> Result<f64, BadValue> {
    match finite(text)? {
        number if number >= 0.0 => Ok(number),
        _ => bad(format!("the tolerance cannot be {text}"), "write 0 or more, such as 1e-6"),
    }
}

/// Texts that say something.
pub(crate) fn not_blank(text: &str) -> Result<(), BadValue> {
    if text.trim().is_empty() {
        return bad("there are no words here", "write some, or remove the key");
    }
    Ok(())
}

/// Names of trainings.
pub(crate) fn training_name(text: &str) -> Result<(), BadValue> {
    name(text, "a training", "my-training")
}

/// Names of gates.
pub(crate) fn gate_name(text: &str) -> Result<(), BadValue> {
    name(text, "a gate", "my-gate")?;
    // A run is named after its gate, with the time before it.
    if text.len() > 48 {
        return bad(
            format!("`{text}` is too long for a gate"),
            "use 1 to 48 lower-case letters, digits and dashes",
        );
    }
    Ok(())
}

fn name(text: &str, of: &str, example: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=64).contains(&text.len()) && text.chars().all(allowed) {
        return Ok(());
    }
    let message = format!("`{text}` is not a name for {of}");
    if text.is_empty() || text.len() > 64 {
        return bad(message, "use 1 to 64 lower-case letters, digits and dashes");
    }
    let mut fixed: String =
        text.to_lowercase().chars().map(|c| if allowed(c) { c } else { '-' }).collect::<String>();
    while fixed.contains("--") {
        fixed = fixed.replace("--", "-");
    }
    let fixed = fixed.trim_matches('-');
    let example = if fixed.is_empty() { example } else { fixed };
    bad(message, format!("use lower-case letters, digits and dashes: `{example}`"))
}

/// Names of variables and lists.
pub(crate) fn variable_name(name: &str) -> Result<(), BadValue> {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !starts || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return bad(
            format!("`{name}` cannot be the name of a variable"),
            "use letters, digits and `_`, not starting with a digit: templates must be able to say it",
        );
    }
    if RESERVED.contains(&name.to_lowercase().as_str()) {
        return bad(
            format!("`{name}` is a word of the template language"),
            format!("choose another name, such as `{name}_value`"),
        );
    }
    Ok(())
}

/// Paths inside a folder: the workspace, or the suite's.
pub(crate) fn relative_path(path: &str) -> Result<(), BadValue> {
    let shown = if path.is_empty() { "an empty path" } else { path };
    if path.is_empty() {
        return bad("the path is empty", "name a file or folder, such as `out/result.txt`");
    }
    if path.starts_with('/') {
        return bad(
            format!("`{shown}` is an absolute path"),
            format!("write it relative, without the leading slash: `{}`", path.trim_start_matches('/')),
        );
    }
    if path.split('/').any(|part| part == "..") {
        return bad(
            format!("`{shown}` leaves its folder by `..`"),
            "name something inside; paths start from the workspace, fixtures from the suite's folder",
        );
    }
    if path.contains(['\0', '\n']) || path.split('/').any(|part| part.len() > 255) || path.len() > 4096 {
        return bad(
            "the path has a line break, a zero byte or an overlong part",
            "use names of at most 255 bytes on one line; mind the newline at the end of `|` blocks",
        );
    }
    if path != "." && path.trim_end_matches('/').split('/').any(|part| part.is_empty() || part == ".") {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        return bad(
            format!("`{shown}` is a roundabout way to write a path"),
            format!("write `{}`", parts.join("/")),
        );
    }
    Ok(())
}

/// The path of a file: relative, and not a folder's.
pub(crate) fn file_path(path: &str) -> Result<(), BadValue> {
    relative_path(path)?;
    if path == "." || path.ends_with('/') {
        return bad(format!("`{path}` names a folder, a file is wanted"), "name a file in it");
    }
    Ok(())
}

/// Octal permission bits.
pub(crate) fn mode(text: &str) -> Result<u32, BadValue> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let fits = (3..=4).contains(&digits.len()) && digits.chars().all(|c| ('0'..='7').contains(&c));
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if fits => Ok(mode),
        _ => bad(
            format!("`{text}` is no file mode"),
            "write three octal digits after a zero, in quotes: \"0644\" for data, \"0755\" for programs",
        ),
    }
}

/// A commit: a full or shortened hash.
pub(crate) fn commit(text: &str) -> Result<(), BadValue> {
    if (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    Err(BadValue {
        message: format!("`{text}` is not the hash of a commit"),
        help: "write at least 7 hexadecimal digits, as `git rev-parse HEAD` prints them".to_owned(),
    })
}

/// A pattern of paths in a repository.
pub(crate) fn path_pattern(text: &str) -> Result<(), BadValue> {
    if !text.is_empty() && !text.starts_with('/') && text.split('/').all(|part| part != "..") {
        return Ok(());
    }
    Err(BadValue {
        message: format!("`{text}` is not a pattern of paths"),
        help: "write it from the repository's root on, such as `tests/**` or `*.cfg`".to_owned(),
    })
}

/// Regular expressions.
pub(crate) fn regex(text: &str) -> Result<(), BadValue> {
    match Regex::new(text) {
        Ok(_) => Ok(()),
        Err(error) => {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            bad(
                format!("this regular expression does not compile: {reason}"),
                "escape special characters by a backslash, in single quotes: '\\(', '\\.'; look-around and back-references are not there",
            )
        }
    }
}

/// JSON pointers (RFC 6901).
pub(crate) fn json_pointer(text: &str) -> Result<(), BadValue> {
    if !text.is_empty() && !text.starts_with('/') {
        let path = text.trim_start_matches(['$', '.']).replace(['.', '['], "/").replace(']', "");
        return bad(
            format!("`{text}` is no JSON pointer"),
            format!("start with a slash: `/{path}`; \"\" is the whole file"),
        );
    }
    let mut rest = text;
    while let Some(at) = rest.find('~') {
        rest = &rest[at + 1..];
        if !rest.starts_with(['0', '1']) {
            return bad(
                format!("`{text}` has a lone `~`"),
                "write `~0` for a tilde and `~1` for a slash inside a name",
            );
        }
    }
    Ok(())
}

/// SHA-256 in hex.
pub(crate) fn sha256(text: &str) -> Result<(), BadValue> {
    if text.len() == 64 && text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)) {
        return Ok(());
    }
    let what = if text.len() == 64 {
        "has other characters than 0-9 and a-f".to_owned()
    } else {
        format!("has {} characters instead of 64", text.chars().count())
    };
    bad(
        format!("this SHA-256 {what}"),
        "write 64 lower-case hex digits; `clawrl validate` prints the hash that the oracle leaves",
    )
}

/// Permission bits of a file that is laid out: no set-user-id, set-group-id or sticky bit.
pub(crate) fn fixture_mode(text: &str) -> Result<u32, BadValue> {
    match mode(text)? {
        mode if mode <= 0o777 => Ok(mode),
        _ => bad(
            format!("`{text}` has bits that files of the workspace cannot have"),
            "use the last three digits only, such as \"0755\"; set others in `setup` with `chmod`",
        ),
    }
}

/// Names of keys, separated by spaces.
pub(crate) fn keys(text: &str) -> Result<(), BadValue> {
    if text.split_whitespace().next().is_none() {
        return bad("no key is named", "name keys separated by spaces: `keys: \"Escape : q Enter\"`");
    }
    for name in text.split_whitespace() {
        if !is_key(name) {
            let near = crate::suggest::did_you_mean(name, KEY_NAMES);
            let letters = if name.chars().count() > 1 && near.is_empty() {
                "to type several letters use `text:` instead; "
            } else {
                ""
            };
            return bad(
                format!("there is no key `{name}`"),
                format!(
                    "{near}{letters}keys are {}, F1 to F12, `C-c`, `M-x` and single characters",
                    crate::suggest::listed(KEY_NAMES)
                ),
            );
        }
    }
    Ok(())
}

/// The rule of the terminal environment, which sends the bytes.
fn is_key(name: &str) -> bool {
    let mut base = name;
    let mut control = false;
    while let Some((prefix, rest)) = base.split_once('-').filter(|(_, rest)| !rest.is_empty()) {
        match prefix.to_ascii_lowercase().as_str() {
            "c" | "ctrl" => control = true,
            "m" | "alt" | "s" | "shift" => {}
            _ => break,
        }
        base = rest;
    }
    let mut chars = base.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return !c.is_control() && (!control || matches!(c, 'a'..='z' | '@'..='_' | '2' | '/' | '?'));
    }
    let lower = base.to_ascii_lowercase();
    // Terminals do not have bytes for these keys with `C-`.
    let is_plain_only = matches!(lower.as_str(), "enter" | "return" | "tab" | "escape" | "esc");
    let is_named = KEY_NAMES.iter().any(|known| known.eq_ignore_ascii_case(base))
        || KEY_ALIASES.contains(&lower.as_str())
        || lower.strip_prefix('f').is_some_and(|number| (1..=12).any(|n: u8| n.to_string() == number));
    is_named && !(control && is_plain_only)
}

/// Names of signals.
pub(crate) fn signal(text: &str) -> Result<(), BadValue> {
    if SIGNALS.contains(&text) {
        return Ok(());
    }
    let plain = text.to_uppercase();
    let plain = plain.strip_prefix("SIG").unwrap_or(&plain);
    bad(
        format!("`{text}` is no signal that can be sent"),
        format!(
            "{}signals are {}",
            crate::suggest::did_you_mean(plain, SIGNALS),
            crate::suggest::listed(SIGNALS)
        ),
    )
}

/// Names of environment variables.
pub(crate) fn env_name(name: &str) -> Result<(), BadValue> {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if starts && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    bad(
        format!("`{name}` cannot be the name of an environment variable"),
        "use letters, digits and `_`, not starting with a digit",
    )
}

/// Converts the problem that a rule of the core found, if any, to an error with this help.
pub(crate) fn refused(text: &str, problem: Option<String>, help: &str) -> Result<(), BadValue> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(BadValue { message: format!("`{text}` {problem}"), help: help.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T>(rule: impl Fn(&str) -> Result<T, BadValue>, good: &[&str], wrong: &[&str]) {
        for text in good {
            assert!(rule(text).is_ok(), "{text:?} should be accepted");
        }
        for text in wrong {
            assert!(rule(text).is_err(), "{text:?} should be refused");
        }
    }

    #[test]
    fn names() {
        check(id, &["a", "a-1", "terminal-basics"], &["", "A", "a_b", "a b", "ä", &"x".repeat(65)]);
        check(variable_name, &["n", "_a", "Word2"], &["", "2a", "a-b", "for", "True", "é"]);
        check(env_name, &["PATH", "_x1"], &["", "1A", "A-B", "A=B"]);
        assert!(id("My Task!").is_err_and(|bad| bad.help.ends_with("`my-task`")));
    }

    #[test]
    fn tools_and_numbers() {
        check(
            tool_name,
            &["a", "Read-file_2", &"x".repeat(64)],
            &["", "submit", "a b", "é", &"x".repeat(65)],
        );
        check(finite, &["42", " -0.5", "1e-6"], &["", "x", "1,5", "inf", "NaN"]);
        check(tolerance, &["0", "1e-6"], &["-1", "x"]);
        check(not_blank, &["a"], &["", " \n"]);
    }

    #[test]
    fn sites_and_addresses() {
        check(site_name, &["a", "shop-2"], &["", "Shop", "a.b", "-a", "a-", "a_b", &"x".repeat(64)]);
        check(
            origin,
            &["https://example.org", "http://127.0.0.1:8080", "http://[::1]:80/"],
            &["example.org", "https://example.org/x", "ftp://a", "https://u@a", "https://a?b", ""],
        );
        check(start_page, &["/", "/a?b#c", "https://example.org/x"], &["", "a.html", "file:///etc/passwd"]);
        check(path_of_requests, &["/", "/a/*", "/*"], &["", "a", "/a/*/b", "/a?b", "*"]);
        check(site_path, &["/a.html"], &["a.html", "/a*", "/a#b"]);
        check(method, &["GET", "POST"], &["", "post", "GET "]);
        check(header_value, &["a b"], &["a\nb", "a\0"]);
        check(set_cookie, &["a=1", "a=; Path=/"], &["", "a", "=1", "a=\n"]);
        check(file_name, &["a.txt"], &["", "a/b", "..", "/a"]);
        assert!(origin("https://example.org/x").is_err_and(|bad| bad.help == "write `https://example.org`"));
    }

    #[test]
    fn paths_stay_inside() {
        check(
            relative_path,
            &["a", "a/b.txt", ".hidden", ".", "dir/", "a..b"],
            &["", "/a", "..", "a/../b", "a//b", "./a", "a/.", "a\nb", "a\0b"],
        );
        check(file_path, &["a", "a/b"], &[".", "a/"]);
    }

    #[test]
    fn modes_are_octal() {
        check(mode, &["0644", "755", "0o600", "000", "1777"], &["", "64", "0888", "rw-", "07777", "+644"]);
        assert_eq!(mode("0755"), Ok(0o755));
    }

    #[test]
    fn patterns_and_hashes() {
        check(regex, &["^a$", r"\d+"], &["(", "a{2", r"\1"]);
        check(json_pointer, &["", "/a/0", "/a~1b"], &["a", "/a~", "/~2", "$.a"]);
        check(sha256, &[&"0a".repeat(32)], &["", "abc", &"0A".repeat(32), &"zz".repeat(32)]);
    }

    #[test]
    fn keys_and_signals() {
        check(
            keys,
            &["Escape : q Enter", "C-c", "M-x F12 é", "C-["],
            &["", "Entr", "C-", "C-cc", "F13", "F0"],
        );
        check(signal, &["INT", "KILL"], &["SIGINT", "int", "HUP"]);
        assert!(signal("SIGINT").is_err_and(|bad| bad.help.starts_with("did you mean `INT`?")));
    }
}
