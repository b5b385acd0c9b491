//! A workload file as it is written: commands, attributes, values, each with its place.
//!
//! Nothing is looked up yet: variables are names, numbers and words are unchecked against what takes
//! them. The [`plan`](super::plan) does that, in the order of the file.

use super::error::Position;
use super::lexer::Piece;
use std::sync::Arc;

/// A whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The file's name, for errors.
    pub file: Arc<str>,
    /// Its commands.
    pub commands: Vec<Command>,
}

/// A command and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Where its first word stands.
    pub at: Position,
    /// What it is.
    pub kind: CommandKind,
}

/// What a command is.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandKind {
    /// `set $name = value`, with filebench 1.4's arithmetic.
    Set {
        /// The variable.
        name: String,
        /// Its new value.
        value: Expression,
    },
    /// `set $name = randvar(...)`, or 1.4's `define randvar name=$name, ...`.
    SetRandom {
        /// The variable.
        name: String,
        /// The distribution.
        attributes: Attributes,
        /// `randtable`.
        table: Option<Vec<TableRow>>,
    },
    /// `set $name = cvar(...)`.
    SetCustom {
        /// The variable.
        name: String,
        /// The distribution.
        attributes: Attributes,
    },
    /// `set $name.mean = value`, of 1.4.
    SetParameter {
        /// The random variable.
        name: String,
        /// Which parameter.
        parameter: String,
        /// Its new value.
        value: Value,
    },
    /// `set mode quit ...`.
    SetMode(QuitMode),
    /// `define file`.
    File(Attributes),
    /// `define fileset`.
    Fileset(Attributes),
    /// `define process`.
    Process {
        /// Its attributes.
        attributes: Attributes,
        /// Its threads.
        threads: Vec<ThreadDefinition>,
    },
    /// `define flowop`: a composite.
    Composite {
        /// Its attributes.
        attributes: Attributes,
        /// Its own variables, and what they are where a use doesn't say.
        locals: Vec<Local>,
        /// What it does.
        flowops: Vec<FlowopUse>,
    },
    /// `eventgen`.
    EventGenerator(Attributes),
    /// `create files`.
    Create,
    /// `run`, and for how many seconds.
    Run(Option<Value>),
    /// `psrun`: with figures in between.
    PeriodicRun {
        /// Seconds between them; `None` for the default.
        period: Option<Value>,
        /// The sign before the period: figures start again from zero each time.
        clears: bool,
        /// How many seconds in all.
        seconds: Option<Value>,
    },
    /// `echo`.
    Echo(Vec<Piece>),
    /// `system`.
    System(Vec<Piece>),
    /// `sleep`.
    Sleep(Value),
    /// `version`.
    Version,
    /// `list fileset`.
    ListFilesets,
    /// `list flowop`.
    ListFlowops,
    /// `enable lathist`.
    LatencyHistogram,
    /// `foreach`, of 1.4.
    ForEach {
        /// The variable.
        variable: String,
        /// What it is in turn.
        values: Vec<Value>,
        /// What is done with each.
        commands: Vec<Command>,
    },
    /// `quit`: nothing after it counts.
    Quit,
    /// What is accepted and has no effect here: `debug`, `usage`, `set mode nousestats`,
    /// `create processes`.
    Nothing,
}

/// When a run ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuitMode {
    /// When its time is over.
    #[default]
    Timeout,
    /// When every thread has come to its end.
    AllDone,
    /// When the first thread has come to its end.
    FirstDone,
}

/// A value, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Where.
    pub at: Position,
    /// What.
    pub kind: ValueKind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    /// `true`, `false`.
    Boolean(bool),
    /// A number.
    Number(u64),
    /// A word or a string, perhaps with variables in it.
    Text(Vec<Piece>),
    /// A variable.
    Variable(String),
}

/// A value, and what is done to it, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// The first value.
    pub first: Value,
    /// What follows.
    pub rest: Vec<(Operator, Value)>,
}

/// The four operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// Attributes of one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    /// What has them, for errors.
    pub entity: &'static str,
    /// Where it is defined.
    pub at: Position,
    /// The attributes, in the file's order.
    pub list: Vec<Attribute>,
}

/// One attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name: one of the entity's.
    pub name: &'static str,
    /// Where it stands.
    pub at: Position,
    /// Its value; without one it means `true`.
    pub value: Option<Value>,
}

impl Attributes {
    /// The attribute of this name; the last one where there are several, as in filebench.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.list.iter().rev().find(|attribute| attribute.name == name)
    }
}

/// A row of a probability table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// How many of 100 values come from it.
    pub percent: Value,
    /// The least of them.
    pub min: Value,
    /// The greatest.
    pub max: Value,
}

/// A thread of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadDefinition {
    /// Its attributes.
    pub attributes: Attributes,
    /// What it does.
    pub flowops: Vec<FlowopUse>,
}

/// A flowop in a thread or composite.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowopUse {
    /// Where the kind stands.
    pub at: Position,
    /// Which kind: built in, or a composite.
    pub kind: String,
    /// Its attributes.
    pub attributes: Attributes,
    /// What a composite's variables are.
    pub locals: Vec<Local>,
}

/// A composite's own variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub at: Position,
    /// Its value, where one is given.
    pub value: Option<Value>,
}
