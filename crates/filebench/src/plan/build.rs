//! From commands to steps, in the order of the file.

use super::values::{Variable, Variables};
use super::{
    ENTRIES_MAX, FilesetPlan, FlowopKind, Number, PERIOD_SECONDS_DEFAULT, Period, Plan,
    PlanOptions, ProcessPlan, QuitMode, RUN_SECONDS_DEFAULT, Row, RunPlan, SECONDS_MAX, STEPS_MAX,
    Step,
};
use crate::error::{Position, WmlError, WmlErrorKind};
use crate::lexer::Piece;
use crate::parser;
use crate::syntax::{
    Attributes, Command, CommandKind, FlowopUse, Local, Script, ThreadDefinition, Value, ValueKind,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

impl Plan {
    /// Reads a workload and looks everything up.
    ///
    /// # Errors
    /// The first thing that is wrong, with file, line and column.
    pub fn read(file: &str, text: &str, options: &PlanOptions) -> Result<Plan, WmlError> {
        build(&parser::parse(file, text)?, options)
    }
}

/// Looks everything up. See the [module](super).
fn build(script: &Script, options: &PlanOptions) -> Result<Plan, WmlError> {
    let mut builder = Builder::new(script, options)?;
    builder.commands(&script.commands)?;
    builder.end(script)
}

/// Everything that is known so far.
pub(super) struct Builder<'a> {
    options: &'a PlanOptions,
    pub(super) variables: Variables,
    /// Set on the command line; the file's own `set`s of them don't count.
    fixed: BTreeSet<String>,
    filesets: Vec<Attributes>,
    processes: Vec<(Attributes, Vec<ThreadDefinition>)>,
    pub(super) composites: BTreeMap<String, Composite>,
    event_rate: Option<Attributes>,
    mode: QuitMode,
    latency_histogram: bool,
    quit: bool,
    /// Filesets, from the moment at which they are created.
    created: Option<Vec<FilesetPlan>>,
    steps: Vec<Step>,
    pub(super) notes: BTreeSet<String>,
    /// The figures' rows of the run that is being built.
    pub(super) rows: Vec<Row>,
    /// Flowops of all threads so far.
    pub(super) flowops: usize,
}

/// A composite as it is defined.
#[derive(Clone)]
pub(super) struct Composite {
    pub(super) attributes: Attributes,
    pub(super) locals: Vec<Local>,
    pub(super) flowops: Vec<FlowopUse>,
}

