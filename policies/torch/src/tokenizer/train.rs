//! A tokenizer made from the text that a tiny policy will read and write.
//!
//! A model of half a million parameters learns to copy a name only if the name is the same single token wherever it
//! stands. So text is cut into words (runs of letters) and single other characters: every space, digit and
//! punctuation mark stands alone. A word that is frequent enough is one token; anything else is spelled in bytes. Phrases
//! that every reply has, such as the punctuation around a tool call, can be entries as well: nothing is to be learned
//! from spelling them.
//!
//! I1. Every byte is in the vocabulary, so that any text has ids and comes back exactly. I2. The result is a function
//! of the multiset of words: order of texts, of hash maps and number of threads change nothing.
//!
//! Format: a byte-level BPE model without merges and with `ignore_merges`, which looks a whole word up first. That
//! spends no entries on fragments that lead up to a word.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior};

use super::error::TokenizerError;
use super::text::Tokenizer;

/// Fills up batches; never part of a conversation. Id 0.
pub const PAD: &str = "<|endoftext|>";

/// Opens the message of a role: system, user, assistant, tool. Ids 1 to 4.
pub const ROLE_TOKENS: [&str; 4] = ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"];

/// Closes a message. Id 5.
pub const END: &str = "<|end|>";

/// Words, and everything else character by character.
const WORDS: &str = r"\p{L}+|[^\p{L}]";

/// Size and threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    /// Most entries, special tokens and bytes included. Fewer are used where there are fewer words.
    pub vocab_size: usize,
    /// A word seen less often is spelled in bytes.
    pub min_count: u64,
    /// Texts that are words, wherever they stand. Of several at one place, the longest is taken.
    pub phrases: &'static [&'static str],
}

impl Default for Training {
    fn default() -> Self {
        Self { vocab_size: 1_500, min_count: 2, phrases: &[] }
    }
}

/// Makes a tokenizer whose tokens are the frequent words of these texts.
///
/// # Errors
/// [`TokenizerError::TooSmall`] when not even the bytes fit.
pub fn train_tokenizer<T: AsRef<str>>(texts: &[T], training: &Training) -> Result<Tokenizer, TokenizerError> {
    let markup: Vec<&str> = [PAD].into_iter().chain(ROLE_TOKENS).chain([END]).collect();
    let mut bytes: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    bytes.sort_unstable();
    let least = markup.len() + bytes.len();
    if training.vocab_size < least {
        return Err(TokenizerError::TooSmall { asked: training.vocab_size, least });
    }
    // A word of one byte is a byte, which is in already.
    let words_of = pattern(training.phrases);
    let mut words: Vec<(String, u64)> = count_words(texts, &words_of)?
        .into_iter()
        .filter(|(word, count)| *count >= training.min_count && word.chars().count() > 1)
        .collect();
    words.sort_by_key(|(word, count)| (Reverse(*count), word.clone()));
    words.truncate(training.vocab_size - least);

    let tokens = markup.iter().map(|&token| token.to_owned());
    let tokens =
        tokens.chain(bytes.iter().map(char::to_string)).chain(words.into_iter().map(|(word, _)| word));
    let vocabulary: serde_json::Map<String, Value> =
        tokens.zip(0u32..).map(|(token, id)| (token, id.into())).collect();
    let file = tokenizer_file(&markup, &words_of, vocabulary);
    let text =
        serde_json::to_string_pretty(&file).map_err(|error| TokenizerError::Library(error.to_string()))?;
    Tokenizer::from_json(text + "\n")
}

/// The expression whose matches are the words.
fn pattern(phrases: &[&str]) -> String {
    let mut alternatives: Vec<String> = phrases.iter().map(|phrase| escaped(phrase)).collect();
    // The first alternative that matches is taken.
    alternatives.sort_by_key(|phrase| (Reverse(phrase.len()), phrase.clone()));
    alternatives.push(WORDS.to_owned());
    alternatives.join("|")
}

/// An expression that matches this text alone.
fn escaped(text: &str) -> String {
    let mut expression = String::with_capacity(2 * text.len());
    for char in text.chars() {
        if r"\.+*?()|[]{}^$".contains(char) {
            expression.push('\\');
        }
        expression.push(char);
    }
    expression
}

