//! How the answers of each set are compared.

/// What gives full marks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Marks {
    /// The answer, character by character.
    Exact,
    /// The answer but for spaces and line ends.
    Spaced,
    /// The same, in any letters.
    Folded,
    /// A number near it.
    Number(f64),
}

/// Sets with a scorer of their own that gives full marks to one answer alone; for others it has less or nothing.
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

/// Whether the library's default scorer, full marks for the answer itself, is a set's own, too.
pub(super) fn marks(name: &str, has_own_scorer: bool) -> Result<Marks, &'static str> {
    if !has_own_scorer {
        return Ok(Marks::Exact);
    }
    match OWN.iter().find(|(known, _)| *known == name) {
        Some((_, marks)) => Ok(*marks),
        None => Err(
            "a scorer of its own, which would have to run: several answers are right, or one has to be computed",
        ),
    }
}

pub(super) fn words(marks: Marks) -> &'static str {
    match marks {
        Marks::Exact => "the answer itself",
        Marks::Spaced => "the answer but for spaces",
        Marks::Folded => "the answer but for spaces and case",
        Marks::Number(_) => "a number",
    }
}
