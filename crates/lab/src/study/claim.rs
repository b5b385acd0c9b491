//! What a study expects to find: claims, and how its verdict is found. Only their form is here; what
//! is made of the figures is in [`crate::claims`] and [`crate::verdict`].
//!
//! Both speak of cells through a [`Selector`].

use super::check::{Against, Check, check_metric};
use super::error::{Fault, Problem};
use super::reader::{Reader, as_number};
use super::selector::{Names, Selector};
use super::{Factor, Level};
use crate::metrics::Better;
use std::collections::BTreeMap;
use toml::Value;

/// A published finding that this study checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// The finding in words.
    pub text: String,
    /// Where it was published.
    pub source: String,
    /// What was published, in words and numbers.
    pub published: String,
    /// What sort of statement it is.
    pub kind: ClaimKind,
    /// What the figures must show: all of this. Empty only of a conjecture.
    pub checks: Vec<Check>,
    /// Where the tolerance comes from: the source's rounding, the spread of its runs.
    pub tolerance_from: Option<String>,
    /// The parameter of the model that was taken from this very finding. The claim is then no test of the
    /// model, and is not counted.
    pub calibrates: Option<String>,
    /// Why it does not hold, where it is known not to.
    pub explanation: Option<String>,
    /// The parameter that is most to blame where it does not hold.
    pub suspect: Option<Suspect>,
}

/// What sort of statement a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimKind {
    /// A measured figure.
    Quantity,
    /// Which is more, or that two are alike.
    Direction,
    /// How many times one is the other.
    Ratio,
    /// What the author supposed and did not measure. It is not counted.
    Conjecture,
}

/// The parameter of the model that is most suspect where a claim does not hold, and what would mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Its name: `back_end_mb_s of infortrend-2012`.
    pub parameter: String,
    /// What it is.
    pub value: String,
    /// What it would have to be for the claim to hold.
    pub needs: String,
    /// Whether that is plausible, and why.
    pub judgement: String,
}

impl ClaimKind {
    /// Its name in studies and results.
    pub fn word(self) -> &'static str {
        match self {
            ClaimKind::Quantity => "quantity",
            ClaimKind::Direction => "direction",
            ClaimKind::Ratio => "ratio",
            ClaimKind::Conjecture => "conjecture",
        }
    }

    /// What a check by itself says.
    fn of(check: &Check) -> ClaimKind {
        match &check.against {
            Against::Value(_) | Against::Itself => ClaimKind::Quantity,
            Against::Cells { factor, .. } if *factor != 1.0 => ClaimKind::Ratio,
            Against::Cells { .. } | Against::Along(_) => ClaimKind::Direction,
        }
    }
}

impl Claim {
    /// Why it is not counted, where it is not.
    pub fn uncounted(&self) -> Option<String> {
        match (&self.calibrates, self.kind) {
            (_, ClaimKind::Conjecture) => Some("a conjecture of its author".to_owned()),
            (Some(parameter), _) => Some(format!("{parameter} was taken from it")),
            (None, _) => None,
        }
    }
}

/// Reads all `[[claim]]`s.
pub(super) fn read_claims(readers: Vec<Reader>, names: &Names<'_>) -> Result<Vec<Claim>, Fault> {
    let mut claims: Vec<Claim> = Vec::with_capacity(readers.len());
    for mut reader in readers {
        let id = reader.required_text("id", "write id = \"...\", a short name")?;
        reader.call(format!("claim '{id}'"));
        if claims.iter().any(|claim| claim.id == id) {
            let (what, within) = ("claim".to_owned(), "the study".to_owned());
            return Err(Fault::new(reader.path("id"), Problem::Twice { what, name: id, within }));
        }
        let text = reader.required_text("text", "write text = \"...\", the finding in words")?;
        let source =
            reader.required_text("source", "write source = \"...\": where it was published")?;
        let published =
            reader.required_text("published", "write published = \"...\", in words and numbers")?;
        let explanation = reader.text("explanation")?;
        let tolerance_from = reader.text("tolerance_from")?;
        let calibrates = reader.text("calibrates")?;
        let suspect = read_suspect(&mut reader)?;
        let kinds =
            [ClaimKind::Quantity, ClaimKind::Direction, ClaimKind::Ratio, ClaimKind::Conjecture];
        let kind = reader.choice("kind", &kinds.map(|kind| (kind.word(), kind)))?;
        let checks = read_checks(&mut reader, names)?;
        let kind = kind.or(checks.first().map(ClaimKind::of)).ok_or_else(|| {
            reader
                .missing("check", "write check = { metric = \"...\", of = {...}, relation = ... }")
        })?;
        if checks.is_empty() && kind != ClaimKind::Conjecture {
            return Err(reader.contradiction(
                "kind",
                format!("a {} without 'check' says nothing", kind.word()),
                "write check = { ... }; only a conjecture can do without",
            ));
        }
        reader.finish()?;
        claims.push(Claim {
            id,
            text,
            source,
            published,
            kind,
            checks,
            tolerance_from,
            calibrates,
            explanation,
            suspect,
        });
    }
    Ok(claims)
}

