//! Pages where a place has to be computed.

use super::snapshot::{PageSnapshot, click, numbers};
use crate::page::Node;

/// `Click on the grid coordinate (1,-2).` Axes cross in the middle, and points are as far apart as they are.
pub(super) fn grid_coordinate(sight: &PageSnapshot<'_>) -> Option<String> {
    let [x, y] = numbers(sight.between("(", ")")?)[..] else { return None };
    let (zero_x, zero_y) = sight.of_role("svg line").next()?.at?;
    let circles: Vec<&Node> = sight.of_role("svg circle").collect();
    let ((_, first), (_, second)) = (circles.first()?.at?, circles.get(1)?.at?);
    let step = (second - first).abs();
    let at = (zero_x + x * step, zero_y - y * step);
    circles.into_iter().find(|circle| circle.at == Some(at)).and_then(click)
}

/// `Drag the smaller box so that it is completely inside the larger box.`
pub(super) fn drag_box(sight: &PageSnapshot<'_>) -> Option<String> {
    let boxes = |name: &str| sight.named(name).and_then(|node| node.number);
    let line = format!("drag {} {}", boxes("s")?, boxes("L")?);
    sight.once(Some(line)).or_else(|| sight.send())
}

/// `Resize the textarea so that the height is larger than its initial size then press Submit.`
pub(super) fn resize_textarea(sight: &PageSnapshot<'_>) -> Option<String> {
    const FAR: i64 = 15;
    if sight.turn > 0 {
        return sight.send();
    }
    let smaller = sight.goal.contains("smaller");
    let by = if smaller { -FAR } else { FAR };
    let (side, is_width) =
        if sight.goal.contains("width") { ("ui-resizable-e", true) } else { ("ui-resizable-s", false) };
    let handle = sight.nodes().iter().find(|node| node.is_called(side))?;
    let (x, y) = handle.at?;
    let to = if is_width { (x + by, y) } else { (x, y + by) };
    Some(format!("drag {} {},{}", handle.number?, to.0, to.1))
}
