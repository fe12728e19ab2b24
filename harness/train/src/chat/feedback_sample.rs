//! Converts ledger samples to training samples.
//!
//! I1. Training uses the recorded tokens as fed and as sampled; nothing is rendered again. I2. A teacher reads the request as it
//! would be rendered now, with the hint at the end of the last message that is not the policy's, and then the same sampled
//! tokens. I3. A hint that would exceed the model's context is left out, and its turn is trained on without it.
//!
//! Pure; nothing to cancel.

use clawrl_core::Message;
use clawrl_core::openai::usable_tools;
use clawrl_gateway::TakenSample;
use clawrl_learn::{FeedbackSample, Segment, TeacherView, turn_view};
use clawrl_torch::{Chat, Context, ConversationState};
use serde_json::{Map, Value};

use super::super::hints::with_hint;
use super::messages::messages;

/// Settings of the conversion.
pub(super) struct Reading<'a> {
    pub(super) chat: &'a Chat,
    /// Maximum tokens of the model's context.
    pub(super) most_tokens: usize,
    /// Whether the objective needs hints.
    pub(super) wants_hints: bool,
}

/// A feedback sample, and whether its hint was left out (I3).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Read {
    pub(super) feedback: FeedbackSample,
    pub(super) is_hint_too_long: bool,
}