/// `check = {...}`, or a list of them, of which all must hold.
fn read_checks(reader: &mut Reader, names: &Names<'_>) -> Result<Vec<Check>, Fault> {
    let within = format!("'check' of {}", reader.within());
    if reader.is_list("check") {
        let checks = reader.readers("check", &within)?;
        return checks.into_iter().map(|check| Check::read(check, names)).collect();
    }
    let check = reader.reader("check", within)?;
    Ok(check.map(|check| Check::read(check, names)).transpose()?.into_iter().collect())
}

fn read_suspect(reader: &mut Reader) -> Result<Option<Suspect>, Fault> {
    let within = format!("'suspect' of {}", reader.within());
    let Some(mut reader) = reader.reader("suspect", within)? else { return Ok(None) };
    let suspect = Suspect {
        parameter: reader.required_text("parameter", "write parameter = \"NAME of PROFILE\"")?,
        value: reader.required_text("value", "write value = \"...\", what it is")?,
        needs: reader.required_text("needs", "write needs = \"...\", what it would have to be")?,
        judgement: reader
            .required_text("judgement", "write judgement = \"...\": whether that is plausible")?,
    };
    reader.finish()?;
    Ok(Some(suspect))
}

/// How the answer is found from the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictRules {
    /// The factor whose levels are ranked.
    pub by: String,
    /// What the user would do with the winner: one ranking each.
    pub uses: Vec<Use>,
    /// What a level costs, for a second ranking by yield.
    pub per: Option<Per>,
}

/// One thing that the ranked levels may be used for.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// In words: `random 4–32 KiB reads and writes`.
    pub name: String,
    /// The cells that stand for it.
    pub of: Selector,
    /// Ranked by this; the workload's main metric where it is not said.
    pub metric: Option<String>,
    /// Which way it is better; known from the metric's name where it is not said.
    pub better: Option<Better>,
}

/// A cost of each level, such as its number of disks.
#[derive(Clone, Debug, PartialEq)]
pub struct Per {
    /// What is counted: `disk`.
    pub unit: String,
    /// How many, by level.
    pub counts: BTreeMap<String, f64>,
}

/// Reads `[verdict]`.
pub(super) fn read_verdict(mut reader: Reader, names: &Names<'_>) -> Result<VerdictRules, Fault> {
    let by = reader.required_text("by", "write by = the name of the factor that is chosen")?;
    let factor = super::factor::factor_named(names.factors, &by, &reader.path("by"), "[verdict]")?;
    let betters = [("higher", Better::Higher), ("lower", Better::Lower)];
    let metric = reader.text("metric")?;
    if let Some(metric) = &metric {
        check_metric(&reader, metric)?;
    }
    let better = reader.choice("better", &betters)?;
    let mut uses = Vec::new();
    for mut used in reader.readers("use", "[[verdict.use]]")? {
        let name = used.required_text("name", "write name = \"...\", as it shall be read")?;
        used.call(format!("use '{name}' of [verdict]"));
        let of = Selector::read(&mut used, "of", names)?
            .ok_or_else(|| used.missing("of", "write of = { workload = \"...\" }"))?;
        let metric = used.text("metric")?.or_else(|| metric.clone());
        if let Some(metric) = &metric {
            check_metric(&used, metric)?;
        }
        let better = used.choice("better", &betters)?.or(better);
        used.finish()?;
        uses.push(Use { name, of, metric, better });
    }
    if uses.is_empty() {
        // A study that does not say what it is for is taken to be for each of its workloads.
        for workload in names.workloads.iter().filter(|workload| !workload.load_only) {
            let (name, of) = (workload.name.clone(), Selector::of_workload(&workload.name));
            uses.push(Use { name, of, metric: metric.clone(), better });
        }
    }
    let per = match reader.reader("per", "[verdict.per]")? {
        None => None,
        Some(per) => Some(Per::read(per, factor)?),
    };
    reader.finish()?;
    Ok(VerdictRules { by, uses, per })
}

impl Per {
    fn read(mut reader: Reader, factor: &Factor) -> Result<Per, Fault> {
        let unit = reader.required_text("unit", "write unit = \"disk\" or what else is counted")?;
        let path = reader.path("counts");
        let table = reader
            .table("counts")?
            .ok_or_else(|| reader.missing("counts", "write counts = { LEVEL = number, ... }"))?;
        let mut counts = BTreeMap::new();
        for (name, value) in table {
            let path = path.key(&name);
            let text = Value::String(name.clone());
            let level = factor.level_named(&text, &path, "'counts' of [verdict.per]")?;
            match as_number(&value) {
                Some(count) if count.is_finite() && count > 0.0 => {
                    counts.insert(level.to_string(), count);
                }
                _ => {
                    let mut fault = reader.bad(&name, &value, "a number above 0");
                    fault.path = path;
                    return Err(fault);
                }
            }
        }
        let missing = |level: &&Level| !counts.contains_key(&level.to_string());
        if let Some(level) = factor.levels_in_file.iter().find(missing) {
            return Err(reader.contradiction(
                "counts",
                format!("'counts' has no number for '{level}'"),
                format!("give one for each level of '{}'", factor.name),
            ));
        }
        reader.finish()?;
        Ok(Per { unit, counts })
    }
}
