//! Builds the views of a teacher from two readings of one episode: the one of the policy, and one with a hint.
//!
//! I1. A token of one reading is the token of the other that was sampled at the same place in the episode, independent of the
//! text around it and of where its segments begin. I2. A view scores tokens of one segment only, and ends with the last of them.
//!
//! Pure; nothing to cancel.

use crate::{Segment, TeacherView, ViewPlace};

/// The reason why two readings are not of one episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// One reading has more sampled tokens.
    #[error("{plain} tokens were sampled, and {hinted} in the reading with a hint")]
    Count {
        /// Sampled tokens in the policy's reading.
        plain: usize,
        /// Sampled tokens in the other reading.
        hinted: usize,
    },
    /// A sampled token differs.
    #[error("sampled token {place} is another one in the reading with a hint")]
    Token {
        /// The place in the episode.
        place: usize,
    },
}

/// The views of each segment of an episode, in order of the reading with a hint.
///
/// # Errors
/// [`ViewError`]: the readings are not of the same episode.
pub fn teacher_views(plain: &[Segment], hinted: &[Segment]) -> Result<Vec<Vec<TeacherView>>, ViewError> {
    let (ours, theirs) = (sampled(plain), sampled(hinted));
    if ours.len() != theirs.len() {
        return Err(ViewError::Count { plain: ours.len(), hinted: theirs.len() });
    }
    // For each segment: the hinted segments that ask about its tokens.
    let mut asked: Vec<Vec<(usize, Vec<ViewPlace>)>> = vec![Vec::new(); plain.len()];
    let mut open = None;
    for (place, (&(of, at), &(by, view))) in ours.iter().zip(&theirs).enumerate() {
        if plain[of].ids[at] != hinted[by].ids[view] {
            return Err(ViewError::Token { place });
        }
        if open != Some((of, by)) {
            open = Some((of, by));
            asked[of].push((by, Vec::new()));
        }
        if let Some((_, places)) = asked[of].last_mut() {
            places.push(ViewPlace { view, segment: at });
        }
    }
    let view = |(by, places): (usize, Vec<ViewPlace>)| {
        let end = places.last().map_or(0, |last| last.view + 1);
        TeacherView { ids: hinted[by].ids[..end].to_vec(), places, said: None }
    };
    Ok(asked.into_iter().map(|of_segment| of_segment.into_iter().map(view).collect()).collect())
}

/// The view on one turn of an episode, from a reading of the episode up to that turn, and the segment that holds its tokens.
/// `None` if none of these tokens is trained on.
///
/// # Errors
/// [`ViewError`]: the readings are not of the same turn.
pub fn turn_view(
    plain: &[Segment],
    turn: u32,
    hinted: &[Segment],
) -> Result<Option<(usize, TeacherView)>, ViewError> {
    let of_turn = |segments: &[Segment]| -> Vec<(usize, usize)> {
        sampled(segments).into_iter().filter(|&(of, at)| segments[of].turns[at] == turn).collect()
    };
    let (ours, theirs) = (of_turn(plain), of_turn(hinted));
    let Some(&(segment, _)) = ours.first() else { return Ok(None) };
    if ours.len() != theirs.len() {
        return Err(ViewError::Count { plain: ours.len(), hinted: theirs.len() });
    }
    let reading = theirs.first().map_or(0, |&(by, _)| by);
    let mut places = Vec::with_capacity(ours.len());
    for (place, (&(of, at), &(by, view))) in ours.iter().zip(&theirs).enumerate() {
        // Segments are runs of whole turns.
        if of != segment || by != reading || plain[of].ids[at] != hinted[by].ids[view] {
            return Err(ViewError::Token { place });
        }
        places.push(ViewPlace { view, segment: at });
    }
    let end = places.last().map_or(0, |last| last.view + 1);
    Ok(Some((segment, TeacherView { ids: hinted[reading].ids[..end].to_vec(), places, said: None })))
}

