//! From tokens to commands.
//!
//! The grammar is filebench 1.5's, by descent; what 1.4 had beyond it is accepted where files that are
//! still about use it: `usage`, `define randvar`, arithmetic in `set`, `set $x.mean=`, `foreach`, paths
//! joined of variable and word, the attributes `cached` and `filesizegamma`. What Spindle does not carry
//! out is refused here, by name.
//!
//! Words have their meaning by where they stand, so `name=file` is good here, and a syntax error there.

use super::error::{Position, WmlError, WmlErrorKind};
use super::lexer::{self, Piece, Token, TokenKind};
use super::syntax::{
    Attribute, Attributes, Command, CommandKind, Expression, FlowopUse, Local, Operator, QuitMode,
    Script, TableRow, ThreadDefinition, Value, ValueKind,
};
use std::sync::Arc;

/// `foreach` within `foreach`, at the most: each level multiplies the commands.
const FOREACH_DEPTH_MAX: usize = 4;

/// What an entity's attributes are called.
struct Entity {
    name: &'static str,
    attributes: &'static [&'static str],
}

const FILE: Entity = Entity {
    name: "file",
    attributes: &[
        "name",
        "path",
        "size",
        "prealloc",
        "paralloc",
        "reuse",
        "trusttree",
        "readonly",
        "writeonly",
        "cached",
        "filesizegamma",
    ],
};
const FILESET: Entity = Entity {
    name: "fileset",
    attributes: &[
        "name",
        "path",
        "entries",
        "size",
        "dirwidth",
        "dirgamma",
        "dirdepthrv",
        "leafdirs",
        "prealloc",
        "paralloc",
        "reuse",
        "trusttree",
        "readonly",
        "writeonly",
        "cached",
        "filesizegamma",
    ],
};
const PROCESS: Entity = Entity { name: "process", attributes: &["name", "instances", "nice"] };
const THREAD: Entity =
    Entity { name: "thread", attributes: &["name", "instances", "memsize", "useism", "ioprio"] };
const FLOWOP: Entity = Entity {
    name: "flowop",
    attributes: &[
        "name",
        "filename",
        "fd",
        "srcfd",
        "iosize",
        "workingset",
        "random",
        "dsync",
        "directio",
        "noreadahead",
        "opennext",
        "indexed",
        "iters",
        "target",
        "value",
        "blocking",
        "highwater",
    ],
};
const COMPOSITE: Entity = Entity { name: "composite flowop", attributes: &["name", "iters"] };
const RANDOM: Entity = Entity {
    name: "random variable",
    attributes: &["name", "type", "randsrc", "seed", "gamma", "mean", "min", "round", "randtable"],
};
const CUSTOM: Entity =
    Entity { name: "custom variable", attributes: &["type", "parameters", "min", "max", "round"] };
const EVENTS: Entity = Entity { name: "event generator", attributes: &["rate"] };

/// Two names for one attribute.
const ALIASES: &[(&str, &str)] = &[("filesetname", "filename"), ("filesize", "size")];

/// Commands that are refused by name, and why.
const NOT_CARRIED_OUT: &[(&str, &str)] = &[
    ("domultisync", "Spindle does not synchronise several clients; run one on each"),
    (
        "stats",
        "run and psrun give the figures; remove the line (filebench 1.5 has no stats either)",
    ),
    ("shutdown", "a run shuts its processes down; remove the line"),
    ("load", "name the personality on the command line"),
    ("log", "use echo"),
    ("vars", "use echo with the variables"),
    ("help", "see the guide, docs/guide/filebench.md"),
    ("fsflush", "use system \"sync\""),
    ("fscheck", "check the file system with its own tool"),
    ("warmup", "run twice; the first run warms up"),
    ("enable_osprof", "use enable lathist"),
    ("disable_osprof", "remove the line"),
];

/// Reads a file.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(file: &str, text: &str) -> Result<Script, WmlError> {
    let file: Arc<str> = file.into();
    let tokens = lexer::tokens(&file, text)?;
    let mut parser = Parser { file, tokens, next: 0 };
    let commands = parser.commands(0)?;
    Ok(Script { file: parser.file, commands })
}

