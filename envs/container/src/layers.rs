//! Total disk usage of images: shared layers count once.
//!
//! An engine reports the digests of an image's layers, and the sizes of its steps, in the same order; but steps without
//! content have size 0, and may or may not be layers. So the size of each layer is unknown, and not needed: two images
//! with the same lowest layers have the same sizes there.

use crate::ledger::LedgerImage;

/// Bytes of all layers of the images.
pub(crate) fn bytes<'a>(images: impl IntoIterator<Item = &'a LedgerImage>) -> u64 {
    let mut images: Vec<_> = images.into_iter().collect();
    // Neighbours in this order share the most layers: those that an image shares with any before it.
    images.sort_unstable_by(|a, b| a.layers.cmp(&b.layers));
    let own = |image: &LedgerImage| image.sizes.iter().sum::<u64>();
    let first = images.first().map_or(0, |image| own(image));
    first + images.windows(2).map(|pair| own(pair[1]) - in_common(pair[0], pair[1])).sum::<u64>()
}

fn in_common(a: &LedgerImage, b: &LedgerImage) -> u64 {
    let layers = a.layers.iter().zip(&b.layers).take_while(|(a, b)| a == b).count();
    let sizes = a.sizes.iter().zip(&b.sizes).take(layers).take_while(|(a, b)| a == b);
    sizes.map(|(size, _)| size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(layers: &str, sizes: &[u64]) -> LedgerImage {
        LedgerImage {
            engine: String::new(),
            name: String::new(),
            id: String::new(),
            used: 0,
            layers: layers.chars().map(String::from).collect(),
            sizes: sizes.to_vec(),
        }
    }

    #[test]
    fn common_layers_count_once() {
        let check = |images: &[(&str, &[u64])], expected: u64| {
            let mut images: Vec<_> = images.iter().map(|(layers, sizes)| image(layers, sizes)).collect();
            for _ in 0..images.len() {
                images.rotate_left(1);
                assert_eq!(bytes(&images), expected, "{images:?}");
            }
            assert_eq!(bytes(images.iter().rev()), expected, "{images:?}");
        };
        check(&[], 0);
        check(&[("ab", &[100, 10])], 110);
        check(&[("ab", &[100, 10]), ("ab", &[100, 10])], 110);
        check(&[("ab", &[100, 10]), ("ac", &[100, 5]), ("a", &[100])], 115);
        check(&[("ab", &[100, 10]), ("xy", &[100, 10])], 220);
        // A layer without content, between the two that have some.
        check(&[("a0b", &[100, 10]), ("a0c", &[100, 7])], 117);
        // The same size above different layers is another layer.
        check(&[("ab", &[100, 10]), ("cb", &[100, 10])], 220);
        check(&[("ab", &[1, 2]), ("abc", &[1, 2, 4]), ("abd", &[1, 2, 8]), ("abde", &[1, 2, 8, 16])], 31);
    }
}
