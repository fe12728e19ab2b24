//! How the answers of each data set are compared.

/// The answer that earns the full score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Marks {
    /// The answer, character by character.
    Exact,
    /// The answer, except for white space.
    Spaced,
    /// The same, in upper or lower case.
    Folded,
    /// A number within a tolerance.
    Number(f64),
}

/// Data sets whose own scorer gives the full score to one answer only, and less to others.
const OWN: [(&str, Marks); 24] = [
    ("ab", Marks::Exact),
    ("binary_matrix", Marks::Exact),
    ("chain_sum", Marks::Number(0.0)),
    ("circuit_logic", Marks::Exact),
    ("color_cube_rotation", Marks::Folded),
    ("decimal_chain_sum", Marks::Number(0.0)),
    ("dice", Marks::Folded),
    ("emoji_mystery", Marks::Exact),
    ("family_relationships", Marks::Folded),
    ("figlet_font", Marks::Folded),
    ("gsm_symbolic", Marks::Number(0.0)),
    ("letter_jumble", Marks::Folded),
    ("manipulate_matrix", Marks::Spaced),
    ("needle_haystack", Marks::Folded),
    ("number_format", Marks::Number(0.0099)),
    ("path_star", Marks::Spaced),
    ("products", Marks::Number(0.0)),
    ("rectangle_count", Marks::Number(0.0)),
    ("self_reference", Marks::Exact),
    ("sentence_reordering", Marks::Folded),
    ("spell_backward", Marks::Folded),
    ("spiral_matrix", Marks::Spaced),
    ("string_insertion", Marks::Exact),
    ("zebra_puzzles", Marks::Folded),
];

/// Whether the data set uses the library's default scorer: the full score for the exact answer.
pub(super) fn marks(name: &str, has_own_scorer: bool) -> Result<Marks, &'static str> {
    if !has_own_scorer {
        return Ok(Marks::Exact);
    }
    match OWN.iter().find(|(known, _)| *known == name) {
        Some((_, marks)) => Ok(*marks),
        None => Err(
            "its own scorer would have to run: several answers are right, or the right one has to be computed",
        ),
    }
}

pub(super) fn words(marks: Marks) -> &'static str {
    match marks {
        Marks::Exact => "the exact answer",
        Marks::Spaced => "the answer, except for white space",
        Marks::Folded => "the answer, except for white space and case",
        Marks::Number(_) => "a number",
    }
}