impl Reading<'_> {
    /// The feedback sample of a ledger sample, whose user has this number.
    ///
    /// # Errors
    /// A description of the defect in the record.
    pub(super) fn feedback(&self, sample: &TakenSample, user: u32) -> Result<Read, String> {
        let TakenSample { prompt_ids, sampled_ids, logprobs, reward, hint, is_cut, .. } = sample;
        if sampled_ids.is_empty() || sampled_ids.len() != logprobs.len() || prompt_ids.is_empty() {
            return Err("its tokens are not there, or not as many as their log-probabilities".to_owned());
        }
        let segment = self.segment(prompt_ids, sample);
        let hint = hint.as_deref().filter(|hint| self.wants_hints && !hint.trim().is_empty());
        let view = hint.map(|hint| self.view(sample, &segment, hint)).transpose()?.flatten();
        let is_fitting = view.as_ref().is_none_or(|view| view.ids.len() <= self.most_tokens);
        let views: Vec<TeacherView> = view.filter(|_| is_fitting).into_iter().collect();
        let number = u32::try_from(sample.sample.0).map_err(|error| error.to_string())?;
        let (reward, is_cut) = (Some(*reward), *is_cut);
        let feedback = FeedbackSample { sample: number, user, reward, is_cut, segment, views };
        Ok(Read { feedback, is_hint_too_long: !is_fitting })
    }

    /// The view that a teacher reads.
    fn view(&self, sample: &TakenSample, plain: &Segment, hint: &str) -> Result<Option<TeacherView>, String> {
        let body: Map<String, Value> =
            serde_json::from_str(&sample.body).map_err(|error| error.to_string())?;
        let shown = messages(&body).map_err(|error| error.to_string())?;
        let hinted: Vec<Message> = with_hint(&shown, shown.clone(), hint);
        let tools = usable_tools(&body).map_err(|error| error.to_string())?;
        let mut conversation = ConversationState::default();
        let context = Context { messages: &hinted, tools: &tools };
        let ids = conversation.prompt(self.chat, context).map_err(|error| error.to_string())?;
        let hinted = self.segment(ids, sample);
        let view = turn_view(std::slice::from_ref(plain), 0, &[hinted]).map_err(|error| error.to_string())?;
        Ok(view.map(|(_, view)| view))
    }

    /// A segment with these tokens as context, followed by the sampled tokens.
    fn segment(&self, context: &[u32], sample: &TakenSample) -> Segment {
        let mut segment = Segment::default();
        segment.push_context(context);
        let mut versions = sample.versions.iter().peekable();
        let mut version = 0;
        for (at, (&id, &logprob)) in sample.sampled_ids.iter().zip(&sample.logprobs).enumerate() {
            while let Some(next) = versions.next_if(|next| next.first <= at) {
                version = next.version;
            }
            segment.push_sampled(0, id, logprob, version, sample.temperature as f32);
        }
        segment
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clawrl_gateway::{RequestId, SampleId, TurnId, UserId, VersionSegment};
    use clawrl_torch::{DEFAULT_TEMPLATE, END, MarkupTokens, Training, train_tokenizer};
    use serde_json::json;

    use super::*;

    fn chat() -> Chat {
        let tokenizer = train_tokenizer(&["look up peel"], &Training::default()).unwrap();
        let end = tokenizer.added_token(END).unwrap();
        Chat::new(tokenizer, DEFAULT_TEMPLATE.to_owned(), BTreeMap::new(), vec![end]).unwrap()
    }

    fn sample(chat: &Chat, hint: Option<&str>) -> TakenSample {
        let body = json!({"messages": [{"role": "user", "content": "up"}]});
        let shown = messages(body.as_object().unwrap()).unwrap();
        let mut conversation = ConversationState::default();
        let prompt = conversation.prompt(chat, Context { messages: &shown, tools: &[] }).unwrap();
        TakenSample {
            sample: SampleId(7),
            turn: TurnId(RequestId(3)),
            request: RequestId(3),
            choice: 0,
            reward: -1.0,
            hint: hint.map(str::to_owned),
            prompt_ids: prompt.to_vec(),
            sampled_ids: chat
                .tokenizer()
                .encode_content("peel")
                .unwrap()
                .into_iter()
                .chain([chat.end_id()])
                .collect(),
            logprobs: vec![-0.5; chat.tokenizer().encode_content("peel").unwrap().len() + 1],
            versions: vec![VersionSegment { first: 0, version: 4 }, VersionSegment { first: 1, version: 5 }],
            user: UserId("ada".to_owned()),
            body: body.to_string(),
            temperature: 0.7,
            adapter: None,
            is_cut: false,
        }
    }

    #[test]
    fn what_is_trained_on_is_what_is_recorded() {
        let chat = chat();
        let sample = sample(&chat, None);
        let reading = Reading { chat: &chat, most_tokens: 100, wants_hints: true };
        let Read { feedback, is_hint_too_long } = reading.feedback(&sample, 2).unwrap();
        let ids: Vec<u32> = sample.prompt_ids.iter().chain(&sample.sampled_ids).copied().collect();
        assert_eq!(
            (feedback.segment.ids.as_slice(), feedback.segment.trained()),
            (ids.as_slice(), sample.sampled_ids.len())
        );
        let first = sample.prompt_ids.len();
        assert_eq!(feedback.segment.versions[first..first + 2], [4, 5]);
        assert_eq!(feedback.segment.temperatures[first], 0.7);
        assert_eq!(
            (feedback.sample, feedback.user, feedback.reward, is_hint_too_long),
            (7, 2, Some(-1.0), false)
        );
        assert!(feedback.views.is_empty());
        let broken = TakenSample { logprobs: vec![-0.5], ..sample };
        assert!(broken.sampled_ids.len() == 1 || reading.feedback(&broken, 0).is_err());
    }

    #[test]
    fn a_teacher_reads_the_hint_behind_the_users_words() {
        let chat = chat();
        let sample = sample(&chat, Some("look"));
        let reading = |most_tokens, wants_hints| Reading { chat: &chat, most_tokens, wants_hints };
        let feedback = reading(100, true).feedback(&sample, 0).unwrap().feedback;
        let [view] = feedback.views.as_slice() else { panic!("{feedback:?}") };
        let read = chat.tokenizer().decode(&view.ids, MarkupTokens::Keep).unwrap();
        assert_eq!(read, "<|user|>up\n\n[hint]\nlook<|end|><|assistant|>peel<|end|>");
        assert!(view.is_of(&feedback.segment));
        assert_eq!(view.places.len(), feedback.segment.trained());
        let short = reading(view.ids.len() - 1, true).feedback(&sample, 0).unwrap();
        assert!(short.is_hint_too_long && short.feedback.views.is_empty());
        assert!(reading(100, false).feedback(&sample, 0).unwrap().feedback.views.is_empty());
    }
}
