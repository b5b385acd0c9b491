//! The text of a volume group: sections of values.
//!
//! ```text
//! vg0 {
//!     seqno = 3
//!     status = ["READ", "WRITE"]      # comments go to the end of the line
//!     physical_volumes {
//!     }
//! }
//! ```
//!
//! Read into a tree that keeps the order and everything in it, so that a change writes back what it does
//! not know. Comments are not kept.

use std::fmt::Write;

/// Sections within sections at the most; LVM's text has four.
const DEPTH_MAX: usize = 16;
/// Values and sections in one text at the most: a group of ten thousand volumes has some 200 000.
const NODES_MAX: usize = 1 << 20;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
    /// Several.
    List(Vec<Value>),
}

impl Value {
    /// The number, where it is one that counts something.
    pub fn as_count(&self) -> Option<u64> {
        match self {
            Value::Number(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The values of a list; a single value is a list of one, as LVM reads it.
    pub fn as_list(&self) -> &[Value] {
        match self {
            Value::List(values) => values,
            one => std::slice::from_ref(one),
        }
    }
}

/// What stands behind a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// `name = value`
    Value(Value),
    /// `name { … }`
    Section(Section),
}

/// A section: names in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Each name with what stands behind it.
    pub nodes: Vec<(String, Node)>,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TextError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: &'static str,
}

impl Section {
    /// The section of a whole text.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Section, TextError> {
        let mut reader = Reader { text: text.as_bytes(), at: 0, line: 1, nodes: 0 };
        let section = reader.section(0)?;
        match reader.peek() {
            None => Ok(section),
            Some(_) => Err(reader.wrong("a bracket too many")),
        }
    }

    /// The text of the section's content.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text
    }

    fn write(&self, text: &mut String, depth: usize) {
        let indent = "\t".repeat(depth);
        for (name, node) in &self.nodes {
            // Writing to a string can't fail.
            let _ = match node {
                Node::Value(value) => {
                    let mut shown = String::new();
                    write_value(&mut shown, value);
                    writeln!(text, "{indent}{name} = {shown}")
                }
                Node::Section(section) => {
                    let _ = writeln!(text, "{indent}{name} {{");
                    section.write(text, depth + 1);
                    writeln!(text, "{indent}}}")
                }
            };
        }
    }

    /// The value of a name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.nodes.iter().find_map(|(other, node)| match node {
            Node::Value(value) if other == name => Some(value),
            _ => None,
        })
    }

    /// The section of a name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections().find_map(|(other, section)| (other == name).then_some(section))
    }

    /// All sections, in order.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Section)> {
        self.nodes.iter().filter_map(|(name, node)| match node {
            Node::Section(section) => Some((name.as_str(), section)),
            Node::Value(_) => None,
        })
    }

    /// The section of a name, to be changed; it is made where there is none.
    pub fn section_mut(&mut self, name: &str) -> &mut Section {
        let is_it =
            |(other, node): &(String, Node)| other == name && matches!(node, Node::Section(_));
        let place = self.nodes.iter().position(is_it).unwrap_or_else(|| {
            self.nodes.push((name.to_owned(), Node::Section(Section::default())));
            self.nodes.len() - 1
        });
        match &mut self.nodes[place].1 {
            Node::Section(section) => section,
            Node::Value(_) => unreachable!("the place is a section's"),
        }
    }

    /// Gives a name a value.
    pub fn set(&mut self, name: &str, value: Value) {
        let is_it =
            |(other, node): &&mut (String, Node)| other == name && matches!(node, Node::Value(_));
        match self.nodes.iter_mut().find(is_it) {
            Some((_, node)) => *node = Node::Value(value),
            None => self.nodes.push((name.to_owned(), Node::Value(value))),
        }
    }

    /// Removes a name; whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.nodes.len();
        self.nodes.retain(|(other, _)| other != name);
        self.nodes.len() < before
    }
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Number(number) => {
            let _ = write!(text, "{number}");
        }
        Value::Text(content) => {
            text.push('"');
            for letter in content.chars() {
                if let '"' | '\\' = letter {
                    text.push('\\');
                }
                text.push(letter);
            }
            text.push('"');
        }
        Value::List(values) => {
            text.push('[');
            for (number, value) in values.iter().enumerate() {
                if number > 0 {
                    text.push_str(", ");
                }
                write_value(text, value);
            }
            text.push(']');
        }
    }
}

