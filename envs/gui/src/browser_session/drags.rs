//! Dragging, which needs both ends in view at once.

use clawrl_core::GuiSpec;
use serde_json::{Value, json};

use super::BrowserSession;
use crate::action::Target;
use crate::page::{PageError, Point, ScrollTo, way, within};

/// Where to scroll ends that are out of view: to the middle of the window, then to its edges.
const TRIES: [ScrollTo; 2] = [ScrollTo::Middle, ScrollTo::Near];

impl BrowserSession {
    /// Drags from one place to another. The result is a message for the agent if it could not be done.
    pub(super) async fn drag(
        &self,
        from: &Target,
        to: &Target,
        spec: &GuiSpec,
    ) -> Result<Option<String>, PageError> {
        for scroll_to in TRIES {
            if let Err(why) = self.place_at(to, scroll_to, spec).await? {
                return Ok(Some(why));
            }
            let from_point = match self.place_at(from, scroll_to, spec).await? {
                Ok(point) => point,
                Err(why) => return Ok(Some(why)),
            };
            // Scrolling one into view may have moved the other out of it.
            let Ok(to_point) = self.place_at(to, ScrollTo::Nowhere, spec).await? else { continue };
            let (from_point, to_point) = match scroll_to {
                ScrollTo::Near => self.off_the_edges((from, from_point), (to, to_point), spec).await?,
                ScrollTo::Middle | ScrollTo::Nowhere => (from_point, to_point),
            };
            self.page().point(&way(from_point, to_point), 0, 1).await?;
            return Ok(None);
        }
        Ok(Some("both places do not fit into the window at once".to_owned()))
    }

    /// Scrolls the window so that both are equally far from its edges: dragging to an edge makes it scroll by itself.
    /// Returns the new positions.
    async fn off_the_edges(
        &self,
        (from, from_point): (&Target, Point),
        (to, to_point): (&Target, Point),
        spec: &GuiSpec,
    ) -> Result<(Point, Point), PageError> {
        let (width, height) = spec.viewport;
        let right = (from_point.x + to_point.x - i64::from(width)) / 2;
        let down = (from_point.y + to_point.y - i64::from(height)) / 2;
        let _: Value = within(self.page().call("scroll", json!([null, right, down]))).await?;
        let places = (
            self.place_at(from, ScrollTo::Nowhere, spec).await?,
            self.place_at(to, ScrollTo::Nowhere, spec).await?,
        );
        Ok(match places {
            (Ok(from_point), Ok(to_point)) => (from_point, to_point),
            // A part that scrolls by itself was not moved.
            _ => (from_point, to_point),
        })
    }
}
