//! Maps the finish reasons of servers.
//!
//! Source: OpenAI and Anthropic; Mistral (`model_length`, `error`), Zhipu (`sensitive`, `network_error`, `model_context_window_exceeded`), DeepSeek
//! (`insufficient_system_resource`), vLLM and SGLang (`abort`), Gemini (`SAFETY` and its like, behind proxies), Bedrock (`content_filtered`,
//! `guardrail_intervened`).

use clawrl_core::FinishReason;

use crate::trouble::Trouble;

/// Reasons for a reply that a token limit or the model's context cut.
const CUT: &[&str] =
    &["length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"];
/// Reasons for a reply that a content filter ended.
const FILTERED: &[&str] = &[
    "content_filter",
    "content_filtered",
    "guardrail_intervened",
    "sensitive",
    "safety",
    "recitation",
    "prohibited_content",
    "blocklist",
    "spii",
];
/// Reasons of a server that gave up. The text until then is not a reply.
const GIVEN_UP: &[&str] = &["abort", "error", "network_error", "insufficient_system_resource"];

/// Maps a reason; `None` means that the server marked the response as complete without a reason.
pub(crate) fn finish_of(reason: Option<&str>) -> FinishReason {
    let reason = reason.unwrap_or_default().to_ascii_lowercase().replace('-', "_");
    match reason.as_str() {
        cut if CUT.contains(&cut) => FinishReason::Length,
        filtered if FILTERED.contains(&filtered) => FinishReason::ContentFilter,
        _ => FinishReason::Stop,
    }
}

/// # Errors
/// If the server gave up its response.
pub(crate) fn check_finish(reason: &str) -> Result<(), Trouble> {
    if GIVEN_UP.contains(&reason.to_ascii_lowercase().as_str()) {
        let told = format!("the server gave its answer up (`finish_reason: {reason}`)");
        return Err(Trouble::later("stream-cut", told));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_servers_have_one_meaning() {
        let check = |reasons: &[&str], expected: FinishReason| {
            for reason in reasons {
                assert_eq!(finish_of(Some(reason)), expected, "{reason}");
                assert_eq!(check_finish(reason), Ok(()), "{reason}");
            }
        };
        check(
            &["stop", "tool_calls", "function_call", "eos", "end_turn", "tool_use", "STOP", ""],
            FinishReason::Stop,
        );
        check(&["length", "max_tokens", "MAX_TOKENS", "model_length"], FinishReason::Length);
        check(
            &["content_filter", "content-filter", "sensitive", "SAFETY", "RECITATION"],
            FinishReason::ContentFilter,
        );
        assert_eq!(finish_of(None), FinishReason::Stop);
        for reason in ["abort", "error", "network_error", "insufficient_system_resource"] {
            assert_eq!(check_finish(reason).unwrap_err().code, "stream-cut", "{reason}");
        }
    }
}
