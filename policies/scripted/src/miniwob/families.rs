//! The families that are known, and which part solves each.

use super::snapshot::PageSnapshot;
use super::{choose, draw, enter, find, mail, press, slide, social};
use crate::page::Page;

/// Solver of a family: the next line, or `None` when the task is done.
type Solve = fn(&PageSnapshot<'_>) -> Option<String>;

/// The line to say next, or nothing to submit.
pub(crate) fn next_line(family: &str, history: &History<'_>) -> Option<String> {
    let (_, solve) = FAMILIES.iter().find(|(name, _)| *name == family)?;
    let (page, first) = (Page::read(history.seen), Page::read(history.first));
    solve(&PageSnapshot::new(&page, &first, history))
}

/// An attempt up to now.
pub(crate) struct History<'a> {
    /// The first observation.
    pub(crate) first: &'a str,
    /// The last one.
    pub(crate) seen: &'a str,
    /// Earlier lines; a long attempt leaves some out.
    pub(crate) said: &'a [String],
    /// Number of earlier lines.
    pub(crate) turn: usize,
}

/// Names of the families that are solved, in order.
pub fn solved_families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

const FAMILIES: &[(&str, Solve)] = &[
    ("ascending-numbers", press::ascending_numbers),
    ("buy-ticket", find::buy_ticket),
    ("choose-date", choose::choose_date),
    ("choose-date-easy", choose::choose_date),
    ("choose-date-medium", choose::choose_date),
    ("choose-date-nodelay", choose::choose_date),
    ("choose-list", choose::choose_list),
    ("click-button", press::click_button),
    ("click-button-sequence", press::click_button_sequence),
    ("click-checkboxes", choose::click_checkboxes),
    ("click-checkboxes-large", choose::click_checkboxes),
    ("click-checkboxes-transfer", choose::click_checkboxes),
    ("click-collapsible", press::click_collapsible),
    ("click-collapsible-2", find::click_collapsible_2),
    ("click-collapsible-2-nodelay", find::click_collapsible_2),
    ("click-collapsible-nodelay", press::click_collapsible),
    ("click-color", press::click_color),
    ("click-dialog", press::click_dialog),
    ("click-dialog-2", press::click_dialog),
    ("click-link", press::click_named),
    ("click-menu", find::click_menu),
    ("click-option", choose::click_option),
    ("click-scroll-list", choose::click_scroll_list),
    ("click-shades", choose::click_shades),
    ("click-shape", find::click_shape),
    ("click-tab", press::click_tab),
    ("click-tab-2", find::click_tab_2),
    ("click-tab-2-easy", find::click_tab_2),
    ("click-tab-2-hard", find::click_tab_2),
    ("click-tab-2-medium", find::click_tab_2),
    ("click-test", press::click_test),
    ("click-test-2", press::click_test_2),
    ("click-test-transfer", press::click_test_2),
    ("click-widget", press::click_widget),
    ("copy-paste", enter::copy_paste),
    ("copy-paste-2", enter::copy_paste),
    ("count-shape", find::count_shape),
    ("drag-box", draw::drag_box),
    ("email-inbox", mail::email_inbox),
    ("email-inbox-delete", mail::email_inbox),
    ("email-inbox-forward", mail::email_inbox),
    ("email-inbox-important", mail::email_inbox),
    ("email-inbox-noscroll", mail::email_inbox),
    ("email-inbox-reply", mail::email_inbox),
    ("email-inbox-star-reply", mail::email_inbox),
    ("enter-date", enter::enter_date),
    ("enter-password", enter::enter_password),
    ("enter-text", enter::enter_text),
    ("enter-text-2", enter::enter_text_2),
    ("enter-text-dynamic", enter::enter_text),
    ("enter-time", enter::enter_time),
    ("find-greatest", find::find_greatest),
    ("find-word", enter::find_word),
    ("focus-text", press::focus_text),
    ("focus-text-2", press::focus_text),
    ("form-sequence", slide::form_sequence),
    ("form-sequence-2", choose::form_sequence_2),
    ("form-sequence-3", choose::form_sequence_3),
    ("generate-number", find::generate_number),
    ("grid-coordinate", draw::grid_coordinate),
    ("guess-number", find::guess_number),
    ("identify-shape", find::identify_shape),
    ("login-user", enter::login_user),
    ("login-user-popup", enter::login_user),
    ("multi-layouts", enter::search_movies),
    ("multi-orderings", enter::search_movies),
    ("navigate-tree", find::navigate_tree),
    ("odd-or-even", find::odd_or_even),
    ("order-food", social::order_food),
    ("phone-book", find::phone_book),
    ("read-table", enter::read_table),
    ("read-table-2", enter::read_table_2),
    ("resize-textarea", draw::resize_textarea),
    ("scroll-text", enter::scroll_text),
    ("scroll-text-2", enter::scroll_text_2),
    ("search-engine", find::search_engine),
    ("simple-algebra", enter::simple_algebra),
    ("simple-arithmetic", enter::simple_arithmetic),
    ("social-media", social::social_media),
    ("social-media-all", social::social_media_posts),
    ("social-media-some", social::social_media_posts),
    ("text-transform", enter::text_transform),
    ("unicode-test", press::click_button),
    ("use-autocomplete", enter::use_autocomplete),
    ("use-autocomplete-nodelay", enter::use_autocomplete),
    ("use-colorwheel", enter::use_colorwheel),
    ("use-slider", slide::use_slider),
    ("use-slider-2", slide::use_slider_2),
    ("use-spinner", slide::use_spinner),
];
