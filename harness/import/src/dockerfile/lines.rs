//! Splits the text of a Dockerfile into instructions.
//!
//! Source: BuildKit's Dockerfile reference: parser directives, line continuations, comments, here-documents.
//! Deviations: none that change the text of an instruction; unknown directives are comments, as in BuildKit. The crate
//! `parse-dockerfile` 0.1.5 reads only one here-document of a RUN, and only at its beginning.

use std::sync::Arc;

use clawrl_config::{Problem, Source, Span};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// In upper case.
    pub(crate) keyword: String,
    /// `--name=value` words before the rest, without the dashes.
    pub(crate) flags: Vec<(String, String)>,
    /// The rest of the instruction, with continued lines joined.
    pub(crate) rest: String,
    pub(crate) heredocs: Vec<Heredoc>,
    /// Where the keyword is.
    pub(crate) span: Span,
}

/// A here-document of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heredoc {
    pub(crate) name: String,
    /// Whether variables in it are replaced.
    pub(crate) expands: bool,
    /// Without leading tabs if it began with `<<-`.
    pub(crate) body: String,
}

/// The instructions of a Dockerfile, and its escape character.
///
/// # Errors
/// A here-document without an end, or an unknown escape character.
pub(crate) fn instructions(source: &Arc<Source>) -> Result<(Vec<Instruction>, char), Problem> {
    let mut reader = Reader { source, lines: Vec::new(), at: 0, escape: '\\' };
    let mut offset = 0;
    for line in source.text().split_inclusive('\n') {
        reader.lines.push((offset, line.trim_end_matches(['\n', '\r'])));
        offset += line.len();
    }
    reader.directives()?;
    let mut found = Vec::new();
    while let Some(instruction) = reader.instruction()? {
        found.push(instruction);
    }
    Ok((found, reader.escape))
}

struct Reader<'s> {
    source: &'s Arc<Source>,
    /// Offset, and text without line end.
    lines: Vec<(usize, &'s str)>,
    at: usize,
    escape: char,
}

impl<'s> Reader<'s> {
    fn directives(&mut self) -> Result<(), Problem> {
        while let Some((offset, line)) = self.lines.get(self.at) {
            let line = line.trim_start_matches('\u{feff}').trim();
            let Some((name, value)) = line.strip_prefix('#').and_then(|line| line.split_once('=')) else {
                break;
            };
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            if !matches!(name.as_str(), "syntax" | "escape" | "check") {
                break;
            }
            if name == "escape" {
                self.escape = match value {
                    "\\" => '\\',
                    "`" => '`',
                    _ => {
                        let span = Span { start: *offset, len: self.lines[self.at].1.len() };
                        let problem = Problem::new(
                            "this is not an escape character",
                            "write `# escape=\\` or `# escape=`` `",
                        );
                        return Err(problem.at(self.source, span, "not possible"));
                    }
                };
            }
            self.at += 1;
        }
        Ok(())
    }

