//! Dragging: two places, both of which have to be in view at once.

use clawrl_core::GuiSpec;

use super::Stage;
use crate::action::Target;
use crate::page::{ScrollTo, Trouble, way};

/// How often both are looked for: in the middle of the window, then at its edges, then where they are.
const TRIES: [ScrollTo; 4] = [ScrollTo::Middle, ScrollTo::Near, ScrollTo::Near, ScrollTo::Near];

impl Stage {
    /// Drags from one place to another. The answer is for the agent: why it could not be done.
    ///
    /// # Errors
    /// [`Trouble`]
    pub(super) async fn drag(
        &self,
        from: &Target,
        to: &Target,
        spec: &GuiSpec,
    ) -> Result<Option<String>, Trouble> {
        let mut before = None;
        for scroll_to in TRIES {
            let to_point = match self.place_at(to, scroll_to, spec).await? {
                Ok(point) => point,
                Err(why) => return Ok(Some(why)),
            };
            // To bring one into view may move the other.
            if let Some((from_point, known)) = before
                && known == to_point
            {
                self.page().point(&way(from_point, to_point), 0, 1).await?;
                return Ok(None);
            }
            let from_point = match self.place_at(from, scroll_to, spec).await? {
                Ok(point) => point,
                Err(why) => return Ok(Some(why)),
            };
            before = Some((from_point, to_point));
        }
        Ok(Some("both places do not fit into the window at once".to_owned()))
    }
}