/// Reads a text from its start to its end.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
    nodes: usize,
}

impl Reader<'_> {
    fn wrong(&self, problem: &'static str) -> TextError {
        TextError { line: self.line, problem }
    }

    /// The next letter that means something.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.text.get(self.at)? {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' => {}
                b'#' => {
                    while self.text.get(self.at).is_some_and(|letter| *letter != b'\n') {
                        self.at += 1;
                    }
                    continue;
                }
                letter => return Some(letter),
            }
            self.at += 1;
        }
    }

    fn count_node(&mut self) -> Result<(), TextError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX { Err(self.wrong("too many values")) } else { Ok(()) }
    }

    /// The content of a section, up to its bracket or the end of the text.
    fn section(&mut self, depth: usize) -> Result<Section, TextError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("sections are too deep"));
        }
        let mut section = Section::default();
        while let Some(letter) = self.peek() {
            if letter == b'}' {
                break;
            }
            self.count_node()?;
            let name = self.name()?;
            let node = match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    let inner = self.section(depth + 1)?;
                    if self.peek() != Some(b'}') {
                        return Err(self.wrong("a section has no end"));
                    }
                    self.at += 1;
                    Node::Section(inner)
                }
                Some(b'=') => {
                    self.at += 1;
                    Node::Value(self.value(0)?)
                }
                _ => return Err(self.wrong("behind a name stands = or {")),
            };
            section.nodes.push((name, node));
        }
        Ok(section)
    }

    fn name(&mut self) -> Result<String, TextError> {
        let start = self.at;
        let is_of_name =
            |letter: &u8| letter.is_ascii_alphanumeric() || b"_-+./@:".contains(letter);
        while self.text.get(self.at).is_some_and(is_of_name) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.wrong("a name is missing"));
        }
        Ok(String::from_utf8_lossy(&self.text[start..self.at]).into_owned())
    }

    fn value(&mut self, depth: usize) -> Result<Value, TextError> {
        match self.peek() {
            Some(b'"') => self.quoted().map(Value::Text),
            Some(b'[') if depth < DEPTH_MAX => {
                self.at += 1;
                let mut values = Vec::new();
                loop {
                    match self.peek() {
                        Some(b']') => {
                            self.at += 1;
                            return Ok(Value::List(values));
                        }
                        Some(b',') if !values.is_empty() => self.at += 1,
                        Some(_) => {
                            self.count_node()?;
                            values.push(self.value(depth + 1)?);
                        }
                        None => return Err(self.wrong("a list has no end")),
                    }
                }
            }
            Some(b'-' | b'0'..=b'9') => {
                let start = self.at;
                self.at += 1;
                while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
                    self.at += 1;
                }
                let digits = String::from_utf8_lossy(&self.text[start..self.at]);
                digits.parse().map(Value::Number).map_err(|_| self.wrong("a number is too large"))
            }
            _ => Err(self.wrong("a value is a number, text in quotes, or a list")),
        }
    }

    fn quoted(&mut self) -> Result<String, TextError> {
        self.at += 1;
        let mut content = Vec::new();
        loop {
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&content).into_owned());
                }
                Some(b'\\') if matches!(self.text.get(self.at + 1), Some(b'"' | b'\\')) => {
                    content.push(self.text[self.at + 1]);
                    self.at += 2;
                }
                Some(letter) => {
                    self.line += usize::from(*letter == b'\n');
                    content.push(*letter);
                    self.at += 1;
                }
                None => return Err(self.wrong("a text in quotes has no end")),
            }
        }
    }
}
