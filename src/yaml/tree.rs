//! Converts the events of the parser to trees.

use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::document::{Document, DocumentFault};
use super::node::{Field, Location, Node, NodeContent, Wrong};
use super::scalar::Scalars;

/// The maximum nesting of a document: twice the nesting of a listener with its routes and their filters.
const MAX_DEPTH: usize = 128;

/// The limit of the size that aliases add to a file: bytes of text, and [`NODE`] for each value. A limit for each
/// document would have no effect, because a file may have thousands.
const MAX_ALIASED: usize = 8 << 20;

/// The minimum size of a value.
const NODE: usize = 32;

/// A value, and the size and nesting of a copy.
#[derive(Debug, Clone)]
struct Built {
    node: Node,
    weight: usize,
    depth: usize,
}

/// An unfinished list or object.
struct Frame {
    place: Location,
    anchor: usize,
    weight: usize,
    depth: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    /// `lines` has the first line of each key.
    Object {
        fields: Vec<Field>,
        lines: HashMap<String, usize>,
        key: Option<Key>,
        merged: Vec<Node>,
    },
}

struct Key {
    name: String,
    place: Location,
    merge: bool,
}

/// The documents of a text, parsed one by one, including empty ones.
pub struct Documents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    scalars: Scalars,
    /// The number of documents so far.
    count: usize,
    /// The size that aliases have added to the file so far.
    aliased: usize,
    ended: bool,
}

impl<'a> Documents<'a> {
    pub(super) fn new(text: &'a str, scalars: Scalars) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(false);
        let parser = Parser::new_from_str_with_options(text, options);
        Self { parser, scalars, count: 0, aliased: 0, ended: false }
    }

    /// Parses the document that starts at the line `start`.
    fn document(&mut self, start: usize) -> Document {
        let mut builder = Builder::new(self.scalars, self.aliased);
        let parsed = builder.document(&mut self.parser);
        let fault = |Wrong { place, message }, field| DocumentFault { document: self.count, place, field, message };
        let (root, lenient) = match (builder.repeated.take(), parsed) {
            (None, Ok(node)) => (Ok(node), None),
            (None, Err(wrong)) => (Err(fault(wrong, builder.path())), None),
            (Some((wrong, field)), parsed) => (Err(fault(wrong, field)), parsed.ok()),
        };
        self.aliased = builder.aliased;
        let line = root.as_ref().map_or(0, |root| root.place.line);
        Document { index: self.count, line: if line > 0 { line } else { start }, root, lenient }
    }
}

impl Iterator for Documents<'_> {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        while !self.ended {
            let document = match self.parser.next_event() {
                None | Some(Ok((Event::StreamEnd, _))) => break,
                Some(Ok((Event::DocumentStart(..), span))) => {
                    self.count += 1;
                    self.document(span.start.line())
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => {
                    self.count += 1;
                    let Wrong { place, message } = wrong(&error);
                    let fault = DocumentFault { document: self.count, place, field: String::new(), message };
                    Document { index: self.count, line: place.line, root: Err(fault), lenient: None }
                }
            };
            let is_aborted = document.root.is_err() && document.lenient.is_none();
            self.ended = is_aborted && !matches!(self.parser.proceed_next_document(), Ok(true));
            return Some(document);
        }
        self.ended = true;
        None
    }
}

fn wrong(error: &ScanError) -> Wrong {
    let place = Location { line: error.marker().line(), column: error.marker().col() + 1 };
    place.wrong(error.kind().to_string())
}

fn start(span: &Span) -> Location {
    Location { line: span.start.line(), column: span.start.col() + 1 }
}

struct Builder {
    scalars: Scalars,
    frames: Vec<Frame>,
    anchors: HashMap<usize, Built>,
    /// The size that aliases have added to the file so far.
    aliased: usize,
    /// The first key that is given twice, and its path. The rest of the document is parsed nevertheless.
    repeated: Option<(Wrong, String)>,
}

impl Builder {
    fn new(scalars: Scalars, aliased: usize) -> Self {
        Self { scalars, frames: Vec::new(), anchors: HashMap::new(), aliased, repeated: None }
    }

