//! Double and triple clicks. Drivers distinguish them by the time between clicks, which a busy machine stretches.

use serde_json::{Value, json};

use super::BrowserSession;
use crate::page::{PageError, Point};

impl BrowserSession {
    /// Clicks at a point, `presses` times, as one double or triple click, however long the page takes in between.
    pub(super) async fn click_again_and_again(
        &mut self,
        point: Point,
        button: u64,
        presses: u32,
    ) -> Result<(), PageError> {
        // Nothing may be held from before.
        self.page().point(&[point], button, 0).await?;
        let session = match self.command("goog:cdp.getSession", json!({ "context": self.handle() })).await? {
            Ok(answer) => answer["session"].clone(),
            // The browser does not support these commands.
            Err(_) => return self.page().point(&[point], button, presses).await,
        };
        // Bits of pressed buttons, as in `MouseEvent.buttons`.
        let (name, down) = match button {
            1 => ("middle", 4),
            2 => ("right", 2),
            _ => ("left", 1),
        };
        let event = |kind: &str, count: u32, buttons: u32| {
            let params = json!({
                "type": kind, "x": point.x, "y": point.y, "button": name, "buttons": buttons, "clickCount": count,
            });
            json!({ "method": "Input.dispatchMouseEvent", "params": params, "session": session })
        };
        for press in 1..=presses {
            self.dispatch(event("mousePressed", press, down)).await?;
            self.dispatch(event("mouseReleased", press, 0)).await?;
        }
        Ok(())
    }

    async fn dispatch(&mut self, event: Value) -> Result<(), PageError> {
        match self.command("goog:cdp.sendCommand", event).await? {
            Ok(_) => Ok(()),
            // The page, or its tab, went away at the previous click.
            Err((error, _)) if error == "no such frame" => Err(PageError::NoTab),
            Err((_, message)) if message.contains("closed") || message.contains("not found") => {
                Err(PageError::NoTab)
            }
            Err((error, message)) => Err(PageError::Refused(format!("{error}: {message}"))),
        }
    }
}
