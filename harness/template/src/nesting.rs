//! Checks the nesting of a template's expressions before it is parsed.
//!
//! The engine's parser limits the depth of brackets and blocks, but not of chains: `1 + 1 + ...`, `a|f|f|...` and
//! branches with `elif` are nested too, and the compiler recurses along them.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

/// Maximum tokens of an expression. With commas, the longest part counts.
const MAX_TOKENS: usize = 1_000;

/// Brackets in brackets.
const MAX_BRACKETS: usize = 150;

/// Entries of one list or call. The compiler counts arguments in 16 bits.
const MAX_ENTRIES: usize = 60_000;

/// Branches of a template that begin with `elif`.
const MAX_BRANCHES: usize = 300;

/// Between two brackets, or of a whole expression.
#[derive(Default)]
struct Level {
    /// Tokens since the last comma.
    tokens: usize,
    /// The most of them between two commas.
    longest: usize,
    commas: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.longest.max(self.tokens)
    }
}

/// Refuses a template or an expression that is nested too deeply.
pub(crate) fn check(source: &str, is_expression: bool, syntax: SyntaxConfig) -> Result<(), Error> {
    let refused = |message: String| Err(Error::new(ErrorKind::SyntaxError, message));
    let mut levels = vec![Level::default()];
    let mut branches = 0;
    for token in tokenize(source, is_expression, syntax) {
        // The parser reports invalid tokens, with their position.
        let Ok((token, _)) = token else { return Ok(()) };
        branches += usize::from(matches!(token, Token::Ident("elif")));
        match token {
            Token::VariableStart | Token::BlockStart => levels = vec![Level::default()],
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => levels.push(Level::default()),
            Token::ParenClose | Token::BracketClose | Token::BraceClose if levels.len() > 1 => {
                let inner = levels.pop().map_or(0, |level| level.depth());
                let level = levels.last_mut().expect("there were two");
                level.tokens += inner + 1;
            }
            Token::Comma => {
                let level = levels.last_mut().expect("there is one");
                *level = Level { tokens: 0, longest: level.depth(), commas: level.commas + 1 };
            }
            _ => levels.last_mut().expect("there is one").tokens += 1,
        }
        let level = levels.last().expect("there is one");
        if level.tokens > MAX_TOKENS {
            return refused(format!("an expression has more than {MAX_TOKENS} words and signs in a row"));
        }
        if levels.len() > MAX_BRACKETS {
            return refused(format!("brackets are nested more than {MAX_BRACKETS} deep"));
        }
        if level.commas > MAX_ENTRIES {
            return refused(format!("a list or a call has more than {MAX_ENTRIES} entries"));
        }
        if branches > MAX_BRANCHES {
            return refused(format!("there are more than {MAX_BRANCHES} branches with `elif`"));
        }
    }
    Ok(())
}
