//! One cell of a study: what is run once per repeat.

use super::{Level, Workload};
use std::collections::BTreeMap;
use stdx::Prng;

/// One combination of levels under one workload: what a target runs.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    /// Unique in the study, and the same whatever else runs:
    /// `layout=raid5-6/random/block_size=4k,queue_depth=16`.
    pub id: String,
    /// The level of each factor of the study.
    pub factors: BTreeMap<String, Level>,
    /// What is run, with every parameter settled.
    pub workload: Workload,
    /// The workload's parameters that the study varies, in the order of the name.
    pub varying: Vec<String>,
}

impl CellSpec {
    /// What a selector asks of a cell: `workload`, a factor's level, or a parameter, as text.
    pub fn property(&self, key: &str) -> Option<String> {
        match self.factors.get(key) {
            Some(level) => Some(level.to_string()),
            None if key == "workload" => Some(self.workload.name.clone()),
            None => self.workload.parameter(key),
        }
    }

    /// The levels of factors and varied parameters, by name: `Cell::factors` of `results.json`.
    pub fn levels(&self) -> BTreeMap<String, String> {
        let factors = self.factors.iter().map(|(name, level)| (name.clone(), level.to_string()));
        let varied = self
            .workload
            .parameters()
            .into_iter()
            .filter_map(|(name, value)| self.varying.contains(&name).then_some((name, value)));
        factors.chain(varied).collect()
    }

    /// The seed of one repeat (counted from 0) of this cell, in a run of this seed.
    pub fn seed(&self, study_seed: u64, repeat: u32) -> u64 {
        Prng::for_part(study_seed, &format!("{}#{repeat}", self.id)).next_u64()
    }
}
