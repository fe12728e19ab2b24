//! Describes what an unfinished command lacks.
//!
//! A sketch of bash's grammar, for advice only: quotes, substitutions, parentheses, here-documents and the words that
//! close compound commands. If it finds nothing open it stays silent; bash decides.
//!
//! Source: the chapters "Quoting", "Here Documents" and "Compound Commands" of bash's manual. Pure.

/// A longer here-document delimiter is not repeated in the message.
const MAX_DELIMITER: usize = 80;

/// What would complete the command, as the subject of a sentence.
pub(super) fn missing(command: &str) -> Option<String> {
    let mut scan = Scan { rest: command, open: Vec::new(), documents: Vec::new(), starts_command: true };
    while let Some(next) = scan.rest.chars().next() {
        if let Some(document) = scan.step(next) {
            return document.in_words();
        }
    }
    // The Enter key after the command starts the first here-document.
    if let Some(document) = scan.documents.first() {
        return document.in_words();
    }
    Some(match scan.open.last()? {
        Open::Single | Open::Escaped => "a closing quote '".to_owned(),
        Open::Double => "a closing quote \"".to_owned(),
        Open::Backquote => "a closing backquote `".to_owned(),
        Open::Brace => "a closing }".to_owned(),
        Open::Parenthesis | Open::Arithmetic => "a closing )".to_owned(),
        Open::Word(word) => format!("the word {word}"),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Single,
    /// `$'`
    Escaped,
    Double,
    Backquote,
    /// `${`
    Brace,
    /// `(`, `$(`, `<(`
    Parenthesis,
    /// One of the two of `((`.
    Arithmetic,
    /// A compound command that this word closes.
    Word(&'static str),
}

#[derive(Debug)]
struct Document {
    delimiter: String,
    strips_tabs: bool,
}

impl Document {
    fn in_words(&self) -> Option<String> {
        let short = self.delimiter.chars().count() <= MAX_DELIMITER;
        short.then(|| format!("a line with nothing but {}", self.delimiter))
    }
}

struct Scan<'a> {
    rest: &'a str,
    open: Vec<Open>,
    /// Here-documents that start on the next line.
    documents: Vec<Document>,
    /// The next word may open or close a compound command.
    starts_command: bool,
}

/// Words that open a compound command, and those that close it.
const COMPOUNDS: &[(&str, &str)] = &[
    ("if", "fi"),
    ("for", "done"),
    ("while", "done"),
    ("until", "done"),
    ("select", "done"),
    ("case", "esac"),
    ("{", "}"),
    ("[[", "]]"),
];

/// Another command starts after these.
const BEFORE_COMMANDS: &[&str] = &["if", "then", "else", "elif", "while", "until", "do", "{", "!", "time"];

impl Scan<'_> {
    /// Processes the next character. Returns a here-document whose end is missing.
    fn step(&mut self, next: char) -> Option<Document> {
        match self.open.last() {
            Some(Open::Single) => self.quoted(next, '\'', false),
            Some(Open::Escaped) => self.quoted(next, '\'', true),
            Some(Open::Double) => match next {
                '"' => self.close(next),
                _ => self.substitution(next),
            },
            Some(Open::Backquote) if next == '`' => self.close(next),
            Some(Open::Brace) if next == '}' => self.close(next),
            Some(Open::Brace) => self.text(next),
            _ => return self.code(next),
        }
        None
    }

    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_char(&mut self, next: char) {
        self.rest = self.rest.get(next.len_utf8()..).unwrap_or_default();
    }

    fn open(&mut self, text: &str, open: Open) -> bool {
        let found = self.skip(text);
        if found {
            self.open.push(open);
        }
        found
    }

    fn close(&mut self, next: char) {
        self.skip_char(next);
        self.open.pop();
    }

    /// Inside quotes where at most a backslash is special.
    fn quoted(&mut self, next: char, end: char, escapes: bool) {
        if next == end {
            self.close(next);
        } else {
            self.plain(next, escapes);
        }
    }

    /// One character, including one that a backslash escapes.
    fn plain(&mut self, next: char, escapes: bool) {
        self.skip_char(next);
        if escapes
            && next == '\\'
            && let Some(escaped) = self.rest.chars().next()
        {
            self.skip_char(escaped);
        }
    }

    /// Substitutions, which also work in double quotes.
    fn substitution(&mut self, next: char) {
        let opened = self.arithmetic("$((")
            || self.open("$(", Open::Parenthesis)
            || self.open("${", Open::Brace)
            || self.open("`", Open::Backquote);
        if opened {
            self.starts_command = true;
        } else {
            self.plain(next, true);
        }
    }

    fn arithmetic(&mut self, text: &str) -> bool {
        let found = self.open(text, Open::Arithmetic);
        if found {
            self.open.push(Open::Arithmetic);
        }
        found
    }

    fn text(&mut self, next: char) {
        let quote =
            self.open("$'", Open::Escaped) || self.open("'", Open::Single) || self.open("\"", Open::Double);
        if !quote {
            self.substitution(next);
        }
    }

    fn code(&mut self, next: char) -> Option<Document> {
        let counts = matches!(self.open.last(), Some(Open::Arithmetic));
        match next {
            '\n' => {
                self.skip_char(next);
                self.starts_command = true;
                return self.documents_end();
            }
            ';' | '&' | '|' => {
                self.skip_char(next);
                self.starts_command = true;
            }
            '(' if !counts && self.arithmetic("((") => {}
            '(' => {
                self.open.push(if counts { Open::Arithmetic } else { Open::Parenthesis });
                self.skip_char(next);
                self.starts_command = true;
            }
            ')' => {
                // An unmatched one ends a pattern of `case`.
                if matches!(self.open.last(), Some(Open::Parenthesis | Open::Arithmetic)) {
                    self.open.pop();
                }
                self.skip_char(next);
                self.starts_command = true;
            }
            '<' if !counts && self.skip("<<<") => {}
            '<' if !counts && self.skip("<<") => self.document(),
            _ if next.is_whitespace() || next == '<' || next == '>' => self.skip_char(next),
            _ => self.word(next),
        }
        None
    }

    /// A word, up to the next separator.
    fn word(&mut self, next: char) {
        let end = self.rest.find(|c: char| c.is_whitespace() || ";&|()<>'\"`$\\".contains(c));
        let word = &self.rest[..end.unwrap_or(self.rest.len())];
        if word.is_empty() {
            self.starts_command = false;
            self.text(next);
            return;
        }
        if word.starts_with('#') {
            self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
            return;
        }
        self.rest = &self.rest[word.len()..];
        let closes = matches!(self.open.last(), Some(Open::Word(last)) if *last == word);
        // `]]` does not stand at the start of a command.
        if closes && (self.starts_command || word == "]]") {
            self.open.pop();
        } else if self.starts_command
            && let Some((_, last)) = COMPOUNDS.iter().find(|(first, _)| *first == word)
        {
            self.open.push(Open::Word(last));
        }
        // After a continuation character there is no word.
        let ends = self.rest.chars().next().is_none_or(|c| c.is_whitespace() || ";&|()<>".contains(c));
        self.starts_command = self.starts_command && ends && BEFORE_COMMANDS.contains(&word);
    }

    /// The rest of `<<`.
    fn document(&mut self) {
        let strips_tabs = self.skip("-");
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let mut delimiter = String::new();
        let mut quote = None;
        while let Some(next) = self.rest.chars().next() {
            match quote {
                None if next.is_whitespace() || ";&|()<>".contains(next) => break,
                None if next == '\'' || next == '"' => quote = Some(next),
                Some(end) if next == end => quote = None,
                None if next == '\\' => {
                    self.skip_char(next);
                    delimiter.extend(self.rest.chars().next());
                }
                _ => delimiter.push(next),
            }
            let next = self.rest.chars().next().unwrap_or_default();
            self.skip_char(next);
        }
        if !delimiter.is_empty() {
            self.documents.push(Document { delimiter, strips_tabs });
        }
        self.starts_command = false;
    }

    /// Reads the here-documents that start here. Returns one whose end is missing.
    fn documents_end(&mut self) -> Option<Document> {
        for document in std::mem::take(&mut self.documents) {
            loop {
                if self.rest.is_empty() {
                    return Some(document);
                }
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                let line = if document.strips_tabs { line.trim_start_matches('\t') } else { line };
                if line == document.delimiter {
                    break;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(command: &str, expected: Option<&str>) {
        assert_eq!(missing(command).as_deref(), expected, "{command:?}");
    }

    #[test]
    fn quotes_are_found() {
        check("echo it's", Some("a closing quote '"));
        check("echo 'it'\\''s", Some("a closing quote '"));
        check("echo \"a 'b", Some("a closing quote \""));
        check("echo $'a\\'b", Some("a closing quote '"));
        check("echo `date", Some("a closing backquote `"));
        check("echo \"$(echo \"a", Some("a closing quote \""));
        check("echo \"$(echo 'a' \"b\"", Some("a closing )"));
        check("echo ${x:-'}'", Some("a closing }"));
        check("# it's a comment\necho a#b '", Some("a closing quote '"));
        check("echo 'a' \"b\" $'c' `d` $(e) ${f} \\'", None);
    }

    #[test]
    fn here_documents_are_found() {
        check("cat > f <<EOF", Some("a line with nothing but EOF"));
        check("cat <<'END OF' >f\na\n", Some("a line with nothing but END OF"));
        check("cat <<-\\X\n\tX\ncat <<Y\nX", Some("a line with nothing but Y"));
        check("cat <<A <<B\nA\nb", Some("a line with nothing but B"));
        check("x=$(cat <<X\nit's", Some("a line with nothing but X"));
        check("x=$(cat <<X\nit's\nX", Some("a closing )"));
        check("echo $((1<<2)) <<<it\n((x=1<<3))", None);
        check("cat <<X\nit's\nX\necho", None);
    }

    #[test]
    fn compound_commands_are_found() {
        check("for i in 1 2; do", Some("the word done"));
        check("for i in 1 2; do if true; then echo $i", Some("the word fi"));
        check("for i in 1 2; do if true; then echo $i; fi", Some("the word done"));
        check("case x in a) echo;; b)", Some("the word esac"));
        check("f() {\n  echo if", Some("the word }"));
        check("(cd x; ls", Some("a closing )"));
        check("while [[ a == b ]]; do :; done; [[ a", Some("the word ]]"));
        check("echo if for {; git commit -m done", None);
        check("make &&", None);
        check("ls |", None);
    }

    proptest! {
        #[test]
        fn never_panics(command in "[-a-z<>'\"`$(){}\\[\\]\\\\#;|& \n\tXé]{0,60}") {
            let _ = missing(&command);
        }
    }
}