struct Parser {
    file: Arc<str>,
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn token(&self) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[self.next.min(last)]
    }

    fn at(&self) -> Position {
        self.token().at
    }

    fn take(&mut self) -> Token {
        let token = self.token().clone();
        self.next += 1;
        token
    }

    fn fail<T>(&self, at: Position, kind: WmlErrorKind) -> Result<T, WmlError> {
        Err(WmlError { file: Arc::clone(&self.file), at, kind })
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, WmlError> {
        let found = self.token().kind.describe();
        self.fail(self.at(), WmlErrorKind::Expected { expected, found })
    }

    fn is_mark(&self, mark: char) -> bool {
        self.token().kind == TokenKind::Mark(mark)
    }

    fn accept(&mut self, mark: char) -> bool {
        let there = self.is_mark(mark);
        self.next += usize::from(there);
        there
    }

    fn mark(&mut self, mark: char, expected: &'static str) -> Result<(), WmlError> {
        if self.accept(mark) { Ok(()) } else { self.expected(expected) }
    }

    fn peek_word(&self) -> Option<&str> {
        match &self.token().kind {
            TokenKind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn word(&mut self, expected: &'static str) -> Result<String, WmlError> {
        match self.peek_word().map(str::to_owned) {
            Some(word) => {
                self.next += 1;
                Ok(word)
            }
            None => self.expected(expected),
        }
    }

    fn variable(&mut self, expected: &'static str) -> Result<String, WmlError> {
        match self.token().kind.clone() {
            TokenKind::Variable(name) => {
                self.next += 1;
                Ok(name)
            }
            _ => self.expected(expected),
        }
    }

    fn text(&mut self, expected: &'static str) -> Result<Vec<Piece>, WmlError> {
        match self.token().kind.clone() {
            TokenKind::Text(pieces) => {
                self.next += 1;
                Ok(pieces)
            }
            _ => self.expected(expected),
        }
    }

    /// Commands up to the end of the file, or of the block that `depth` opened.
    fn commands(&mut self, depth: usize) -> Result<Vec<Command>, WmlError> {
        let mut commands = Vec::new();
        loop {
            if self.token().kind == TokenKind::End || depth > 0 && self.is_mark('}') {
                return Ok(commands);
            }
            let at = self.at();
            let word = self.word("a command")?;
            let kind = self.command(&word, at, depth)?;
            commands.push(Command { at, kind });
        }
    }

    fn command(&mut self, word: &str, at: Position, depth: usize) -> Result<CommandKind, WmlError> {
        if let Some((_, why)) = NOT_CARRIED_OUT.iter().find(|(name, _)| *name == word) {
            return self.fail(at, WmlErrorKind::NotCarriedOut { word: word.to_owned(), why });
        }
        Ok(match word {
            "set" => self.set()?,
            "define" => self.define()?,
            "eventgen" => CommandKind::EventGenerator(self.attributes(&EVENTS, at)?.0),
            "create" => self.create()?,
            "run" => CommandKind::Run(self.optional_value()?),
            "psrun" => self.periodic_run()?,
            "echo" => CommandKind::Echo(self.text("a string")?),
            "usage" => {
                self.text("a string")?;
                CommandKind::Nothing
            }
            "system" => CommandKind::System(self.text("a string")?),
            "sleep" => match self.optional_value()? {
                Some(value) => CommandKind::Sleep(value),
                None => return self.expected("a number of seconds"),
            },
            "version" => CommandKind::Version,
            "list" => self.list()?,
            "debug" => match self.take().kind {
                TokenKind::Number(_) => CommandKind::Nothing,
                _ => {
                    self.next -= 1;
                    return self.expected("a debug level from 0 to 10");
                }
            },
            "enable" => self.enable()?,
            "foreach" => self.for_each(at, depth)?,
            "quit" | "exit" => CommandKind::Quit,
            _ => return self.fail(at, WmlErrorKind::Command(word.to_owned())),
        })
    }

    fn set(&mut self) -> Result<CommandKind, WmlError> {
        if self.peek_word() == Some("mode") {
            self.next += 1;
            return self.set_mode();
        }
        if let TokenKind::Parameter(name, parameter) = self.token().kind.clone() {
            self.next += 1;
            self.mark('=', "=")?;
            let value = self.value()?;
            return Ok(CommandKind::SetParameter { name, parameter, value });
        }
        let name = self.variable("a variable ($name) or mode")?;
        self.mark('=', "=")?;
        let at = self.at();
        let opens = matches!(self.tokens.get(self.next + 1),
            Some(token) if token.kind == TokenKind::Mark('('));
        match self.peek_word() {
            Some("randvar") if opens => {
                self.next += 2;
                let (attributes, table) = self.random(at)?;
                self.mark(')', "a comma or )")?;
                Ok(CommandKind::SetRandom { name, attributes, table })
            }
            Some("cvar") if opens => {
                self.next += 2;
                let (attributes, _) = self.attributes(&CUSTOM, at)?;
                self.mark(')', "a comma or )")?;
                Ok(CommandKind::SetCustom { name, attributes })
            }
            _ => Ok(CommandKind::Set { name, value: self.expression()? }),
        }
    }

    fn set_mode(&mut self) -> Result<CommandKind, WmlError> {
        match self.peek_word() {
            Some("nousestats") => {
                self.next += 1;
                return Ok(CommandKind::Nothing);
            }
            Some("quit") => self.next += 1,
            _ => return self.expected("quit or nousestats"),
        }
        let mode = match self.peek_word() {
            Some("timeout") => QuitMode::Timeout,
            Some("alldone") => QuitMode::AllDone,
            Some("firstdone") => QuitMode::FirstDone,
            _ => return self.expected("timeout, alldone or firstdone"),
        };
        self.next += 1;
        Ok(CommandKind::SetMode(mode))
    }

    fn expression(&mut self) -> Result<Expression, WmlError> {
        let first = self.value()?;
        let mut rest = Vec::new();
        loop {
            let at = self.at();
            let operator = match &self.token().kind {
                TokenKind::Mark('+') => Operator::Add,
                TokenKind::Mark('*') => Operator::Multiply,
                TokenKind::Word(word) if word == "-" => Operator::Subtract,
                TokenKind::Word(word) if word == "/" => Operator::Divide,
                TokenKind::Negative(number) => {
                    let kind = ValueKind::Number(*number);
                    rest.push((Operator::Subtract, Value { at, kind }));
                    self.next += 1;
                    continue;
                }
                _ => return Ok(Expression { first, rest }),
            };
            self.next += 1;
            rest.push((operator, self.value()?));
        }
    }

    fn is_value(&self) -> bool {
        use TokenKind::{Number, Text, Variable, Word};
        matches!(self.token().kind, Word(_) | Number(_) | Text(_) | Variable(_))
    }

    /// A value; words and variables without a blank between them are one.
    fn value(&mut self) -> Result<Value, WmlError> {
        let at = self.at();
        if !self.is_value() {
            return self
                .expected("a value: a number, true, false, a word, a \"string\" or a $variable");
        }
        let first = self.take().kind;
        let joins = |token: &Token| {
            token.glued && matches!(token.kind, TokenKind::Word(_) | TokenKind::Variable(_))
        };
        if !joins(self.token()) || matches!(first, TokenKind::Number(_) | TokenKind::Text(_)) {
            return Ok(Value { at, kind: plain(first) });
        }
        let mut pieces = Vec::new();
        let mut next = Some(first);
        while let Some(kind) = next {
            pieces.push(match kind {
                TokenKind::Variable(name) => Piece::Variable(name),
                TokenKind::Word(word) => Piece::Text(word),
                other => Piece::Text(other.describe()),
            });
            next = if joins(self.token()) { Some(self.take().kind) } else { None };
        }
        Ok(Value { at, kind: ValueKind::Text(pieces) })
    }

    /// A number or variable, where one follows.
    fn optional_value(&mut self) -> Result<Option<Value>, WmlError> {
        match self.token().kind {
            TokenKind::Number(_) | TokenKind::Variable(_) => Ok(Some(self.value()?)),
            _ => Ok(None),
        }
    }

    fn periodic_run(&mut self) -> Result<CommandKind, WmlError> {
        if let TokenKind::Negative(number) = self.token().kind {
            let period = Some(Value { at: self.at(), kind: ValueKind::Number(number) });
            self.next += 1;
            let seconds = self.optional_value()?;
            return Ok(CommandKind::PeriodicRun { period, clears: true, seconds });
        }
        let period = self.optional_value()?;
        let seconds = self.optional_value()?;
        Ok(CommandKind::PeriodicRun { period, clears: false, seconds })
    }

    fn define(&mut self) -> Result<CommandKind, WmlError> {
        let at = self.at();
        match self.word("file, fileset, process, flowop or randvar")?.as_str() {
            "file" | "files" => Ok(CommandKind::File(self.attributes(&FILE, at)?.0)),
            "fileset" | "filesets" => Ok(CommandKind::Fileset(self.attributes(&FILESET, at)?.0)),
            "process" | "processes" => {
                let (attributes, _) = self.attributes(&PROCESS, at)?;
                self.mark('{', "a comma and an attribute, or { and the threads")?;
                let mut threads = Vec::new();
                while !self.accept('}') {
                    threads.push(self.thread()?);
                }
                Ok(CommandKind::Process { attributes, threads })
            }
            "flowop" => {
                let (attributes, locals) = self.attributes_and_locals(&COMPOSITE, at)?;
                self.mark('{', "a comma and an attribute, or { and the flowops")?;
                let flowops = self.flowops()?;
                Ok(CommandKind::Composite { attributes, locals, flowops })
            }
            "randvar" => {
                let (attributes, table) = self.random(at)?;
                let name = match attributes.get("name").map(|name| (name.at, &name.value)) {
                    Some((_, Some(Value { kind: ValueKind::Variable(name), .. }))) => name.clone(),
                    Some((at, _)) => {
                        let expected = "name=$variable";
                        let found = "another name".to_owned();
                        return self.fail(at, WmlErrorKind::Expected { expected, found });
                    }
                    None => {
                        let (entity, attribute) = (RANDOM.name, "name");
                        return self.fail(at, WmlErrorKind::Missing { entity, attribute });
                    }
                };
                Ok(CommandKind::SetRandom { name, attributes, table })
            }
            "posset" => {
                let (word, why) =
                    ("define posset".to_owned(), "filebench 1.5 dropped it; use indexed=");
                self.fail(at, WmlErrorKind::NotCarriedOut { word, why })
            }
            _ => {
                self.next -= 1;
                self.expected("file, fileset, process, flowop or randvar")
            }
        }
    }

    fn thread(&mut self) -> Result<ThreadDefinition, WmlError> {
        let at = self.at();
        if self.peek_word() != Some("thread") {
            return self.expected("thread, or } after the last one");
        }
        self.next += 1;
        let (attributes, _) = self.attributes(&THREAD, at)?;
        self.mark('{', "a comma and an attribute, or { and the flowops")?;
        Ok(ThreadDefinition { attributes, flowops: self.flowops()? })
    }

    /// Flowops up to the closing bracket; there is one at least, as in filebench.
    fn flowops(&mut self) -> Result<Vec<FlowopUse>, WmlError> {
        let mut flowops = Vec::new();
        loop {
            if self.peek_word() != Some("flowop") {
                return self.expected("flowop, or a comma and an attribute of the one before");
            }
            self.next += 1;
            let at = self.at();
            let kind = self.word("the kind of flowop")?;
            let bare =
                |parser: &Parser| parser.is_mark('}') || parser.peek_word() == Some("flowop");
            let (attributes, locals) = match bare(self) {
                true => (Attributes { entity: FLOWOP.name, at, list: Vec::new() }, Vec::new()),
                false => self.attributes_and_locals(&FLOWOP, at)?,
            };
            flowops.push(FlowopUse { at, kind, attributes, locals });
            if self.accept('}') {
                return Ok(flowops);
            }
        }
    }

    fn attributes(
        &mut self,
        entity: &Entity,
        at: Position,
    ) -> Result<(Attributes, Vec<Local>), WmlError> {
        let (attributes, locals) = self.attributes_and_locals(entity, at)?;
        match locals.first() {
            None => Ok((attributes, locals)),
            Some(local) => self.fail(
                local.at,
                WmlErrorKind::Expected {
                    expected: "an attribute",
                    found: format!("${}", local.name),
                },
            ),
        }
    }

    /// `name=value` or `name`, and `$variable=value` or `$variable`, with commas between.
    fn attributes_and_locals(
        &mut self,
        entity: &Entity,
        entity_at: Position,
    ) -> Result<(Attributes, Vec<Local>), WmlError> {
        let (mut list, mut locals) = (Vec::new(), Vec::new());
        loop {
            let at = self.at();
            if let TokenKind::Variable(name) = self.token().kind.clone() {
                self.next += 1;
                let value = if self.accept('=') { Some(self.value()?) } else { None };
                locals.push(Local { name, at, value });
            } else {
                let name = self.attribute_name(entity)?;
                let value = if self.accept('=') { Some(self.value()?) } else { None };
                list.push(Attribute { name, at, value });
            }
            if !self.accept(',') {
                let attributes = Attributes { entity: entity.name, at: entity_at, list };
                return Ok((attributes, locals));
            }
        }
    }

    fn attribute_name(&mut self, entity: &Entity) -> Result<&'static str, WmlError> {
        let at = self.at();
        let word = self.word("an attribute")?;
        let alias = ALIASES.iter().find(|(alias, _)| *alias == word);
        let meant = alias.map_or(word.as_str(), |(_, meant)| meant);
        match entity.attributes.iter().find(|known| **known == meant) {
            Some(name) => Ok(name),
            None => {
                let known = entity.attributes.join(", ");
                self.fail(at, WmlErrorKind::Attribute { word, entity: entity.name, known })
            }
        }
    }

    /// Attributes of a random variable, whose table has a form of its own.
    fn random(
        &mut self,
        entity_at: Position,
    ) -> Result<(Attributes, Option<Vec<TableRow>>), WmlError> {
        let (mut list, mut table) = (Vec::new(), None);
        loop {
            let at = self.at();
            let name = self.attribute_name(&RANDOM)?;
            if name == "randtable" {
                self.mark('=', "=")?;
                table = Some(self.table()?);
            } else {
                let value = if self.accept('=') { Some(self.value()?) } else { None };
                list.push(Attribute { name, at, value });
            }
            if !self.accept(',') {
                return Ok((Attributes { entity: RANDOM.name, at: entity_at, list }, table));
            }
        }
    }

    fn table(&mut self) -> Result<Vec<TableRow>, WmlError> {
        self.mark('{', "{ and the rows {percent, min, max}")?;
        let mut rows = Vec::new();
        loop {
            self.mark('{', "{percent, min, max}")?;
            let percent = self.value()?;
            self.mark(',', ", and the least value")?;
            let min = self.value()?;
            self.mark(',', ", and the greatest value")?;
            let max = self.value()?;
            self.mark('}', "}")?;
            rows.push(TableRow { percent, min, max });
            if !self.accept(',') {
                self.mark('}', "a comma and another row, or }")?;
                return Ok(rows);
            }
        }
    }

    fn create(&mut self) -> Result<CommandKind, WmlError> {
        let kind = match self.peek_word() {
            Some("file" | "files" | "fileset" | "filesets") => CommandKind::Create,
            // Of 1.4. Processes start with the run.
            Some("process" | "processes") => CommandKind::Nothing,
            _ => return self.expected("files"),
        };
        self.next += 1;
        Ok(kind)
    }

    fn list(&mut self) -> Result<CommandKind, WmlError> {
        let kind = match self.peek_word() {
            Some("fileset" | "filesets") => CommandKind::ListFilesets,
            Some("flowop" | "flowops") => CommandKind::ListFlowops,
            _ => return self.expected("fileset or flowop"),
        };
        self.next += 1;
        Ok(kind)
    }

    fn enable(&mut self) -> Result<CommandKind, WmlError> {
        let at = self.at();
        match self.peek_word() {
            Some("lathist") => {
                self.next += 1;
                Ok(CommandKind::LatencyHistogram)
            }
            Some("multi") => {
                let why = "Spindle does not synchronise several clients; run one on each";
                let word = "enable multi".to_owned();
                self.fail(at, WmlErrorKind::NotCarriedOut { word, why })
            }
            _ => self.expected("lathist"),
        }
    }

    fn for_each(&mut self, at: Position, depth: usize) -> Result<CommandKind, WmlError> {
        if depth >= FOREACH_DEPTH_MAX {
            let what = "foreach within one another";
            return self.fail(at, WmlErrorKind::TooMany { what, max: FOREACH_DEPTH_MAX as u64 });
        }
        let variable = self.variable("a variable")?;
        match self.peek_word() {
            Some("in") => self.next += 1,
            _ => return self.expected("in"),
        }
        let mut values = vec![self.value()?];
        while self.accept(',') {
            values.push(self.value()?);
        }
        self.mark('{', "a comma and another value, or { and the commands")?;
        let commands = self.commands(depth + 1)?;
        self.mark('}', "}")?;
        Ok(CommandKind::ForEach { variable, values, commands })
    }
}

fn plain(token: TokenKind) -> ValueKind {
    match token {
        TokenKind::Number(number) => ValueKind::Number(number),
        TokenKind::Variable(name) => ValueKind::Variable(name),
        TokenKind::Text(pieces) => ValueKind::Text(pieces),
        TokenKind::Word(word) => match word.as_str() {
            "true" => ValueKind::Boolean(true),
            "false" => ValueKind::Boolean(false),
            _ => ValueKind::Text(vec![Piece::Text(word)]),
        },
        other => ValueKind::Text(vec![Piece::Text(other.describe())]),
    }
}

#[cfg(test)]
mod tests;