    /// Parses the document whose start was read last.
    fn document<'a>(&mut self, parser: &mut Parser<'a, StrInput<'a>>) -> Result<Node, Wrong> {
        let mut root = Node::default();
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| wrong(&error))?;
            let place = start(&span);
            let built = match event {
                Event::DocumentEnd => break,
                Event::Scalar(text, style, anchor, tag) => {
                    let Some(built) = self.scalar(&text, style, tag.as_deref(), place)? else { continue };
                    self.anchor(anchor, built)?
                }
                Event::Alias(anchor) => self.alias(anchor, place)?,
                Event::SequenceStart(_, anchor, _) => {
                    self.push(place, anchor, Content::List(Vec::new()))?;
                    continue;
                }
                Event::MappingStart(_, anchor, _) => {
                    let (fields, lines, merged) = (Vec::new(), HashMap::new(), Vec::new());
                    self.push(place, anchor, Content::Object { fields, lines, key: None, merged })?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match self.frames.pop() {
                    Some(frame) => {
                        let anchor = frame.anchor;
                        self.anchor(anchor, finish(frame))?
                    }
                    None => continue,
                },
                _ => continue,
            };
            if self.frames.is_empty() {
                root = built.node;
            } else {
                self.add(built)?;
            }
        }
        Ok(root)
    }

    /// Parses a scalar. Returns `None` for a merge key, which is recorded.
    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        place: Location,
    ) -> Result<Option<Built>, Wrong> {
        let key = self.frames.last_mut().and_then(|frame| match &mut frame.content {
            Content::Object { key: key @ None, .. } => Some(key),
            _ => None,
        });
        if let Some(key) = key
            && style == ScalarStyle::Plain
            && text == "<<"
        {
            *key = Some(Key { name: text.to_owned(), place, merge: true });
            return Ok(None);
        }
        let content = self.scalars.value(text, style, tag).map_err(|message| place.wrong(message))?;
        Ok(Some(Built { node: Node { place, content }, weight: NODE + text.len(), depth: 1 }))
    }

    fn push(&mut self, place: Location, anchor: usize, content: Content) -> Result<(), Wrong> {
        if let Some(Frame { content: Content::Object { key: None, .. }, .. }) = self.frames.last() {
            return Err(place.wrong("a list or an object cannot be a key"));
        }
        if self.frames.len() >= MAX_DEPTH {
            return Err(too_deep(place));
        }
        self.frames.push(Frame { place, anchor, weight: NODE, depth: 1, content });
        Ok(())
    }

    /// Stores `built` for aliases if it has an anchor.
    fn anchor(&mut self, anchor: usize, built: Built) -> Result<Built, Wrong> {
        if anchor != 0 {
            self.spend(built.weight, built.node.place)?;
            self.anchors.insert(anchor, built.clone());
        }
        Ok(built)
    }

    fn alias(&mut self, anchor: usize, place: Location) -> Result<Built, Wrong> {
        let weight = self
            .anchors
            .get(&anchor)
            .map(|built| built.weight)
            .ok_or_else(|| place.wrong("the alias is inside the value that it refers to"))?;
        self.spend(weight, place)?;
        let mut built = self.anchors.get(&anchor).cloned().ok_or_else(|| too_deep(place))?;
        built.node.place = place;
        Ok(built)
    }

    fn spend(&mut self, weight: usize, place: Location) -> Result<(), Wrong> {
        self.aliased += weight;
        if self.aliased > MAX_ALIASED { Err(place.wrong("aliases make the file too large")) } else { Ok(()) }
    }

    /// Adds `built` to the current list or object: as item, key, or value.
    fn add(&mut self, built: Built) -> Result<(), Wrong> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let place = built.node.place;
        frame.weight += built.weight;
        frame.depth = frame.depth.max(built.depth + 1);
        if frame.depth > MAX_DEPTH {
            return Err(too_deep(place));
        }
        match &mut frame.content {
            Content::List(items) => items.push(built.node),
            Content::Object { fields, lines, key, merged } => match key.take() {
                None => {
                    let name = match built.node.content {
                        NodeContent::Text(name) => name,
                        NodeContent::Bool(value) => value.to_string(),
                        NodeContent::Number(number) => number.to_string(),
                        _ => return Err(place.wrong("only text can be a key")),
                    };
                    let first = lines.get(&name).copied();
                    lines.entry(name.clone()).or_insert(place.line);
                    *key = Some(Key { name, place, merge: false });
                    if let Some(first) = first.filter(|_| self.repeated.is_none()) {
                        let message = format!("the key is already given in line {first}");
                        self.repeated = Some((place.wrong(message), self.path()));
                    }
                }
                Some(Key { merge: true, .. }) => merge(built.node, merged)?,
                Some(Key { name, place, .. }) => fields.push(Field { place, key: name, value: built.node }),
            },
        }
        Ok(())
    }

    /// Returns the path of the current value.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.frames {
            match &frame.content {
                Content::List(items) => path.push_str(&format!("[{}]", items.len())),
                Content::Object { key: Some(key), .. } => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&key.name);
                }
                Content::Object { key: None, .. } => {}
            }
        }
        path
    }
}

fn too_deep(place: Location) -> Wrong {
    place.wrong(format!("nested deeper than {MAX_DEPTH} levels"))
}

/// Records the content of a merge key: an object, or a list of objects.
fn merge(node: Node, merged: &mut Vec<Node>) -> Result<(), Wrong> {
    let refused = || node.place.wrong("a merge key takes an object or a list of objects");
    match &node.content {
        NodeContent::Object(_) => merged.push(node),
        NodeContent::List(items) if items.iter().all(|item| matches!(item.content, NodeContent::Object(_))) => {
            merged.extend(items.iter().cloned());
        }
        _ => return Err(refused()),
    }
    Ok(())
}

/// Finishes `frame`. The object's own fields take precedence over merged ones, and earlier merged fields over later
/// ones.
fn finish(frame: Frame) -> Built {
    let content = match frame.content {
        Content::List(items) => NodeContent::List(items),
        Content::Object { mut fields, mut lines, merged, .. } => {
            for node in merged {
                let NodeContent::Object(more) = node.content else { continue };
                fields.extend(
                    more.into_iter().filter(|field| lines.insert(field.key.clone(), field.place.line).is_none()),
                );
            }
            NodeContent::Object(fields)
        }
    };
    Built { node: Node { place: frame.place, content }, weight: frame.weight, depth: frame.depth }
}
