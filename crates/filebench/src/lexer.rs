//! Words, numbers, strings and variables of WML.
//!
//! **The words**, after filebench's lexer (1.5-alpha3, 2020):
//!
//! * A *word* begins with a letter, `/` or `-` and goes on with letters, digits and `/ . _ : ; -`: so
//!   a path or the parameters of a custom variable (`mean:16384;gamma:1.5`) are one word.
//! * A *number* is decimal digits, with `k`, `m` or `g` behind them for 1024, 1024² and 1024³; with `-`
//!   before them it is a negative number.
//! * A *variable* is `$` and a name; `${name}` and `$(name)` name the same variable. In filebench 1.4
//!   `$name.mean` is a parameter of a random variable.
//! * A *string* stands in `"`, may go over lines, and holds variables; `\n` is a line's end, and a
//!   backslash before `$`, `"` or another backslash takes its meaning away.
//! * `#` begins a comment to the line's end. `{ } ( ) = , + *` stand for themselves.
//!
//! A name of one letter is allowed here; filebench asks for two.

use super::error::{Position, WmlError, WmlErrorKind};
use std::sync::Arc;

/// Bytes of a file at the most: filebench's largest is 20 KB.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// A piece of a string or of joined words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As it stands.
    Text(String),
    /// The value of a variable, whose name has no `$`.
    Variable(String),
    /// A parameter of a random variable: its name, and the parameter's.
    Parameter(String, String),
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A word.
    Word(String),
    /// A number.
    Number(u64),
    /// A negative number, by its amount.
    Negative(u64),
    /// A variable, without `$`.
    Variable(String),
    /// A parameter of a random variable.
    Parameter(String, String),
    /// A string.
    Text(Vec<Piece>),
    /// One of `{ } ( ) = , + *`.
    Mark(char),
    /// The end of the file.
    End,
}

impl TokenKind {
    /// For an error: what stands there.
    pub fn describe(&self) -> String {
        match self {
            TokenKind::Word(word) => format!("{word:?}"),
            TokenKind::Number(number) => format!("the number {number}"),
            TokenKind::Negative(number) => format!("the number -{number}"),
            TokenKind::Variable(name) => format!("${name}"),
            TokenKind::Parameter(name, parameter) => format!("${name}.{parameter}"),
            TokenKind::Text(_) => "a string".to_owned(),
            TokenKind::Mark(mark) => format!("\"{mark}\""),
            TokenKind::End => "the end of the file".to_owned(),
        }
    }
}

/// A token and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it begins.
    pub at: Position,
    /// Whether it follows the one before it without a blank: `$dir/sub`.
    pub glued: bool,
}