    fn instruction(&mut self) -> Result<Option<Instruction>, Problem> {
        while let Some((_, line)) = self.lines.get(self.at) {
            let line = line.trim_start_matches('\u{feff}').trim();
            if !line.is_empty() && !line.starts_with('#') {
                break;
            }
            self.at += 1;
        }
        let Some((offset, first)) = self.lines.get(self.at).copied() else { return Ok(None) };
        let indentation = first.len() - first.trim_start_matches(['\u{feff}', ' ', '\t']).len();
        let text = self.joined();
        let text = text.trim_start_matches(['\u{feff}', ' ', '\t']);
        let (keyword, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        let span = Span {
            start: offset + indentation,
            len: keyword.trim_end().len().min(first.len() - indentation),
        };
        let keyword = keyword.trim().to_ascii_uppercase();
        let (flags, rest) = flags(rest.trim());
        let takes_heredocs = matches!(keyword.as_str(), "RUN" | "COPY" | "ADD");
        let mut heredocs = Vec::new();
        if takes_heredocs && !rest.trim_start().starts_with('[') {
            for start in heredoc_starts(&rest) {
                heredocs.push(self.heredoc(start, span)?);
            }
        }
        Ok(Some(Instruction { keyword, flags, rest, heredocs, span }))
    }

    /// A logical line. Comments and empty lines inside it are skipped, as the reference says.
    fn joined(&mut self) -> String {
        let mut text = String::new();
        let mut continues = true;
        while let (true, Some((_, line))) = (continues, self.lines.get(self.at)) {
            self.at += 1;
            let bare = line.trim();
            let inside = !text.is_empty();
            if inside && (bare.is_empty() || bare.starts_with('#')) {
                continue;
            }
            match line.trim_end().strip_suffix(self.escape) {
                Some(part) => text.push_str(part),
                None => {
                    text.push_str(line);
                    continues = false;
                }
            }
        }
        text
    }

    fn heredoc(&mut self, start: HeredocStart, span: Span) -> Result<Heredoc, Problem> {
        let mut body = String::new();
        while let Some((_, line)) = self.lines.get(self.at) {
            self.at += 1;
            let line = if start.strips_tabs { line.trim_start_matches('\t') } else { line };
            if line == start.name {
                return Ok(Heredoc { name: start.name, expands: start.expands, body });
            }
            body.push_str(line);
            body.push('\n');
        }
        let message = format!("the here-document `{}` has no end", start.name);
        let help = format!("add a line `{}` after it", start.name);
        Err(Problem::new(message, help).at(self.source, span, "begins here"))
    }
}

/// Removes the `--name=value` words from the front.
fn flags(rest: &str) -> (Vec<(String, String)>, String) {
    let mut flags = Vec::new();
    let mut rest = rest;
    while let Some(after) = rest.strip_prefix("--") {
        let (word, tail) = after.split_once([' ', '\t']).unwrap_or((after, ""));
        if word.is_empty() {
            break;
        }
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        flags.push((name.to_owned(), value.to_owned()));
        rest = tail.trim_start();
    }
    (flags, rest.to_owned())
}

#[derive(Debug)]
struct HeredocStart {
    name: String,
    strips_tabs: bool,
    expands: bool,
}

/// The `<<NAME` words of a line, outside quotes.
fn heredoc_starts(line: &str) -> Vec<HeredocStart> {
    let mut starts = Vec::new();
    let mut quote: Option<char> = None;
    let mut rest = line.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        match (quote, character) {
            (None, '\\') => {
                rest.next();
            }
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '<') if line[at..].starts_with("<<") => {
                let after = &line[at + 2..];
                // `<<<` is a here-string of the shell; its third `<` does not begin another word.
                if after.starts_with('<') {
                    rest.nth(1);
                    continue;
                }
                rest.next();
                starts.extend(heredoc_start(after));
            }
            _ => {}
        }
    }
    starts
}

fn heredoc_start(after: &str) -> Option<HeredocStart> {
    let (strips_tabs, after) = after.strip_prefix('-').map_or((false, after), |after| (true, after));
    let quote = after.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let named = if quote.is_some() { &after[1..] } else { after };
    let len = named.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(named.len());
    let name = named[..len].to_owned();
    (!name.is_empty()).then_some(HeredocStart { name, strips_tabs, expands: quote.is_none() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str, &[&str])]) {
        let source = Arc::new(Source::new("Dockerfile".as_ref(), "Dockerfile".into(), text));
        let (found, _) = instructions(&source).unwrap();
        let found: Vec<(&str, &str, Vec<&str>)> = found
            .iter()
            .map(|found| {
                let bodies = found.heredocs.iter().map(|heredoc| heredoc.body.as_str()).collect();
                (found.keyword.as_str(), found.rest.as_str(), bodies)
            })
            .collect();
        let expected: Vec<(&str, &str, Vec<&str>)> =
            expected.iter().map(|(keyword, rest, bodies)| (*keyword, *rest, bodies.to_vec())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn lines_become_instructions() {
        check("FROM a\n# b\n\n  run c", &[("FROM", "a", &[]), ("RUN", "c", &[])]);
        check("RUN a \\\n  # no\n\n  b\n", &[("RUN", "a   b", &[])]);
        check("# escape=`\nRUN a `\n b\\\n", &[("RUN", "a  b\\", &[])]);
        check("# not a directive\n# escape=`\nRUN a \\\n b\n", &[("RUN", "a  b", &[])]);
        check("COPY --chmod=755 --link a b\r\n", &[("COPY", "a b", &[])]);
    }

    #[test]
    fn here_documents_follow_their_instruction() {
        check("RUN <<EOF\na\n b\nEOF\nUSER x", &[("RUN", "<<EOF", &["a\n b\n"]), ("USER", "x", &[])]);
        check("COPY <<-'A' <<B /d/\n\tx\n\tA\ny\nB\n", &[("COPY", "<<-'A' <<B /d/", &["x\n", "y\n"])]);
        check("RUN echo '<<EOF' $((1+2)) <<< x", &[("RUN", "echo '<<EOF' $((1+2)) <<< x", &[])]);
    }

    #[test]
    fn unclosed_here_document_is_refused() {
        let source = Arc::new(Source::new("Dockerfile".as_ref(), "Dockerfile".into(), "RUN <<EOF\na\n"));
        let problem = instructions(&source).unwrap_err();
        assert_eq!(problem.message(), "the here-document `EOF` has no end");
    }
}
