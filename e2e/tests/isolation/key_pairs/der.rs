//! Certificates taken apart, changed, and put together again, so that a test can write any malformed one.

/// An element of BER. The content of a constructed one is its children.
#[derive(Debug, Clone)]
pub struct Node {
    pub tag: u8,
    pub content: Vec<u8>,
    pub children: Vec<Node>,
}

impl Node {
    /// A primitive element.
    pub fn new(tag: u8, content: &[u8]) -> Self {
        Self { tag, content: content.to_vec(), children: Vec::new() }
    }

    /// A constructed element.
    pub fn of(tag: u8, children: &[Node]) -> Self {
        Self { tag, content: Vec::new(), children: children.to_vec() }
    }

    /// Reads DER with short tags.
    pub fn parse(der: &[u8]) -> Self {
        let mut nodes = Self::parse_all(der);
        assert_eq!(nodes.len(), 1);
        nodes.remove(0)
    }

    fn parse_all(mut der: &[u8]) -> Vec<Self> {
        let mut nodes = Vec::new();
        while let [tag, length, rest @ ..] = der {
            let bytes = usize::from(length & 0x7f);
            let (length, rest) = match length {
                0x80.. => {
                    (rest[..bytes].iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), &rest[bytes..])
                }
                _ => (bytes, rest),
            };
            nodes.push(match tag & 0x20 {
                0 => Self::new(*tag, &rest[..length]),
                _ => Self { tag: *tag, content: Vec::new(), children: Self::parse_all(&rest[..length]) },
            });
            der = &rest[length..];
        }
        nodes
    }

    /// Writes DER.
    pub fn encode(&self) -> Vec<u8> {
        let children: Vec<u8> = self.children.iter().flat_map(Self::encode).collect();
        let content = if self.children.is_empty() { &self.content } else { &children };
        let length = match content.len() {
            short @ ..0x80 => vec![byte(short)],
            long @ ..0x100 => vec![0x81, byte(long)],
            long => vec![0x82, byte(long >> 8), byte(long & 0xff)],
        };
        [&[self.tag][..], &length, content].concat()
    }

    /// The element at a path of child numbers.
    pub fn at(&mut self, path: &[usize]) -> &mut Self {
        path.iter().fold(self, |node, i| &mut node.children[*i])
    }
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).expect("less than 256")
}
