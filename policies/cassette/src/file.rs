//! Cassettes as files: lines of JSON in one zstd frame.
//!
//! I1. Reading returns exactly what was written, floats bit by bit. I2. A file without its last line, or with changed
//! bytes, is refused. I3. A file is written to a temporary name, synced and renamed: it is complete or missing.
//! I4. The size of everything read is bounded.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::{Message, RunId, ToolSpec, sha256_hex};
use serde_json::Value;

use crate::canonical::Hash;
use crate::cassette::{Cassette, Origin, Reply};
use crate::error::CassetteError;
use crate::line::{ActionLine, Head, Line, ReplyLine};
use crate::model_request::{Piece, Pieces, message_piece, settings_piece, tool_piece};

/// Version of the format. Readers accept older versions, of which there are none yet, and refuse newer ones.
pub const FORMAT: u32 = 1;

/// Level of compression: a cassette is written once and kept under version control.
const LEVEL: i32 = 9;

/// Most bytes of a cassette's text.
const MAX_BYTES: u64 = 8 << 30;

/// Most bytes of one line; a conversation's longest message has a few MiB.
const MAX_LINE: u64 = 256 << 20;

impl Cassette {
    /// Reads a file; returns it with the hex SHA-256 of its bytes.
    ///
    /// # Errors
    /// [`CassetteError`] if the file is not a complete cassette of a known format.
    pub fn read(path: &Path) -> Result<(Self, String), CassetteError> {
        let bytes = fs::read(path).map_err(io_error("read", path))?;
        let sha256 = sha256_hex(&bytes);
        let cassette = Reader::new(path, &bytes)?.cassette()?;
        Ok((cassette, sha256))
    }

    /// The origin of a file, without reading its replies; with the hex SHA-256 of its bytes.
    ///
    /// # Errors
    /// As for [`Cassette::read`], as far as the first line shows.
    pub fn read_origin(path: &Path) -> Result<(Origin, String), CassetteError> {
        let bytes = fs::read(path).map_err(io_error("read", path))?;
        let origin = Reader::new(path, &bytes)?.origin()?;
        Ok((origin, sha256_hex(&bytes)))
    }

    /// Writes a file (I3).
    ///
    /// # Errors
    /// [`CassetteError::Exists`] unless it may be replaced, [`CassetteError::Io`].
    pub fn write(&self, path: &Path, replace: bool) -> Result<(), CassetteError> {
        if !replace && path.exists() {
            return Err(CassetteError::Exists { path: path.to_owned() });
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = path.with_file_name(name);
        let written = self.write_part(&part).and_then(|()| fs::rename(&part, path));
        written.map_err(|source| {
            // Removes the incomplete file.
            let _ = fs::remove_file(&part);
            io_error("write", path)(source)
        })
    }

    fn write_part(&self, part: &Path) -> io::Result<()> {
        let mut encoder = zstd::Encoder::new(BufWriter::new(File::create(part)?), LEVEL)?;
        encoder.include_checksum(true)?;
        self.write_lines(&mut encoder)?;
        let file = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()
    }

    fn write_lines(&self, into: &mut impl Write) -> io::Result<()> {
        let Origin { program, run, policy, redacted } = self.origin().clone();
        let head = Head { format: FORMAT, program, run: run.as_str().to_owned(), policy, redacted };
        write_line(into, &Line::Cassette(head))?;
        let mut known = Known::default();
        for reply in self.replies() {
            let Pieces { settings, messages, tools } = &reply.pieces;
            let line = ReplyLine {
                task: reply.task.clone(),
                turn: reply.turn,
                seed: reply.key.seed,
                repeat: reply.key.repeat,
                settings: number(&mut known.settings, settings, into, Line::Settings)?,
                messages: messages
                    .iter()
                    .map(|message| number(&mut known.messages, message, into, Line::Message))
                    .collect::<io::Result<_>>()?,
                tools: tools
                    .iter()
                    .map(|tool| number(&mut known.tools, tool, into, Line::Tool))
                    .collect::<io::Result<_>>()?,
                said: ActionLine::from(&reply.said),
            };
            write_line(into, &Line::Reply(Box::new(line)))?;
        }
        write_line(into, &Line::End { replies: self.len() as u64 })
    }
}

/// Numbers of pieces that were written.
#[derive(Default)]
struct Known {
    settings: HashMap<Hash, u32>,
    messages: HashMap<Hash, u32>,
    tools: HashMap<Hash, u32>,
}

/// The piece's number; its line is written where it has none yet.
fn number<T: Clone>(
    known: &mut HashMap<Hash, u32>,
    piece: &Piece<T>,
    into: &mut impl Write,
    line: impl Fn(T) -> Line,
) -> io::Result<u32> {
    if let Some(&number) = known.get(&piece.hash) {
        return Ok(number);
    }
    let number = u32::try_from(known.len()).map_err(io::Error::other)?;
    write_line(into, &line(T::clone(&piece.value)))?;
    known.insert(piece.hash, number);
    Ok(number)
}

fn write_line(into: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *into, line)?;
    into.write_all(b"\n")
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CassetteError {
    let path = path.to_owned();
    move |source| CassetteError::Io { what, path, source }
}

/// Reads lines.
struct Reader<'a> {
    path: PathBuf,
    text: BufReader<io::Take<zstd::Decoder<'static, BufReader<&'a [u8]>>>>,
    /// Number of the last line that was read, from 1.
    at: usize,
    /// Whether it starts like zstd: then it is a truncated file.
    is_compressed: bool,
}