impl<'a> Builder<'a> {
    fn new(script: &Script, options: &'a PlanOptions) -> Result<Builder<'a>, WmlError> {
        let mut builder = Builder {
            options,
            variables: Variables::new("--set".into()),
            fixed: BTreeSet::new(),
            filesets: Vec::new(),
            processes: Vec::new(),
            composites: BTreeMap::new(),
            event_rate: None,
            mode: QuitMode::default(),
            latency_histogram: false,
            quit: false,
            created: None,
            steps: Vec::new(),
            notes: BTreeSet::new(),
            rows: Vec::new(),
            flowops: 0,
        };
        // `--set` has the file's own language.
        for (name, value) in &options.variables {
            let set = parser::parse("--set", &format!("set ${name}={value}"))?;
            builder.commands(&set.commands)?;
            builder.fixed.insert(name.clone());
        }
        if !options.directory.is_empty() && !builder.fixed.contains("dir") {
            builder.variables.set("dir", Variable::Text(options.directory.clone()));
            builder.fixed.insert("dir".to_owned());
        }
        let random = std::mem::take(&mut builder.variables);
        builder.variables = random.for_file(script.file.clone());
        Ok(builder)
    }

    pub(super) fn fail<T>(&self, at: Position, kind: WmlErrorKind) -> Result<T, WmlError> {
        self.variables.fail(at, kind)
    }

    fn step(&mut self, at: Position, step: Step) -> Result<(), WmlError> {
        if self.steps.len() >= STEPS_MAX {
            return self.fail(at, WmlErrorKind::TooMany { what: "steps", max: STEPS_MAX as u64 });
        }
        self.steps.push(step);
        Ok(())
    }

    fn commands(&mut self, commands: &[Command]) -> Result<(), WmlError> {
        for command in commands {
            if self.quit {
                return Ok(());
            }
            self.command(command)?;
        }
        Ok(())
    }

    fn command(&mut self, Command { at, kind }: &Command) -> Result<(), WmlError> {
        let at = *at;
        match kind {
            CommandKind::Nothing => Ok(()),
            CommandKind::Set { name, value } => {
                if !self.fixed.contains(name) {
                    let value = self.variables.calculate(value)?;
                    self.variables.set(name, value);
                }
                Ok(())
            }
            CommandKind::SetRandom { name, attributes, table } => {
                if self.fixed.contains(name) {
                    return Ok(());
                }
                self.variables.set_random(name, attributes, table.as_deref())
            }
            CommandKind::SetCustom { name, attributes } => {
                if self.fixed.contains(name) {
                    return Ok(());
                }
                self.variables.set_custom(name, attributes)
            }
            CommandKind::SetParameter { name, parameter, value } => {
                self.variables.set_parameter(name, parameter, value)
            }
            CommandKind::SetMode(mode) => {
                self.mode = *mode;
                Ok(())
            }
            CommandKind::File(attributes) | CommandKind::Fileset(attributes) => {
                self.filesets.push(attributes.clone());
                Ok(())
            }
            CommandKind::Process { attributes, threads } => {
                for thread in threads {
                    self.check_kinds(&thread.flowops)?;
                }
                self.processes.push((attributes.clone(), threads.clone()));
                Ok(())
            }
            CommandKind::Composite { attributes, locals, flowops } => {
                self.check_kinds(flowops)?;
                let name = self.variables.required_text(attributes, "name")?;
                let composite = Composite {
                    attributes: attributes.clone(),
                    locals: locals.clone(),
                    flowops: flowops.clone(),
                };
                let there = FlowopKind::BUILT_IN.iter().any(|(word, _)| *word == name)
                    || self.composites.contains_key(&name);
                if there {
                    return self.fail(at, WmlErrorKind::Twice { entity: "the flowop", name });
                }
                self.composites.insert(name, composite);
                Ok(())
            }
            CommandKind::EventGenerator(attributes) => {
                self.event_rate = Some(attributes.clone());
                Ok(())
            }
            CommandKind::Create => {
                self.create()?;
                self.step(at, Step::Create)
            }
            CommandKind::Run(seconds) => self.run(at, seconds.as_ref(), None),
            CommandKind::PeriodicRun { period, clears, seconds } => {
                let every = match period {
                    Some(period) => self.seconds("the period", period)?,
                    None => 0,
                };
                let every = if every == 0 { PERIOD_SECONDS_DEFAULT } else { every };
                let period = Period { every: Duration::from_secs(every), clears: *clears };
                self.run(at, seconds.as_ref(), Some(period))
            }
            CommandKind::Echo(pieces) => {
                let text = self.variables.join_loosely(at, pieces)?;
                self.step(at, Step::Print(text))
            }
            CommandKind::System(pieces) => self.system(at, pieces),
            CommandKind::Sleep(seconds) => {
                let seconds = self.seconds("sleep", seconds)?;
                self.step(at, Step::Sleep(Duration::from_secs(seconds)))
            }
            CommandKind::Version => self.step(at, Step::Version),
            CommandKind::ListFilesets => self.step(at, Step::ListFilesets),
            CommandKind::ListFlowops => {
                let built_in = FlowopKind::BUILT_IN.iter().map(|(word, _)| *word);
                let own = self.composites.keys().map(String::as_str);
                let list: Vec<String> =
                    own.chain(built_in).map(|word| format!("flowop-list {word}-0")).collect();
                list.into_iter().try_for_each(|line| self.step(at, Step::Print(line)))
            }
            CommandKind::LatencyHistogram => {
                self.latency_histogram = true;
                self.step(at, Step::Print("Latency histogram enabled".to_owned()))
            }
            CommandKind::ForEach { variable, values, commands } => {
                for value in values {
                    let value = self.variables.evaluate(value)?;
                    self.variables.set(variable, value);
                    self.commands(commands)?;
                }
                Ok(())
            }
            CommandKind::Quit => {
                self.quit = true;
                Ok(())
            }
        }
    }

    fn check_kinds(&self, flowops: &[FlowopUse]) -> Result<(), WmlError> {
        for flowop in flowops {
            let built_in = FlowopKind::BUILT_IN.iter().any(|(word, _)| *word == flowop.kind);
            if !built_in && !self.composites.contains_key(&flowop.kind) {
                let known: Vec<&str> = FlowopKind::BUILT_IN.iter().map(|(word, _)| *word).collect();
                let (word, known) = (flowop.kind.clone(), known.join(", "));
                return self.fail(flowop.at, WmlErrorKind::Flowop { word, known });
            }
        }
        Ok(())
    }

    fn seconds(&self, what: &str, value: &Value) -> Result<u64, WmlError> {
        let seconds = self.variables.whole(|| what.to_owned(), value)?;
        if seconds <= SECONDS_MAX {
            return Ok(seconds);
        }
        let (what, max) = (what.to_owned(), SECONDS_MAX);
        let value_text = seconds.to_string();
        self.fail(value.at, WmlErrorKind::Range { what, value: value_text, min: 0, max })
    }

    /// `system`: what clears caches is done by ourselves, so that files which begin with it run.
    fn system(&mut self, at: Position, pieces: &[Piece]) -> Result<(), WmlError> {
        let command = self.variables.join_loosely(at, pieces)?;
        let words: Vec<&str> = command.split_whitespace().collect();
        let step = match words.as_slice() {
            ["sync"] => Step::Sync,
            ["echo", "1" | "2" | "3", ">", "/proc/sys/vm/drop_caches"] => Step::DropCaches,
            _ if self.options.allow_system => Step::System(command),
            _ => {
                let why = "it would run a shell command; allow it with --allow-system (sync and \
                           drop_caches need no permission)";
                let word = format!("system {command:?}");
                return self.fail(at, WmlErrorKind::NotCarriedOut { word, why });
            }
        };
        self.step(at, step)
    }

    fn create(&mut self) -> Result<(), WmlError> {
        if self.created.is_some() {
            return Ok(());
        }
        let mut filesets: Vec<FilesetPlan> = Vec::new();
        for attributes in &self.filesets {
            let fileset = self.fileset(attributes)?;
            if filesets.iter().any(|other| other.name == fileset.name) {
                let (entity, name) = (attributes.entity, fileset.name.to_string());
                return self.fail(attributes.at, WmlErrorKind::Twice { entity, name });
            }
            let nests = |other: &FilesetPlan| {
                other.root.starts_with(&fileset.root) || fileset.root.starts_with(&other.root)
            };
            if filesets.iter().any(nests) {
                let name = fileset.root.display().to_string();
                let entity = "the place of a fileset";
                return self.fail(attributes.at, WmlErrorKind::Twice { entity, name });
            }
            if attributes.get("writeonly").is_some() {
                self.notes.insert("writeonly has no effect; files can be read as well".to_owned());
            }
            filesets.push(fileset);
        }
        self.created = Some(filesets);
        Ok(())
    }

    fn fileset(&self, attributes: &Attributes) -> Result<FilesetPlan, WmlError> {
        let values = &self.variables;
        let is_file = attributes.entity == "file";
        let name = values.required_text(attributes, "name")?;
        let path = values.required_text(attributes, "path")?;
        let place =
            |wanted: &str| attributes.get(wanted).map_or(attributes.at, |attribute| attribute.at);
        let root = match (below(&self.options.directory, &path), plain(&name)) {
            (Some(path), Some(name)) => path.join(name),
            (None, _) => return self.fail(place("path"), WmlErrorKind::BadPath(path)),
            (_, None) => return self.fail(place("name"), WmlErrorKind::BadPath(name)),
        };
        let preallocated_percent = match attributes.get("prealloc") {
            None => 0,
            Some(attribute) => match values.of(attribute)? {
                Variable::Boolean(all) => u64::from(all) * 100,
                _ => values.bounded(attributes, "prealloc", 0, 0, 100)?,
            },
        };
        let depth = match attributes.get("dirdepthrv") {
            None => None,
            Some(attribute) => match values.number(attributes, "dirdepthrv", 0)? {
                random @ Number::Random(_) => Some(random),
                Number::Constant(number) => {
                    let (what, expected) = ("dirdepthrv".to_owned(), "a random variable");
                    let found = format!("the number {number}");
                    let kind = WmlErrorKind::Kind { what, expected, found };
                    return self.fail(attribute.at, kind);
                }
            },
        };
        let size_gamma = values.constant(attributes, "filesizegamma", 0)?;
        Ok(FilesetPlan {
            shown_path: path,
            name: name.into(),
            root,
            is_file,
            entries: match is_file {
                true => 1,
                false => values.bounded(attributes, "entries", 0, 0, ENTRIES_MAX)?,
            },
            leaf_directories: match is_file {
                true => 0,
                false => values.bounded(attributes, "leafdirs", 0, 0, ENTRIES_MAX)?,
            },
            width: match is_file {
                true => Number::Constant(10),
                false => values.number(attributes, "dirwidth", 0)?,
            },
            depth,
            gamma: match is_file {
                true => 0,
                false => values.constant(attributes, "dirgamma", 1500)?,
            },
            size: values.number(attributes, "size", 1024)?,
            size_gamma: (size_gamma > 0).then_some(size_gamma),
            preallocated_percent,
            parallel: values.truth(attributes, "paralloc", false)?,
            reuse: values.truth(attributes, "reuse", false)?,
            trust: values.truth(attributes, "trusttree", false)?,
            read_only: values.truth(attributes, "readonly", false)?,
            uncached: !values.truth(attributes, "cached", true)?,
        })
    }

    /// The number of a fileset by its name.
    pub(super) fn fileset_number(&self, at: Position, name: &str) -> Result<usize, WmlError> {
        let created = self.created.as_deref().unwrap_or_default();
        match created.iter().position(|fileset| &*fileset.name == name) {
            Some(number) => Ok(number),
            None => self.fail(at, WmlErrorKind::Fileset(name.to_owned())),
        }
    }

    fn run(
        &mut self,
        at: Position,
        seconds: Option<&Value>,
        period: Option<Period>,
    ) -> Result<(), WmlError> {
        self.create()?;
        let seconds = match (self.options.run_seconds, seconds) {
            (Some(seconds), _) => seconds,
            (None, Some(seconds)) => self.seconds("the run", seconds)?,
            (None, None) => 0,
        };
        let duration = match (seconds, self.mode) {
            (0, QuitMode::Timeout) => Some(Duration::from_secs(RUN_SECONDS_DEFAULT)),
            (0, _) => None,
            (seconds, _) => Some(Duration::from_secs(seconds)),
        };
        let event_rate = match &self.event_rate {
            None => None,
            Some(attributes) => match self.variables.number(attributes, "rate", 0)? {
                Number::Constant(0) => None,
                rate => Some(rate),
            },
        };
        let (processes, rows) = self.processes(at)?;
        let latency_histogram = self.latency_histogram;
        let mode = self.mode;
        let run =
            RunPlan { duration, period, mode, event_rate, latency_histogram, processes, rows };
        self.step(at, Step::Run(Box::new(run)))
    }

    fn processes(&mut self, at: Position) -> Result<(Vec<ProcessPlan>, Vec<Row>), WmlError> {
        if self.processes.is_empty() {
            return self.fail(at, WmlErrorKind::NoProcess);
        }
        let definitions = self.processes.clone();
        let processes = self.unfold(&definitions)?;
        Ok((processes, std::mem::take(&mut self.rows)))
    }

    fn end(mut self, script: &Script) -> Result<Plan, WmlError> {
        let at = Position { line: 1, column: 1 };
        for (name, _) in &self.options.variables {
            if !mentions(&script.commands, name) {
                // It was set all the same, before the file was read.
                let known = self.variables.names_but(name);
                let name = format!("${name}");
                let variables = Variables::new("--set".into());
                return variables.fail(at, WmlErrorKind::NoSuchVariable { name, known });
            }
        }
        let runs = |step: &Step| matches!(step, Step::Run(_));
        if !self.steps.iter().any(runs) {
            self.run(at, None, None)?;
            if self.options.run_seconds.is_none() {
                let ends = match self.mode {
                    QuitMode::Timeout => format!("{RUN_SECONDS_DEFAULT} seconds"),
                    QuitMode::AllDone => "until all threads have ended".to_owned(),
                    QuitMode::FirstDone => "until the first thread has ended".to_owned(),
                };
                self.notes.insert(format!("the file has no run command; run {ends}"));
            }
        }
        Ok(Plan {
            file: script.file.clone(),
            filesets: self.created.unwrap_or_default(),
            variables: self.variables.random.into(),
            steps: self.steps,
            notes: self.notes.into_iter().collect(),
        })
    }
}

/// A path of the file as one below the directory of the run; `None` where it can't be one.
fn below(directory: &str, path: &str) -> Option<PathBuf> {
    let (directory, path) = (Path::new(directory), Path::new(path));
    let rest = match path.strip_prefix(directory) {
        Ok(rest) if directory.is_absolute() || !directory.as_os_str().is_empty() => rest,
        _ => path,
    };
    let mut place = PathBuf::new();
    for part in rest.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(place)
}

/// A fileset's name as a path of plain names; `None` where it is none.
fn plain(name: &str) -> Option<PathBuf> {
    let names = rt::file_tree::plain_names(Path::new(name)).ok()?;
    (!names.is_empty()).then(|| names.iter().collect())
}

/// Whether the file sets or uses a variable.
fn mentions(commands: &[Command], name: &str) -> bool {
    let in_pieces = |pieces: &[Piece]| {
        pieces.iter().any(|piece| match piece {
            Piece::Text(_) => false,
            Piece::Variable(other) | Piece::Parameter(other, _) => other == name,
        })
    };
    let in_value = |value: &Value| match &value.kind {
        ValueKind::Variable(other) => other == name,
        ValueKind::Text(pieces) => in_pieces(pieces),
        _ => false,
    };
    let in_attributes = |attributes: &Attributes| {
        attributes.list.iter().filter_map(|attribute| attribute.value.as_ref()).any(&in_value)
    };
    let in_flowops = |flowops: &[FlowopUse]| {
        flowops.iter().any(|flowop| {
            in_attributes(&flowop.attributes)
                || flowop.locals.iter().filter_map(|local| local.value.as_ref()).any(&in_value)
        })
    };
    let in_option = |value: &Option<Value>| value.as_ref().is_some_and(&in_value);
    commands.iter().any(|command| match &command.kind {
        CommandKind::Set { name: other, value } => {
            other == name || in_value(&value.first) || value.rest.iter().any(|(_, v)| in_value(v))
        }
        CommandKind::SetRandom { name: other, attributes, .. }
        | CommandKind::SetCustom { name: other, attributes } => {
            other == name || in_attributes(attributes)
        }
        CommandKind::SetParameter { name: other, value, .. } => other == name || in_value(value),
        CommandKind::File(attributes)
        | CommandKind::Fileset(attributes)
        | CommandKind::EventGenerator(attributes) => in_attributes(attributes),
        CommandKind::Process { attributes, threads } => {
            in_attributes(attributes)
                || threads
                    .iter()
                    .any(|thread| in_attributes(&thread.attributes) || in_flowops(&thread.flowops))
        }
        CommandKind::Composite { flowops, .. } => in_flowops(flowops),
        CommandKind::Run(seconds) => in_option(seconds),
        CommandKind::PeriodicRun { period, seconds, .. } => in_option(period) || in_option(seconds),
        CommandKind::Sleep(seconds) => in_value(seconds),
        CommandKind::Echo(pieces) | CommandKind::System(pieces) => in_pieces(pieces),
        CommandKind::ForEach { variable, values, commands } => {
            variable == name || values.iter().any(&in_value) || mentions(commands, name)
        }
        _ => false,
    })
}
