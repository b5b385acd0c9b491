//! The syntax of DiskSim's parameter files: named blocks of `key = value`, where a key has spaces, and a value is a number, a
//! word or several, a list in brackets or a block. `#` begins a comment.

use crate::profile::ProfileError;

/// Blocks within blocks: a disk, its layout, a zone; more than this is no parameter file.
const DEPTH_MAX: usize = 16;

/// What stands behind a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Word(String),
    List(Vec<Value>),
    Block(Block),
}

/// A block: its type and name, and its keys with their lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    /// Words before the brace: the type, and the name if it has one.
    pub(super) head: String,
    entries: Vec<(String, usize, Value)>,
}

impl Block {
    /// Its type.
    pub(super) fn kind(&self) -> &str {
        self.head.split_whitespace().next().unwrap_or_default()
    }

    /// Its name, or nothing.
    pub(super) fn name(&self) -> &str {
        self.head.split_whitespace().nth(1).unwrap_or_default()
    }

    /// The value of a key, whatever case it is written in, and its line.
    pub(super) fn get(&self, key: &str) -> Option<(usize, &Value)> {
        let is_it = |(known, ..): &&(String, usize, Value)| known.eq_ignore_ascii_case(key);
        self.entries.iter().find(is_it).map(|(_, line, value)| (*line, value))
    }
}

/// All blocks of a file, at any depth of `source` lines and instructions around them.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Block>, ProfileError> {
    let mut reader = Reader { file, rest: text, line: 1 };
    let mut blocks = Vec::new();
    loop {
        let head = reader.words("{[]}")?;
        match reader.peek() {
            None => return Ok(blocks),
            Some('{') => {
                reader.skip();
                // A line without a block ("source …", "instantiate …") may stand before.
                let head = head.lines().last().unwrap_or_default().trim().to_owned();
                blocks.push(reader.block(head, 0)?);
            }
            Some('[') => drop(reader.list(0)?),
            Some(_) => return Err(reader.wrong("a closing bracket without an opening one")),
        }
    }
}

struct Reader<'a> {
    file: &'a str,
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn wrong(&self, mend: &str) -> ProfileError {
        ProfileError::Wrong {
            file: self.file.to_owned(),
            line: self.line,
            key: "profile".to_owned(),
            mend: mend.to_owned(),
        }
    }

    /// The next character that is neither space nor comment.
    fn peek(&mut self) -> Option<char> {
        loop {
            let next = self.rest.chars().next()?;
            if next == '#' {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            } else if next.is_whitespace() {
                self.skip();
            } else {
                return Some(next);
            }
        }
    }

    fn skip(&mut self) {
        let Some(next) = self.rest.chars().next() else { return };
        self.line += usize::from(next == '\n');
        self.rest = &self.rest[next.len_utf8()..];
    }

    /// What stands up to one of these characters, or the end; without comments.
    fn words(&mut self, ends: &str) -> Result<String, ProfileError> {
        let mut words = String::new();
        while let Some(next) = self.rest.chars().next() {
            if next == '#' {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
                continue;
            }
            if ends.contains(next) {
                break;
            }
            words.push(next);
            self.skip();
            if words.len() > 4096 && ends.contains('=') {
                return Err(self.wrong("write `key = value`: this key has no end"));
            }
        }
        Ok(words)
    }

    /// The rest of a block, whose brace was just opened.
    fn block(&mut self, head: String, depth: usize) -> Result<Block, ProfileError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("blocks are nested too deeply"));
        }
        let mut block = Block { head, entries: Vec::new() };
        loop {
            match self.peek() {
                None => return Err(self.wrong("the file ends within a block: close it with '}'")),
                Some('}') => {
                    self.skip();
                    return Ok(block);
                }
                Some(',') => self.skip(),
                Some(_) => {
                    let line = self.line;
                    let key = self.words("={}[],")?;
                    if self.peek() != Some('=') {
                        return Err(self.wrong("write `key = value`"));
                    }
                    self.skip();
                    let value = self.value(depth)?;
                    let key = key.split_whitespace().collect::<Vec<_>>().join(" ");
                    block.entries.push((key, line, value));
                }
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, ProfileError> {
        if self.peek() == Some('[') {
            return Ok(Value::List(self.list(depth)?));
        }
        let words = self.words(",{}[]")?;
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.peek() == Some('{') {
            self.skip();
            return Ok(Value::Block(self.block(words, depth + 1)?));
        }
        if words.is_empty() {
            return Err(self.wrong("a value is missing"));
        }
        Ok(words.parse().map_or(Value::Word(words), Value::Number))
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value>, ProfileError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("lists are nested too deeply"));
        }
        self.skip();
        let mut values = Vec::new();
        loop {
            match self.peek() {
                None => return Err(self.wrong("the file ends within a list: close it with ']'")),
                Some(']') => {
                    self.skip();
                    return Ok(values);
                }
                Some(',') => self.skip(),
                Some(_) => values.push(self.value(depth + 1)?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lists_numbers_words_and_comments_are_told_apart() {
        let text = "# a comment { = \nsource other.file\ntype NAME { Key one = 1.5, # x = 3\n \
                    Model = source a.model,\n List = [ 1, 2,\n 3 ], Sub = kind { a = -2 }, b = 7 } # end";
        let blocks = parse("f", text).expect("sound");
        let [block] = blocks.as_slice() else { panic!("{blocks:?}") };
        assert_eq!((block.kind(), block.name()), ("type", "NAME"));
        assert_eq!(block.get("KEY ONE"), Some((3, &Value::Number(1.5))));
        assert_eq!(block.get("Model"), Some((4, &Value::Word("source a.model".to_owned()))));
        let Some((5, Value::List(list))) = block.get("List") else { panic!("{block:?}") };
        assert_eq!(list.len(), 3);
        let Some((_, Value::Block(sub))) = block.get("Sub") else { panic!("{block:?}") };
        assert_eq!(sub.get("a").map(|(_, value)| value.clone()), Some(Value::Number(-2.0)));
    }

    #[test]
    fn what_is_cut_off_or_nested_without_end_is_refused_with_its_line() {
        for (text, line) in [
            ("a b {\n x = 1", 2),
            ("a b { x = [1, 2", 1),
            ("a b {\n\n x , y = 1 }", 3),
            ("}", 1),
            ("a { x = }", 1),
        ] {
            let error = parse("f", text).expect_err("refused").to_string();
            assert!(error.starts_with(&format!("f:{line}: ")), "{text}: {error}");
        }
        assert!(parse("f", &"a { x = ".repeat(100)).is_err());
        assert!(parse("f", &format!("a {{ x = {}", "[".repeat(100_000))).is_err());
    }
}
