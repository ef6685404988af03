//! Converts the events of the parser to values with lines.

use std::collections::{BTreeMap, HashMap};

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, StrInput, Tag};
use serde_json::{Map, Value};

use super::document::{Document, DocumentFault, Inner, Lines};
use super::scalar;

/// The maximum nesting of a document: twice the nesting of a listener with its routes and their filters.
const MAX_DEPTH: usize = 128;

/// The limit of the size that aliases add to a file: bytes of text, and [`NODE`] for each value. A limit for each
/// document would have no effect, because a file may have thousands.
const MAX_ALIASED: usize = 8 << 20;

/// The minimum size of a value.
const NODE: usize = 32;

/// A value, its lines, and the size of a copy.
#[derive(Debug, Clone)]
struct Node {
    value: Value,
    lines: Lines,
    weight: usize,
    depth: usize,
}

/// An unfinished list or object.
struct Frame {
    line: usize,
    anchor: usize,
    weight: usize,
    depth: usize,
    content: Content,
}

enum Content {
    List(Vec<Value>, Vec<Lines>),
    Object { fields: Map<String, Value>, lines: BTreeMap<String, Lines>, key: Option<Key>, merged: Vec<Node> },
}

struct Key {
    name: String,
    line: usize,
    merge: bool,
}

/// The place and the message of a fault, before the document is known.
struct Wrong {
    line: usize,
    message: String,
}

/// The documents of a text, parsed one by one, including empty ones.
pub struct Documents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The number of documents so far.
    count: usize,
    /// The size that aliases have added to the file so far.
    aliased: usize,
    ended: bool,
}

impl<'a> Documents<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(false);
        let parser = Parser::new_from_str_with_options(text, options);
        Self { parser, count: 0, aliased: 0, ended: false }
    }

    /// Parses the document that starts at the line `start`.
    fn document(&mut self, start: usize) -> Document {
        let mut builder = Builder { aliased: self.aliased, ..Builder::default() };
        let parsed = builder.document(&mut self.parser);
        let field = builder.path();
        let fault = |wrong: Wrong, field| {
            Err(DocumentFault { document: self.count, line: wrong.line, field, message: wrong.message })
        };
        let (value, lenient, lines) = match (builder.repeated.take(), parsed) {
            (None, Ok(node)) => (Ok(node.value), None, node.lines),
            (None, Err(wrong)) => (fault(wrong, field), None, Lines::default()),
            (Some((wrong, field)), parsed) => {
                (fault(wrong, field), parsed.ok().map(|node| node.value), Lines::default())
            }
        };
        self.aliased = builder.aliased;
        let line = if lines.line > 0 { lines.line } else { start };
        Document { index: self.count, line, value, lenient, lines }
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
                    let Wrong { line, message } = wrong(&error);
                    let fault = DocumentFault { document: self.count, line, field: String::new(), message };
                    Document { index: self.count, line, value: Err(fault), lenient: None, lines: Lines::default() }
                }
            };
            let is_aborted = document.value.is_err() && document.lenient.is_none();
            self.ended = is_aborted && !matches!(self.parser.proceed_next_document(), Ok(true));
            return Some(document);
        }
        self.ended = true;
        None
    }
}

fn wrong(error: &ScanError) -> Wrong {
    Wrong { line: error.marker().line(), message: error.kind().to_string() }
}

#[derive(Default)]
struct Builder {
    frames: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    /// The size that aliases have added to the file so far.
    aliased: usize,
    /// The first key that is given twice, and its path. The rest of the document is parsed nevertheless.
    repeated: Option<(Wrong, String)>,
}