/// The first bytes of every zstd frame (RFC 8878).
const ZSTD: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

impl<'a> Reader<'a> {
    fn new(path: &Path, bytes: &'a [u8]) -> Result<Self, CassetteError> {
        let decoder = zstd::Decoder::new(bytes).map_err(io_error("read", path))?;
        let text = BufReader::new(decoder.take(MAX_BYTES));
        Ok(Self { path: path.to_owned(), text, at: 0, is_compressed: bytes.starts_with(&ZSTD) })
    }

    fn origin(&mut self) -> Result<Origin, CassetteError> {
        let no_cassette = |path: &Path, why: String| CassetteError::NoCassette { path: path.to_owned(), why };
        let bytes = match self.next_bytes() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(no_cassette(&self.path, "the file is empty".to_owned())),
            Err(why) if self.is_compressed => return Err(self.damaged(&why)),
            Err(why) => return Err(no_cassette(&self.path, why)),
        };
        // Before the rest, which a newer format may have changed.
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| no_cassette(&self.path, error.to_string()))?;
        let format = value["cassette"]["format"].as_u64().and_then(|format| u32::try_from(format).ok());
        match format {
            None => return Err(no_cassette(&self.path, "its first line has no format".to_owned())),
            Some(format) if format > FORMAT => {
                return Err(CassetteError::Newer { path: self.path.clone(), format, known: FORMAT });
            }
            Some(_) => {}
        }
        let Ok(Line::Cassette(Head { program, run, policy, redacted, .. })) = serde_json::from_value(value)
        else {
            return Err(self.damaged("its header is missing"));
        };
        let run = RunId::new(&run).ok_or_else(|| self.damaged("its header has no valid run name"))?;
        Ok(Origin { program, run, policy, redacted })
    }

    fn cassette(mut self) -> Result<Cassette, CassetteError> {
        let origin = self.origin()?;
        let mut pieces = Numbered::default();
        let mut replies = Vec::new();
        loop {
            let line = match self.next_bytes() {
                Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
                Ok(None) => Err("its last line is missing".to_owned()),
                Err(why) => Err(why),
            };
            match line.map_err(|why| self.damaged(&why))? {
                Line::Cassette(_) => return Err(self.damaged("it begins anew")),
                Line::Settings(settings) => pieces.settings.push(settings_piece(settings)),
                Line::Message(message) => pieces.messages.push(message_piece(message)),
                Line::Tool(tool) => pieces.tools.push(tool_piece(tool)),
                Line::Reply(line) => {
                    replies.push(
                        pieces
                            .reply(*line)
                            .ok_or_else(|| self.damaged("a reply refers to a missing part of its request"))?,
                    );
                }
                Line::End { replies: expected } if expected == replies.len() as u64 => break,
                Line::End { .. } => return Err(self.damaged("replies are missing")),
            }
        }
        match self.next_bytes() {
            Ok(None) => {}
            Ok(Some(_)) => return Err(self.damaged("it continues after its last line")),
            Err(why) => return Err(self.damaged(&why)),
        }
        let (cassette, doubled) = Cassette::new(origin, replies);
        if doubled { Err(self.damaged("two replies have the same request")) } else { Ok(cassette) }
    }

    /// The next line without its end; `None` after the last.
    fn next_bytes(&mut self) -> Result<Option<Vec<u8>>, String> {
        self.at += 1;
        let mut line = Vec::new();
        let read = (&mut self.text).take(MAX_LINE).read_until(b'\n', &mut line);
        match read {
            Err(error) => Err(error.to_string()),
            Ok(0) => Ok(None),
            Ok(_) if line.pop() == Some(b'\n') => Ok(Some(line)),
            Ok(_) => Err("a line is too long or has no line break".to_owned()),
        }
    }

    fn damaged(&self, why: &str) -> CassetteError {
        CassetteError::Damaged { path: self.path.clone(), line: self.at, why: why.to_owned() }
    }
}

/// Pieces by their numbers.
#[derive(Default)]
struct Numbered {
    settings: Vec<Piece<Value>>,
    messages: Vec<Piece<Message>>,
    tools: Vec<Piece<ToolSpec>>,
}

impl Numbered {
    fn reply(&self, line: ReplyLine) -> Option<Reply> {
        let ReplyLine { task, turn, seed, repeat, settings, messages, tools, said } = line;
        let pieces = Pieces {
            settings: at(&self.settings, settings)?,
            messages: messages.into_iter().map(|number| at(&self.messages, number)).collect::<Option<_>>()?,
            tools: tools.into_iter().map(|number| at(&self.tools, number)).collect::<Option<_>>()?,
        };
        Some(Reply::of_pieces(task, turn, seed, repeat, pieces, said.into()))
    }
}

fn at<T>(pieces: &[Piece<T>], number: u32) -> Option<Piece<T>> {
    let piece = pieces.get(number as usize)?;
    Some(Piece { hash: piece.hash, value: Arc::clone(&piece.value) })
}