/// Cuts a file into tokens; the last one is [`TokenKind::End`].
///
/// # Errors
/// At the first character that begins nothing.
pub fn tokens(file: &Arc<str>, text: &str) -> Result<Vec<Token>, WmlError> {
    let mut lexer = Lexer { file, rest: text, at: Position { line: 1, column: 1 } };
    if text.len() > FILE_BYTES_MAX {
        return Err(lexer.error(WmlErrorKind::TooLong { bytes: text.len(), max: FILE_BYTES_MAX }));
    }
    let mut tokens = Vec::new();
    loop {
        let glued = !lexer.skip_blanks();
        let at = lexer.at;
        let kind = lexer.next()?;
        let ended = kind == TokenKind::End;
        tokens.push(Token { kind, at, glued });
        if ended {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    file: &'a Arc<str>,
    rest: &'a str,
    at: Position,
}

impl<'a> Lexer<'a> {
    fn error(&self, kind: WmlErrorKind) -> WmlError {
        WmlError { file: Arc::clone(self.file), at: self.at, kind }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        match next {
            '\n' => self.at = Position { line: self.at.line.saturating_add(1), column: 1 },
            _ => self.at.column = self.at.column.saturating_add(1),
        }
        Some(next)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let start = self.rest;
        while self.peek().is_some_and(&wanted) {
            self.bump();
        }
        &start[..start.len() - self.rest.len()]
    }

    /// Blanks and comments; whether there were any.
    fn skip_blanks(&mut self) -> bool {
        let before = self.rest.len();
        loop {
            self.take_while(char::is_whitespace);
            if self.peek() != Some('#') {
                return before != self.rest.len();
            }
            self.take_while(|next| next != '\n');
        }
    }

    fn next(&mut self) -> Result<TokenKind, WmlError> {
        let Some(first) = self.peek() else { return Ok(TokenKind::End) };
        match first {
            '{' | '}' | '(' | ')' | '=' | ',' | '+' | '*' => {
                self.bump();
                Ok(TokenKind::Mark(first))
            }
            '"' => self.text(),
            '$' => self.variable(),
            '0'..='9' => Ok(TokenKind::Number(self.number()?)),
            '-' if self.rest[1..].starts_with(|next: char| next.is_ascii_digit()) => {
                self.bump();
                Ok(TokenKind::Negative(self.number()?))
            }
            '/' | '-' | 'A'..='Z' | 'a'..='z' => {
                let word = self.take_while(|next| {
                    next.is_ascii_alphanumeric()
                        || matches!(next, '/' | '.' | '_' | ':' | ';' | '-')
                });
                Ok(TokenKind::Word(word.to_owned()))
            }
            other => Err(self.error(WmlErrorKind::Character(other))),
        }
    }

    fn number(&mut self) -> Result<u64, WmlError> {
        let mut probe = Lexer { file: self.file, rest: self.rest, at: self.at };
        let digits = probe.take_while(|next| next.is_ascii_digit());
        let tail = probe
            .take_while(|next| next.is_ascii_alphanumeric() || matches!(next, '.' | '_' | '%'));
        let whole = || format!("{digits}{tail}");
        let unit: u64 = match tail {
            "" => 1,
            "k" => 1 << 10,
            "m" => 1 << 20,
            "g" => 1 << 30,
            _ => return Err(self.error(WmlErrorKind::Number(whole()))),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        let number = number.filter(|number| i64::try_from(*number).is_ok());
        let number = number.ok_or_else(|| self.error(WmlErrorKind::NumberTooLarge(whole())))?;
        (self.rest, self.at) = (probe.rest, probe.at);
        Ok(number)
    }

    fn variable(&mut self) -> Result<TokenKind, WmlError> {
        let begin = self.at;
        self.bump();
        let close = match self.peek() {
            Some('{') => Some('}'),
            Some('(') => Some(')'),
            _ => None,
        };
        if close.is_some() {
            self.bump();
        }
        let name = self.take_while(|next| next.is_ascii_alphanumeric() || next == '_');
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(WmlError {
                at: begin,
                ..self.error(WmlErrorKind::Expected {
                    expected: "a name that begins with a letter after $",
                    found: format!("{name:?}"),
                })
            });
        }
        if let Some(close) = close {
            if self.peek() != Some(close) {
                return Err(self.error(WmlErrorKind::Expected {
                    expected: "the closing bracket of the variable",
                    found: self.peek().map_or("the end of the file".into(), |c| format!("{c:?}")),
                }));
            }
            self.bump();
        }
        for parameter in PARAMETERS {
            let after = self.rest.strip_prefix('.').and_then(|rest| rest.strip_prefix(parameter));
            let ends = |after: &str| !after.starts_with(|c: char| c.is_ascii_alphanumeric());
            if after.is_some_and(ends) {
                for _ in 0..=parameter.len() {
                    self.bump();
                }
                return Ok(TokenKind::Parameter(name.to_owned(), (*parameter).to_owned()));
            }
        }
        Ok(TokenKind::Variable(name.to_owned()))
    }

    fn text(&mut self) -> Result<TokenKind, WmlError> {
        let open = self.error(WmlErrorKind::OpenString);
        self.bump();
        let mut pieces = Vec::new();
        let mut plain = String::new();
        loop {
            match self.peek() {
                None => return Err(open),
                Some('"') => {
                    self.bump();
                    break;
                }
                Some('\\') => {
                    self.bump();
                    match self.peek() {
                        Some('n') => plain.push('\n'),
                        Some(next @ ('$' | '"' | '\\')) => plain.push(next),
                        _ => {
                            plain.push('\\');
                            continue;
                        }
                    }
                    self.bump();
                }
                // A dollar before anything but a name is a dollar.
                Some('$') if self.begins_variable() => {
                    let piece = match self.variable()? {
                        TokenKind::Parameter(name, parameter) => Piece::Parameter(name, parameter),
                        TokenKind::Variable(name) => Piece::Variable(name),
                        _ => continue,
                    };
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(piece);
                }
                Some(next) => {
                    plain.push(next);
                    self.bump();
                }
            }
        }
        if !plain.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(TokenKind::Text(pieces))
    }

    fn begins_variable(&self) -> bool {
        let name = self.rest.strip_prefix('$').unwrap_or_default();
        let name = name.strip_prefix(['{', '(']).unwrap_or(name);
        name.starts_with(|next: char| next.is_ascii_alphabetic())
    }
}

/// Parameters of a random variable that filebench 1.4 reads and sets one by one.
pub const PARAMETERS: &[&str] = &["type", "randsrc", "seed", "gamma", "mean", "min", "round"];

#[cfg(test)]
mod tests {
    //! What could break: a path cut in two, a unit taken for a word, a place off by one in an error.

    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        let tokens = tokens(&"t.f".into(), text).expect("good text");
        tokens.into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn paths_and_parameters_are_one_word() {
        let word = |text: &str| TokenKind::Word(text.into());
        let end = TokenKind::End;
        assert_eq!(kinds("/mnt/a-b.c"), vec![word("/mnt/a-b.c"), end.clone()]);
        assert_eq!(kinds("mean:1.5;gamma:2"), vec![word("mean:1.5;gamma:2"), end]);
    }

    #[test]
    fn units_are_powers_of_1024() {
        let number = |text: &str| match kinds(text).first() {
            Some(TokenKind::Number(number)) => *number,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            [number("3k"), number("3m"), number("3g"), number("08")],
            [3072, 3 << 20, 3 << 30, 8]
        );
    }

    #[test]
    fn a_string_holds_variables_and_escapes() {
        let TokenKind::Text(pieces) = kinds(r#""set \$dir=$dir, ${n}$iosize.mean\n5$""#).remove(0)
        else {
            panic!("a string");
        };
        let text = |text: &str| Piece::Text(text.into());
        assert_eq!(
            pieces,
            vec![
                text("set $dir="),
                Piece::Variable("dir".into()),
                text(", "),
                Piece::Variable("n".into()),
                Piece::Parameter("iosize".into(), "mean".into()),
                text("\n5$"),
            ]
        );
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = |text: &str| tokens(&"t.f".into(), text).expect_err("refused").to_string();
        assert_eq!(error("set $a=1\n  ?"), "t.f:2:3: unexpected character '?'");
        assert!(error("size=128kb").starts_with("t.f:1:6: \"128kb\" is no number"));
        assert!(error("echo \"a\n").starts_with("t.f:1:6: the string that begins here"));
        assert!(error("9999999999g").contains("larger than 2^63"));
    }
}