/// Segment and position of every token that is trained on.
fn sampled(segments: &[Segment]) -> Vec<(usize, usize)> {
    let of = |(index, segment): (usize, &Segment)| {
        let trained: Vec<usize> = (0..segment.len()).filter(|&at| segment.mask[at]).collect();
        trained.into_iter().map(move |at| (index, at)).collect::<Vec<_>>()
    };
    segments.iter().enumerate().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Context below 10, sampled tokens from 10 on.
    fn segment(ids: &[u32]) -> Segment {
        let mut segment = Segment::default();
        for &id in ids {
            if id < 10 { segment.push_context(&[id]) } else { segment.push_sampled(0, id, -1.0, 0, 1.0) }
        }
        segment
    }

    /// Places in a view and in its segment.
    type Places<'a> = &'a [(usize, usize)];
    type Found = (Vec<u32>, Vec<(usize, usize)>);

    fn check(plain: &[&[u32]], hinted: &[&[u32]], expected: &[&[(&[u32], Places<'_>)]]) {
        let read =
            |readings: &[&[u32]]| -> Vec<Segment> { readings.iter().map(|ids| segment(ids)).collect() };
        let plain = read(plain);
        let views = teacher_views(&plain, &read(hinted)).unwrap();
        assert!(
            plain.iter().zip(&views).all(|(segment, views)| views.iter().all(|view| view.is_of(segment)))
        );
        let place = |place: &ViewPlace| (place.view, place.segment);
        let found: Vec<Vec<Found>> = views
            .iter()
            .map(|views| {
                views.iter().map(|view| (view.ids.clone(), view.places.iter().map(place).collect())).collect()
            })
            .collect();
        let expected: Vec<Vec<Found>> = expected
            .iter()
            .map(|views| views.iter().map(|(ids, places)| (ids.to_vec(), places.to_vec())).collect())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn i1_a_token_is_found_behind_a_hint() {
        check(
            &[&[1, 2, 10, 11, 3, 12, 4]],
            &[&[1, 2, 7, 8, 10, 11, 3, 12, 4]],
            &[&[(&[1, 2, 7, 8, 10, 11, 3, 12], &[(4, 2), (5, 3), (7, 5)])]],
        );
    }

    #[test]
    fn i2_segments_may_begin_elsewhere() {
        // The second segment begins with 3 in the policy's reading, and with 2 in the other one: 11 is context of the policy's
        // second segment there, and a token of its own here.
        let (mut kept, mut later) = (Segment::default(), segment(&[3, 12]));
        kept.push_context(&[2, 11]);
        kept.ids.append(&mut later.ids);
        kept.mask.append(&mut later.mask);
        let plain = [segment(&[1, 10, 2, 11]), kept];
        let hinted = [segment(&[1, 7, 10]), segment(&[7, 2, 11, 3, 12])];
        let views = teacher_views(&plain, &hinted).unwrap();
        let places = |view: &TeacherView| -> Vec<(usize, usize)> {
            view.places.iter().map(|place| (place.view, place.segment)).collect()
        };
        let found: Vec<Vec<_>> = views.iter().map(|views| views.iter().map(places).collect()).collect();
        assert_eq!(found, [vec![vec![(2, 1)], vec![(2, 3)]], vec![vec![(4, 3)]]]);
        assert_eq!(views[0][1].ids, [7, 2, 11]);
        assert_eq!(views[1][0].ids, [7, 2, 11, 3, 12]);
    }

    #[test]
    fn a_turn_is_asked_about_alone() {
        let mut plain = segment(&[1, 2]);
        plain.push_sampled(0, 10, -1.0, 0, 1.0);
        plain.push_context(&[3]);
        plain.push_sampled(1, 11, -1.0, 0, 1.0);
        plain.push_sampled(1, 12, -1.0, 0, 1.0);
        let plain = [segment(&[1]), plain];
        let mut reading = segment(&[1, 2]);
        reading.push_sampled(0, 10, -1.0, 0, 1.0);
        reading.push_context(&[3, 7]);
        reading.push_sampled(1, 11, -1.0, 0, 1.0);
        reading.push_sampled(1, 12, -1.0, 0, 1.0);
        reading.push_context(&[4]);
        let hinted = [reading];
        let (of, view) = turn_view(&plain, 1, &hinted).unwrap().unwrap();
        let places: Vec<(usize, usize)> =
            view.places.iter().map(|place| (place.view, place.segment)).collect();
        assert_eq!(
            (of, places, view.ids.as_slice()),
            (1, vec![(5, 4), (6, 5)], &[1, 2, 10, 3, 7, 11, 12][..])
        );
        assert!(view.is_of(&plain[1]));
        assert_eq!(turn_view(&plain, 2, &hinted), Ok(None));
        assert_eq!(turn_view(&plain, 1, &[segment(&[1, 10])]), Err(ViewError::Count { plain: 2, hinted: 0 }));
        let mut other = segment(&[1]);
        other.push_sampled(1, 12, -1.0, 0, 1.0);
        other.push_sampled(1, 11, -1.0, 0, 1.0);
        assert_eq!(turn_view(&plain, 1, &[other]), Err(ViewError::Token { place: 0 }));
    }

    #[test]
    fn readings_of_other_episodes_are_refused() {
        let refused =
            |plain: &[u32], hinted: &[u32]| teacher_views(&[segment(plain)], &[segment(hinted)]).unwrap_err();
        assert_eq!(refused(&[1, 10], &[1, 10, 11]), ViewError::Count { plain: 1, hinted: 2 });
        assert_eq!(refused(&[1, 10, 11], &[1, 7, 10, 12]), ViewError::Token { place: 1 });
        assert_eq!(teacher_views(&[], &[]), Ok(Vec::new()));
    }
}