/// How often each word occurs, in the alphabet of bytes.
fn count_words<T: AsRef<str>>(texts: &[T], words: &str) -> Result<BTreeMap<String, u64>, TokenizerError> {
    let split = Split::new(SplitPattern::Regex(words.to_owned()), SplitDelimiterBehavior::Isolated, false)
        .map_err(TokenizerError::library)?;
    let byte_level = ByteLevel::new(false, false, false);
    let mut counts = BTreeMap::new();
    for text in texts {
        let mut pieces = PreTokenizedString::from(text.as_ref());
        split.pre_tokenize(&mut pieces).map_err(TokenizerError::library)?;
        byte_level.pre_tokenize(&mut pieces).map_err(TokenizerError::library)?;
        for (piece, _, _) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            *counts.entry(piece.to_owned()).or_insert(0) += 1;
        }
    }
    Ok(counts)
}

/// The content of `tokenizer.json`.
fn tokenizer_file(markup: &[&str], words: &str, vocabulary: serde_json::Map<String, Value>) -> Value {
    let added = markup.iter().zip(0u32..).map(|(content, id)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        })
    });
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                { "type": "Split", "pattern": { "Regex": words }, "behavior": "Isolated", "invert": false },
                byte_level,
            ]
        },
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
            "vocab": vocabulary, "merges": []
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tokenizer::MarkupTokens;

    fn check(texts: &[&str], text: &str, expected: &[&str]) {
        let tokenizer = train_tokenizer(texts, &Training::default()).unwrap();
        let ids = tokenizer.encode_content(text).unwrap();
        let tokens: Vec<String> =
            ids.iter().map(|&id| tokenizer.decode(&[id], MarkupTokens::Keep).unwrap()).collect();
        assert_eq!(tokens, expected);
    }

    #[test]
    fn a_name_is_one_token_wherever_it_stands() {
        let texts = ["Copy apple.txt to pear.txt", "cp apple.txt pear.txt", "touch once"];
        check(&texts, "apple", &["apple"]);
        check(&texts, "cat  apple.txt", &["c", "a", "t", " ", " ", "apple", ".", "txt"]);
        check(&texts, "/apple\n'pear'12", &["/", "apple", "\n", "'", "pear", "'", "1", "2"]);
        check(&texts, "once", &["o", "n", "c", "e"]);
        check(&["größe größe"], "größe!", &["größe", "!"]);
    }

    #[test]
    fn a_phrase_is_one_token_and_the_longest_one_is_taken() {
        const PHRASES: &[&str] = &["\": ", "\": \"", "(a|b)*"];
        let training = Training { min_count: 1, phrases: PHRASES, ..Training::default() };
        let text = "\"key\": \"apple\": 1 (a|b)* aab";
        let tokenizer = train_tokenizer(&[text], &training).unwrap();
        let ids = tokenizer.encode_content(text).unwrap();
        let tokens: Vec<String> =
            ids.iter().map(|&id| tokenizer.decode(&[id], MarkupTokens::Keep).unwrap()).collect();
        assert_eq!(tokens, ["\"", "key", "\": \"", "apple", "\": ", "1", " ", "(a|b)*", " ", "aab"]);
    }

    #[test]
    fn the_most_frequent_words_have_the_places() {
        let texts = ["bb bb bb aa aa cc cc dd"];
        let train =
            |vocab_size| train_tokenizer(&texts, &Training { vocab_size, min_count: 2, phrases: &[] });
        assert_eq!(train(1_500).unwrap().vocab_size(), 262 + 3);
        let two = train(264).unwrap();
        assert_eq!(two.encode_content("bb").unwrap(), [262]);
        assert_eq!(two.encode_content("aa").unwrap(), [263]);
        assert_eq!(two.encode_content("cc").unwrap().len(), 2);
        assert_eq!(train(261).unwrap_err(), TokenizerError::TooSmall { asked: 261, least: 262 });
    }

    #[test]
    fn special_tokens_have_fixed_ids() {
        let tokenizer = train_tokenizer(&["<|end|> <|end|> <|end|>"], &Training::default()).unwrap();
        let ids: Vec<Option<u32>> =
            ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"]
                .iter()
                .map(|token| tokenizer.added_token(token))
                .collect();
        assert_eq!(ids, (0..6).map(Some).collect::<Vec<_>>());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// I2.
        #[test]
        fn order_changes_nothing(mut texts in proptest::collection::vec("([a-e]{1,4} ?){0,12}", 0..12)) {
            let first = train_tokenizer(&texts, &Training::default()).unwrap();
            texts.reverse();
            let second = train_tokenizer(&texts, &Training::default()).unwrap();
            prop_assert_eq!(first.json(), second.json());
        }
    }
}
