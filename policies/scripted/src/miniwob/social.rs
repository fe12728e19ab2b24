//! Lists of posts or dishes with signs to press beside each.

use super::snapshot::{PageSnapshot, click, numbers};
use crate::page::Node;

/// The signs of this class below posts of a user.
fn signs<'a>(sight: &PageSnapshot<'a>, user: &str, sign: &str) -> Vec<&'a Node> {
    let mut is_users = false;
    let mut found = Vec::new();
    for node in sight.nodes() {
        if node.is("text") && node.name.contains('@') {
            is_users = node.name.split_whitespace().any(|word| word == user);
        } else if is_users && node.is_called(sign) {
            found.push(node);
        }
    }
    found
}

/// `For the user @beaulah, click on the "Retweet" button.` Some signs are in a menu behind the last one.
pub(super) fn social_media(sight: &PageSnapshot<'_>) -> Option<String> {
    let user = sight.between("For the user ", ",")?;
    let name = *sight.quoted().first()?;
    // `Mute @beaulah`, in a menu.
    let is_entry = |node: &&Node| node.name == name || node.name == format!("{name} {user}");
    if let Some(entry) = sight.nodes().iter().filter(|node| node.number.is_some()).find(is_entry) {
        return click(entry);
    }
    let first = |sign: &str| signs(sight, user, sign).first().copied().and_then(click);
    first(&name.to_lowercase()).or_else(|| first("more"))
}

/// `Click the "Like" button on 2 posts by @enola and then click Submit.`, `... on all posts by ...`
pub(super) fn social_media_posts(sight: &PageSnapshot<'_>) -> Option<String> {
    let user = sight.between(" by ", " and then")?;
    let all = signs(sight, user, &sight.quoted().first()?.to_lowercase());
    let most = numbers(sight.between("button on ", " post")?)
        .first()
        .map_or(all.len(), |count| usize::try_from(*count).unwrap_or_default());
    let left = all.into_iter().take(most).filter_map(|node| sight.once(click(node))).next();
    left.or_else(|| sight.send())
}

/// `Order 2 items that are meat`, `Order one Garlic bread`
pub(super) fn order_food(sight: &PageSnapshot<'_>) -> Option<String> {
    let mut dishes: Vec<(&str, Vec<&str>, &Node)> = Vec::new();
    let (mut dish, mut kinds) = ("", Vec::new());
    for node in sight.nodes() {
        match node.role.as_str() {
            "text" if node.name.parse::<u32>().is_err() => {
                dish = &node.name;
                kinds = Vec::new();
            }
            "image" => kinds.push(node.name.as_str()),
            _ if node.name == "+" => dishes.push((dish, std::mem::take(&mut kinds), node)),
            _ => {}
        }
    }
    let wanted: Vec<&Node> = match sight.goal.split_once(" items that are ") {
        Some((count, kind)) => {
            let count = numbers(count).first().and_then(|count| usize::try_from(*count).ok()).unwrap_or(2);
            let of_kind = dishes.iter().filter(|(_, kinds, _)| kinds.contains(&kind.trim_end_matches('.')));
            of_kind.map(|(.., plus)| *plus).take(count).collect()
        }
        None => dishes
            .iter()
            .filter(|(name, ..)| sight.goal.contains(name.trim()))
            .map(|(.., plus)| *plus)
            .collect(),
    };
    let left = wanted.into_iter().filter_map(|plus| sight.once(click(plus))).next();
    left.or_else(|| sight.send())
}
