//! Variables, and values as numbers, texts and truths.

use super::Number;
use crate::distribution::{Distribution, Finish, RandomVariable, Row};
use crate::error::{DistributionError, Position, WmlError, WmlErrorKind};
use crate::lexer::Piece;
use crate::syntax::{Attribute, Attributes, Expression, Operator, TableRow, Value, ValueKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a variable is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Variable {
    /// `true`, `false`.
    Boolean(bool),
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
    /// A random variable, by its number.
    Random(usize),
}

/// Variables by name; a composite's own shadow the others while it is unfolded.
#[derive(Default)]
pub(super) struct Variables {
    file: Arc<str>,
    scopes: Vec<BTreeMap<String, Variable>>,
    /// All random variables there ever were.
    pub(super) random: Vec<RandomVariable>,
    /// What each of them was made from, for `set $x.mean=` and `echo "$x.mean"`.
    parameters: BTreeMap<usize, Parameters>,
}

/// What a randvar was made from.
#[derive(Clone, Debug)]
struct Parameters {
    type_name: String,
    source: String,
    rows: Option<Vec<Row>>,
    numbers: BTreeMap<&'static str, u64>,
}

/// Parameters of a randvar that are numbers, and what they are where nothing is said.
const NUMBERS: &[(&str, u64)] =
    &[("seed", 0), ("gamma", 1500), ("mean", 0), ("min", 0), ("round", 0)];

impl Variables {
    pub(super) fn new(file: Arc<str>) -> Variables {
        let scopes = vec![BTreeMap::new()];
        Variables { file, scopes, random: Vec::new(), parameters: BTreeMap::new() }
    }

    /// The same, with another file's name in errors.
    pub(super) fn for_file(self, file: Arc<str>) -> Variables {
        Variables { file, ..self }
    }

    pub(super) fn fail<T>(&self, at: Position, kind: WmlErrorKind) -> Result<T, WmlError> {
        Err(WmlError { file: Arc::clone(&self.file), at, kind })
    }

    /// Names that are set but one, for an error.
    pub(super) fn names_but(&self, left_out: &str) -> String {
        let names = self.scopes.iter().flat_map(BTreeMap::keys);
        let names = names.filter(|name| *name != left_out);
        let names: Vec<String> = names.map(|name| format!("${name}")).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.contains_key(name))
    }

    pub(super) fn set(&mut self, name: &str, variable: Variable) {
        if let Some(global) = self.scopes.first_mut() {
            global.insert(name.to_owned(), variable);
        }
    }

    /// Lets variables shadow the others until [`leave`](Variables::leave).
    pub(super) fn enter(&mut self, locals: BTreeMap<String, Variable>) {
        self.scopes.push(locals);
    }

    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    pub(super) fn get(&self, at: Position, name: &str) -> Result<&Variable, WmlError> {
        match self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            Some(variable) => Ok(variable),
            None => self.fail(at, WmlErrorKind::Unset(format!("${name}"))),
        }
    }

    /// The value as a variable would hold it.
    pub(super) fn evaluate(&self, value: &Value) -> Result<Variable, WmlError> {
        Ok(match &value.kind {
            ValueKind::Boolean(boolean) => Variable::Boolean(*boolean),
            ValueKind::Number(number) => Variable::Number(*number),
            ValueKind::Variable(name) => self.get(value.at, name)?.clone(),
            ValueKind::Text(pieces) => Variable::Text(self.join(value.at, pieces)?),
        })
    }

    /// The value of an expression: operations are on numbers, from left to right.
    pub(super) fn calculate(&self, expression: &Expression) -> Result<Variable, WmlError> {
        let first = self.evaluate(&expression.first)?;
        if expression.rest.is_empty() {
            return Ok(first);
        }
        let what = || "arithmetic".to_owned();
        let mut result = self.whole(what, &expression.first)?;
        for (operator, value) in &expression.rest {
            let operand = self.whole(what, value)?;
            let (next, sign) = match operator {
                Operator::Add => (result.checked_add(operand), '+'),
                Operator::Subtract => (result.checked_sub(operand), '-'),
                Operator::Multiply => (result.checked_mul(operand), '*'),
                Operator::Divide => (result.checked_div(operand), '/'),
            };
            let text = || format!("{result} {sign} {operand}");
            result = match next.filter(|next| i64::try_from(*next).is_ok()) {
                Some(next) => next,
                None => return self.fail(value.at, WmlErrorKind::Arithmetic(text())),
            };
        }
        Ok(Variable::Number(result))
    }

    /// Pieces of text and variables as one text.
    pub(super) fn join(&self, at: Position, pieces: &[Piece]) -> Result<String, WmlError> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Variable(name) => text.push_str(&self.show(self.get(at, name)?)),
                Piece::Parameter(name, parameter) => {
                    text.push_str(&self.show_parameter(at, name, parameter)?);
                }
            }
        }
        Ok(text)
    }

    /// The same for `echo`, where a variable that is not set stands as it is written.
    pub(super) fn join_loosely(&self, at: Position, pieces: &[Piece]) -> Result<String, WmlError> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Variable(name) if !self.is_set(name) => {
                    text.push('$');
                    text.push_str(name);
                }
                piece => text.push_str(&self.join(at, std::slice::from_ref(piece))?),
            }
        }
        Ok(text)
    }

    fn show(&self, variable: &Variable) -> String {
        match variable {
            Variable::Boolean(boolean) => boolean.to_string(),
            Variable::Number(number) => number.to_string(),
            Variable::Text(text) => text.clone(),
            Variable::Random(number) => {
                self.random.get(*number).map_or("", RandomVariable::describe).to_owned()
            }
        }
    }

    fn describe(variable: &Variable) -> String {
        match variable {
            Variable::Boolean(boolean) => format!("{boolean}"),
            Variable::Number(number) => format!("the number {number}"),
            Variable::Text(text) => format!("{text:?}"),
            Variable::Random(_) => "a random variable".to_owned(),
        }
    }

    fn wrong<T>(
        &self,
        at: Position,
        what: String,
        expected: &'static str,
        variable: &Variable,
    ) -> Result<T, WmlError> {
        let found = Variables::describe(variable);
        self.fail(at, WmlErrorKind::Kind { what, expected, found })
    }

    /// A number that is not random.
    pub(super) fn whole(&self, what: impl Fn() -> String, value: &Value) -> Result<u64, WmlError> {
        match self.evaluate(value)? {
            Variable::Number(number) => Ok(number),
            other => self.wrong(value.at, what(), "a number", &other),
        }
    }

    /// A number, random or not, of an attribute.
    pub(super) fn number(
        &self,
        attributes: &Attributes,
        name: &'static str,
        default: u64,
    ) -> Result<Number, WmlError> {
        let Some(attribute) = attributes.get(name) else { return Ok(Number::Constant(default)) };
        match self.of(attribute)? {
            Variable::Number(number) => Ok(Number::Constant(number)),
            Variable::Random(number) => Ok(Number::Random(number)),
            other => self.wrong(attribute.at, name.to_owned(), "a number", &other),
        }
    }

    /// A number of an attribute that may not be random.
    pub(super) fn constant(
        &self,
        attributes: &Attributes,
        name: &'static str,
        default: u64,
    ) -> Result<u64, WmlError> {
        let Some(attribute) = attributes.get(name) else { return Ok(default) };
        match self.of(attribute)? {
            Variable::Number(number) => Ok(number),
            other => {
                self.wrong(attribute.at, name.to_owned(), "a number that is not random", &other)
            }
        }
    }

    /// A constant within bounds.
    pub(super) fn bounded(
        &self,
        attributes: &Attributes,
        name: &'static str,
        default: u64,
        min: u64,
        max: u64,
    ) -> Result<u64, WmlError> {
        let number = self.constant(attributes, name, default)?;
        if (min..=max).contains(&number) {
            return Ok(number);
        }
        let at = attributes.get(name).map_or(attributes.at, |attribute| attribute.at);
        let (what, value) = (name.to_owned(), number.to_string());
        self.fail(at, WmlErrorKind::Range { what, value, min, max })
    }

    /// A truth: `true`, or a number that is not 0.
    pub(super) fn truth(
        &self,
        attributes: &Attributes,
        name: &'static str,
        default: bool,
    ) -> Result<bool, WmlError> {
        let Some(attribute) = attributes.get(name) else { return Ok(default) };
        match self.of(attribute)? {
            Variable::Boolean(boolean) => Ok(boolean),
            Variable::Number(number) => Ok(number != 0),
            other => self.wrong(attribute.at, name.to_owned(), "true or false", &other),
        }
    }

    /// A text, or a number as a text.
    pub(super) fn text(
        &self,
        attributes: &Attributes,
        name: &'static str,
    ) -> Result<Option<String>, WmlError> {
        let Some(attribute) = attributes.get(name) else { return Ok(None) };
        match self.of(attribute)? {
            Variable::Text(text) => Ok(Some(text)),
            Variable::Number(number) => Ok(Some(number.to_string())),
            other => self.wrong(attribute.at, name.to_owned(), "a name", &other),
        }
    }

    /// A text that must be there.
    pub(super) fn required_text(
        &self,
        attributes: &Attributes,
        name: &'static str,
    ) -> Result<String, WmlError> {
        match self.text(attributes, name)? {
            Some(text) => Ok(text),
            None => {
                let (entity, attribute) = (attributes.entity, name);
                self.fail(attributes.at, WmlErrorKind::Missing { entity, attribute })
            }
        }
    }

    pub(super) fn of(&self, attribute: &Attribute) -> Result<Variable, WmlError> {
        match &attribute.value {
            None => Ok(Variable::Boolean(true)),
            Some(value) => self.evaluate(value),
        }
    }

    /// `set $x = randvar(...)`.
    pub(super) fn set_random(
        &mut self,
        name: &str,
        attributes: &Attributes,
        table: Option<&[TableRow]>,
    ) -> Result<(), WmlError> {
        let rows = match table {
            None => None,
            Some(rows) => Some(rows.iter().map(|row| self.row(row)).collect::<Result<_, _>>()?),
        };
        let mut numbers = BTreeMap::new();
        for (name, default) in NUMBERS {
            numbers.insert(*name, self.constant(attributes, name, *default)?);
        }
        if attributes.get("mean").is_none() {
            numbers.remove("mean");
        }
        let type_name = self.text(attributes, "type")?.unwrap_or_else(|| "gamma".to_owned());
        let source = self.text(attributes, "randsrc")?.unwrap_or_else(|| "rand48".to_owned());
        self.make_random(attributes.at, name, Parameters { type_name, source, rows, numbers })
    }

    fn row(&self, row: &TableRow) -> Result<Row, WmlError> {
        let number = |value: &Value| self.whole(|| "a number of the table".to_owned(), value);
        let (percent, min, max) = (number(&row.percent)?, number(&row.min)?, number(&row.max)?);
        if percent > 100 {
            let what = "the percentage".to_owned();
            let (value, at) = (percent.to_string(), row.percent.at);
            return self.fail(at, WmlErrorKind::Range { what, value, min: 0, max: 100 });
        }
        Ok((percent, min as f64, max as f64))
    }

    fn make_random(
        &mut self,
        at: Position,
        name: &str,
        parameters: Parameters,
    ) -> Result<(), WmlError> {
        let number = |name: &str| parameters.numbers.get(name).map(|number| *number as f64);
        let (min, mean) = (number("min").unwrap_or(0.0), number("mean"));
        let fail = |error| WmlErrorKind::Distribution(error);
        if !["urandom", "rand48"].contains(&parameters.source.as_str()) {
            return self.fail(at, fail(DistributionError::Source(parameters.source)));
        }
        // A table makes it tabular whatever its type says, as in filebench.
        let distribution = match (&parameters.rows, parameters.type_name.as_str()) {
            (_, other) if !["uniform", "gamma", "tabular"].contains(&other) => {
                return self.fail(at, fail(DistributionError::RandomType(other.to_owned())));
            }
            (Some(rows), _) => match Distribution::table(rows, min, mean.unwrap_or(0.0)) {
                Ok(table) => table,
                Err(percent) => return self.fail(at, WmlErrorKind::Percentages(percent)),
            },
            (None, "tabular") => return self.fail(at, fail(DistributionError::NoTable)),
            (None, "uniform") => Distribution::Uniform(min, 2.0 * mean.unwrap_or(0.0) - min),
            (None, _) => {
                let shape = number("gamma").unwrap_or(0.0) / 1000.0;
                if shape <= 0.0 {
                    let why = "gamma must be greater than 0";
                    return self.fail(at, fail(DistributionError::Shape(why)));
                }
                let scale = (mean.unwrap_or(shape) - min) / shape;
                Distribution::Gamma { min, shape, scale }
            }
        };
        let finish = Finish::Round(number("round").unwrap_or(0.0));
        let seed = parameters.numbers.get("seed").copied().unwrap_or(0);
        self.parameters.insert(self.random.len(), parameters);
        self.add(RandomVariable { name: name.to_owned(), seed, distribution, finish });
        Ok(())
    }

    fn add(&mut self, variable: RandomVariable) {
        let name = variable.name.clone();
        self.set(&name, Variable::Random(self.random.len()));
        self.random.push(variable);
    }

    /// `set $x = cvar(...)`.
    pub(super) fn set_custom(
        &mut self,
        name: &str,
        attributes: &Attributes,
    ) -> Result<(), WmlError> {
        let type_name = self.required_text(attributes, "type")?;
        let parameters = self.text(attributes, "parameters")?.unwrap_or_default();
        let distribution = match Distribution::custom(&type_name, &parameters) {
            Ok(distribution) => distribution,
            Err(error) => {
                let at = attributes.get("parameters").map_or(attributes.at, |named| named.at);
                return self.fail(at, WmlErrorKind::Distribution(error));
            }
        };
        let bound = |name| match attributes.get(name) {
            None => Ok(None),
            Some(_) => self.constant(attributes, name, 0).map(|number| Some(number as f64)),
        };
        let (min, max) = (bound("min")?, bound("max")?);
        let (min, max) = (min.unwrap_or(f64::MIN_POSITIVE), max.unwrap_or(f64::MAX));
        if min > max {
            let why = DistributionError::Shape("min must not be greater than max");
            return self.fail(attributes.at, WmlErrorKind::Distribution(why));
        }
        let round = self.constant(attributes, "round", 0)?;
        let finish = Finish::Clamp { round, min, max };
        self.add(RandomVariable { name: name.to_owned(), seed: 0, distribution, finish });
        Ok(())
    }

    /// `set $x.mean = value`, of 1.4.
    pub(super) fn set_parameter(
        &mut self,
        name: &str,
        parameter: &str,
        value: &Value,
    ) -> Result<(), WmlError> {
        let mut parameters = self.parameters_of(value.at, name)?.clone();
        match NUMBERS.iter().find(|(known, _)| *known == parameter) {
            Some((known, _)) => {
                let number = self.whole(|| parameter.to_owned(), value)?;
                parameters.numbers.insert(known, number);
            }
            None => {
                let text = match self.evaluate(value)? {
                    Variable::Text(text) => text,
                    other => return self.wrong(value.at, parameter.to_owned(), "a word", &other),
                };
                match parameter {
                    "type" => parameters.type_name = text,
                    _ => parameters.source = text,
                }
            }
        }
        self.make_random(value.at, name, parameters)
    }

    fn parameters_of(&self, at: Position, name: &str) -> Result<&Parameters, WmlError> {
        let variable = self.get(at, name)?;
        let number = match variable {
            Variable::Random(number) => Some(number),
            _ => None,
        };
        match number.and_then(|number| self.parameters.get(number)) {
            Some(parameters) => Ok(parameters),
            None => self.wrong(at, format!("${name}"), "a randvar", variable),
        }
    }

    fn show_parameter(
        &self,
        at: Position,
        name: &str,
        parameter: &str,
    ) -> Result<String, WmlError> {
        // `$dir.type` of a variable that is not random is its value, and text.
        let Ok(parameters) = self.parameters_of(at, name) else {
            return Ok(format!("{}.{parameter}", self.show(self.get(at, name)?)));
        };
        Ok(match parameter {
            "type" => parameters.type_name.clone(),
            "randsrc" => parameters.source.clone(),
            _ => parameters.numbers.get(parameter).copied().unwrap_or(0).to_string(),
        })
    }
}