impl Builder {
    /// Parses the document whose start was read last.
    fn document<'a>(&mut self, parser: &mut Parser<'a, StrInput<'a>>) -> Result<Node, Wrong> {
        let mut root = None;
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| wrong(&error))?;
            let line = span.start.line();
            let node = match event {
                Event::DocumentEnd => break,
                Event::Scalar(text, style, anchor, tag) => {
                    let node = self.scalar(&text, style, tag.as_deref(), line)?;
                    let Some(node) = node else { continue };
                    self.anchor(anchor, node, line)?
                }
                Event::Alias(anchor) => self.alias(anchor, line)?,
                Event::SequenceStart(_, anchor, _) => {
                    self.push(line, anchor, Content::List(Vec::new(), Vec::new()))?;
                    continue;
                }
                Event::MappingStart(_, anchor, _) => {
                    let content =
                        Content::Object { fields: Map::new(), lines: BTreeMap::new(), key: None, merged: Vec::new() };
                    self.push(line, anchor, content)?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match self.frames.pop() {
                    Some(frame) => {
                        let (anchor, line) = (frame.anchor, frame.line);
                        self.anchor(anchor, finish(frame), line)?
                    }
                    None => continue,
                },
                _ => continue,
            };
            if self.frames.is_empty() {
                root = Some(node);
            } else {
                self.add(node)?;
            }
        }
        let null = Node { value: Value::Null, lines: Lines::default(), weight: NODE, depth: 1 };
        Ok(root.unwrap_or(null))
    }

    /// Parses a scalar. Returns `None` for a merge key, which is recorded.
    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<Option<Node>, Wrong> {
        let key = self.frames.last_mut().and_then(|frame| match &mut frame.content {
            Content::Object { key: key @ None, .. } => Some(key),
            _ => None,
        });
        if let Some(key) = key
            && style == ScalarStyle::Plain
            && text == "<<"
        {
            *key = Some(Key { name: text.to_owned(), line, merge: true });
            return Ok(None);
        }
        let value = match tag.map(|tag| tag.core_suffix()) {
            None if style == ScalarStyle::Plain => scalar::plain(text),
            Some(Some(suffix)) => scalar::tagged(suffix, text),
            _ => Ok(text.into()),
        };
        let value = value.map_err(|message| Wrong { line, message })?;
        let lines = Lines { line, inner: Inner::Scalar };
        Ok(Some(Node { value, lines, weight: NODE + text.len(), depth: 1 }))
    }

    fn push(&mut self, line: usize, anchor: usize, content: Content) -> Result<(), Wrong> {
        if let Some(Frame { content: Content::Object { key: None, .. }, .. }) = self.frames.last() {
            return Err(Wrong { line, message: "a list or an object cannot be a key".to_owned() });
        }
        if self.frames.len() >= MAX_DEPTH {
            return Err(too_deep(line));
        }
        self.frames.push(Frame { line, anchor, weight: NODE, depth: 1, content });
        Ok(())
    }

    /// Stores `node` for aliases if it has an anchor.
    fn anchor(&mut self, anchor: usize, node: Node, line: usize) -> Result<Node, Wrong> {
        if anchor != 0 {
            self.spend(node.weight, line)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<Node, Wrong> {
        let weight = self
            .anchors
            .get(&anchor)
            .map(|node| node.weight)
            .ok_or_else(|| Wrong { line, message: "the alias is inside the value that it refers to".to_owned() })?;
        self.spend(weight, line)?;
        let mut node = self.anchors.get(&anchor).cloned().ok_or_else(|| too_deep(line))?;
        node.lines.line = line;
        Ok(node)
    }

    fn spend(&mut self, weight: usize, line: usize) -> Result<(), Wrong> {
        self.aliased += weight;
        let message = || "aliases make the file too large".to_owned();
        if self.aliased > MAX_ALIASED { Err(Wrong { line, message: message() }) } else { Ok(()) }
    }

    /// Adds `node` to the current list or object: as item, key, or value.
    fn add(&mut self, node: Node) -> Result<(), Wrong> {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let line = node.lines.line;
        frame.weight += node.weight;
        frame.depth = frame.depth.max(node.depth + 1);
        if frame.depth > MAX_DEPTH {
            return Err(too_deep(line));
        }
        match &mut frame.content {
            Content::List(items, lines) => {
                items.push(node.value);
                lines.push(node.lines);
            }
            Content::Object { fields, lines, key, merged } => match key.take() {
                None => {
                    let name = match node.value {
                        Value::String(name) => name,
                        Value::Bool(value) => value.to_string(),
                        Value::Number(number) => number.to_string(),
                        _ => return Err(Wrong { line, message: "only text can be a key".to_owned() }),
                    };
                    let known = lines.get(&name).map(|lines| lines.line);
                    *key = Some(Key { name, line, merge: false });
                    if let Some(known) = known.filter(|_| self.repeated.is_none()) {
                        let message = format!("the key is already given in line {known}");
                        self.repeated = Some((Wrong { line, message }, self.path()));
                    }
                }
                Some(Key { merge: true, .. }) => merge(node, merged)?,
                Some(Key { name, line, .. }) => {
                    fields.insert(name.clone(), node.value);
                    // The line of a field is the line of its key, where the user looks for it.
                    lines.insert(name, Lines { line, inner: node.lines.inner });
                }
            },
        }
        Ok(())
    }

    /// Returns the path of the current value.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.frames {
            match &frame.content {
                Content::List(items, _) => path.push_str(&format!("[{}]", items.len())),
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

fn too_deep(line: usize) -> Wrong {
    Wrong { line, message: format!("nested deeper than {MAX_DEPTH} levels") }
}

/// Records the content of a merge key: an object, or a list of objects.
fn merge(node: Node, merged: &mut Vec<Node>) -> Result<(), Wrong> {
    let line = node.lines.line;
    let refused = || Wrong { line, message: "a merge key takes an object or a list of objects".to_owned() };
    match (node.value, node.lines.inner) {
        (value @ Value::Object(_), inner) => {
            merged.push(Node { value, lines: Lines { line, inner }, weight: node.weight, depth: node.depth });
        }
        (Value::Array(values), Inner::List(lines)) => {
            for (value, lines) in values.into_iter().zip(lines) {
                if !value.is_object() {
                    return Err(refused());
                }
                merged.push(Node { value, lines, weight: 0, depth: node.depth });
            }
        }
        _ => return Err(refused()),
    }
    Ok(())
}

/// Finishes `frame`. The object's own fields take precedence over merged ones, and earlier merged fields over later
/// ones.
fn finish(frame: Frame) -> Node {
    let (value, inner) = match frame.content {
        Content::List(items, lines) => (Value::Array(items), Inner::List(lines)),
        Content::Object { mut fields, mut lines, merged, .. } => {
            for node in merged {
                let (Value::Object(values), Inner::Object(mut places)) = (node.value, node.lines.inner) else {
                    continue;
                };
                for (name, value) in values {
                    if !fields.contains_key(&name) {
                        lines.insert(name.clone(), places.remove(&name).unwrap_or_default());
                        fields.insert(name, value);
                    }
                }
            }
            (Value::Object(fields), Inner::Object(lines))
        }
    };
    Node { value, lines: Lines { line: frame.line, inner }, weight: frame.weight, depth: frame.depth }
}
