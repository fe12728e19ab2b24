//! Notes about families, for agents that read text.

/// The note of a family, if there is one.
pub(super) fn note(family: &str) -> Option<&'static str> {
    let has = |families: &[&str]| families.contains(&family);
    if has(PICTURES) {
        Some("what it asks for is in a picture: let the policy see screenshots")
    } else if has(MOMENTS) {
        Some("it moves or waits by the clock: turns of a slow policy come too late")
    } else if has(NEARNESS) {
        Some("its reward grows with how near a place is: below the highest, an attempt has not passed")
    } else {
        None
    }
}

const PICTURES: &[&str] =
    &["count-sides", "drag-cube", "number-checkboxes", "use-colorwheel-2", "visual-addition"];

const MOMENTS: &[&str] =
    &["button-delay", "chase-circle", "hover-shape", "moving-items", "simon-says", "stock-market"];

const NEARNESS: &[&str] = &[
    "bisect-angle",
    "circle-center",
    "draw-circle",
    "draw-line",
    "find-midpoint",
    "right-angle",
    "use-colorwheel",
];
