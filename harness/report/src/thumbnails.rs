//! Thumbnails of pictures, for the strip of an attempt.
//!
//! F1. A thumbnail is redrawn pixel by pixel: no byte of the recorded file goes into the page. F2. Decoding is
//! bounded in advance, whatever the file claims. F3. A thumbnail is a function of the file.
//!
//! Units: pixels.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::{AttemptRecord, BlobRef};
use clawrl_record::{RecordError, Run};
use png::{BitDepth, ColorType, Compression, Decoder, Encoder, Filter, Limits, Transformations};

/// Width of a small picture; as high as it comes to.
const WIDTH: usize = 240;

/// Maximum shown height of a picture.
const MAX_HEIGHT: usize = 360;

/// Pixels of the largest picture that is made small.
const MAX_PIXELS: usize = 16 << 20;

/// Thumbnails of some attempts.
#[derive(Debug, Default)]
pub(crate) struct Thumbnails {
    /// Small pictures in base64, by the hash of the picture.
    pub(crate) small: BTreeMap<String, String>,
    /// Pictures that are not in the run's folder.
    pub(crate) missing: BTreeSet<String>,
}

/// All pictures of an attempt, in order.
pub(crate) fn pictures(record: &AttemptRecord) -> impl Iterator<Item = BlobRef> + '_ {
    let turns = record.trajectory.turns.iter().map(|turn| &turn.observation);
    std::iter::once(&record.trajectory.reset).chain(turns).flat_map(|observation| observation.all_pictures())
}

impl Thumbnails {
    /// Reads the pictures of an attempt, and makes small ones if they are `wanted`.
    ///
    /// # Errors
    /// [`RecordError`] of one that is damaged. One that is not there is noted.
    pub(crate) fn add(&mut self, run: &Run, record: &AttemptRecord, wanted: bool) -> Result<(), RecordError> {
        for blob in pictures(record) {
            if self.small.contains_key(&blob.sha256) || self.missing.contains(&blob.sha256) {
                continue;
            }
            match run.blob(&blob)? {
                None => {
                    self.missing.insert(blob.sha256);
                }
                Some(bytes) if wanted => {
                    // For other formats, and files that cannot be drawn, the page links to the file.
                    let small = small(&bytes).map_or(String::new(), |small| STANDARD.encode(small));
                    self.small.insert(blob.sha256, small);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Scales a PNG down; `None` if it is not a PNG, or too large.
fn small(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: 4 * MAX_PIXELS });
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().ok()?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    if width.checked_mul(height).is_none_or(|pixels| pixels == 0 || pixels > MAX_PIXELS) {
        return None;
    }
    let mut pixels = vec![0; reader.output_buffer_size()?];
    let samples = reader.next_frame(&mut pixels).ok()?.color_type.samples();
    drawn(&shrunk(&pixels, (width, height), samples))
}

/// Red, green and blue of an area of pixels, row by row.
struct Image {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// Every pixel is the mean of those in its place. Pixels have one sample of grey, or three, and perhaps one more for how
/// much they cover of a white ground.
fn shrunk(pixels: &[u8], (width, height): (usize, usize), samples: usize) -> Image {
    let to_width = width.min(WIDTH);
    let to_height = (height * to_width).div_ceil(width).max(1);
    let shown = to_height.min(MAX_HEIGHT);
    // Start of each row or column of pixels; each has at least one.
    let begin = |at: usize, from: usize, to: usize| at * from / to;
    let mut small = Vec::with_capacity(to_width * shown * 3);
    for y in 0..shown {
        let rows =
            begin(y, height, to_height)..begin(y + 1, height, to_height).max(begin(y, height, to_height) + 1);
        for x in 0..to_width {
            let columns = begin(x, width, to_width)..begin(x + 1, width, to_width);
            let mut sums = [0_u32; 3];
            for row in rows.clone() {
                for pixel in pixels
                    [(row * width + columns.start) * samples..(row * width + columns.end) * samples]
                    .chunks_exact(samples)
                {
                    let colour = if samples < 3 { [pixel[0]; 3] } else { [pixel[0], pixel[1], pixel[2]] };
                    let cover = if samples.is_multiple_of(2) { u32::from(pixel[samples - 1]) } else { 255 };
                    for (sum, part) in sums.iter_mut().zip(colour) {
                        *sum += (u32::from(part) * cover + 255 * (255 - cover)) / 255;
                    }
                }
            }
            let count = (rows.len() * columns.len()) as u32;
            // Five bits of each colour look the same at this size and take half the room.
            small.extend(sums.map(|sum| coarse((sum / count) as u8)));
        }
    }
    Image { width: to_width, height: shown, pixels: small }
}

/// The five highest bits, and black and white as they are.
fn coarse(part: u8) -> u8 {
    part & 0xf8 | part >> 5
}

fn drawn(image: &Image) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, image.width as u32, image.height as u32);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Balanced);
    encoder.set_filter(Filter::Adaptive);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&image.pixels).ok()?;
    writer.finish().ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32, color: ColorType, pixels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, width, height);
        encoder.set_color(color);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
        bytes
    }

    fn decoded(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
        let mut reader = Decoder::new(Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width as usize, info.height as usize, pixels)
    }

    #[test]
    fn pixels_are_the_mean_of_those_in_their_place() {
        // Two by two pixels become one: half of them black, half of them white.
        let row = |odd: usize| (0..2 * WIDTH).map(move |x| if (x + odd).is_multiple_of(2) { 0 } else { 255 });
        let board: Vec<u8> = (0..4).flat_map(row).flat_map(|grey: u8| [grey; 3]).collect();
        let (width, height, pixels) =
            decoded(&small(&png(2 * WIDTH as u32, 4, ColorType::Rgb, &board)).unwrap());
        assert_eq!((width, height), (WIDTH, 2));
        assert!(pixels.iter().all(|&part| part == coarse(127)), "{pixels:?}");
    }

    #[test]
    fn every_kind_of_pixel_is_read() {
        let check = |color: ColorType, pixel: &[u8], expected: [u8; 3]| {
            assert_eq!(
                decoded(&small(&png(1, 1, color, pixel)).unwrap()),
                (1, 1, expected.to_vec()),
                "{color:?}"
            );
        };
        check(ColorType::Rgb, &[255, 0, 8], [255, 0, 8]);
        check(ColorType::Rgba, &[255, 0, 8, 255], [255, 0, 8]);
        check(ColorType::Rgba, &[1, 2, 3, 0], [255, 255, 255]);
        check(ColorType::Grayscale, &[255], [255, 255, 255]);
        check(ColorType::GrayscaleAlpha, &[0, 255], [0, 0, 0]);
    }

    #[test]
    fn f2_large_and_invalid_pictures_are_not_drawn() {
        assert_eq!(small(b"no picture"), None);
        let long = small(&png(1, 2_000, ColorType::Grayscale, &[0; 2_000])).unwrap();
        assert_eq!(decoded(&long).1, MAX_HEIGHT);
        // A head that promises more than there is memory for.
        let mut bomb = png(1, 1, ColorType::Rgb, &[0; 3]);
        bomb[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(small(&bomb), None);
        let cut = png(100, 100, ColorType::Rgb, &[7; 30_000]);
        assert_eq!(small(&cut[..cut.len() / 2]), None);
    }
}
