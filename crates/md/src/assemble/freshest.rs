//! What the freshest superblock says of the whole set, said by the others too: in memory, where a set is opened to be
//! written, so that a mixture is not written again with equal events.
//!
//! Of its own device each goes on saying what it said.

use super::choice::Choice;
use super::facts::Superblock;
use super::found::Found;
use crate::superblock::Features;
use crate::superblock::v1::{ReshapeFields, SuperblockV1};

/// The choice with superblocks (in memory) that say of the whole set what the freshest says of it.
pub(crate) fn agreed(mut choice: Choice) -> Choice {
    let Superblock::V1(facts) = choice.facts.clone() else { return choice };
    let replacements = choice.replacements.iter_mut().map(|(_, found)| found);
    let all = choice.slots.iter_mut().flatten().chain(&mut choice.spares).chain(replacements);
    all.for_each(|found| agree(found, &facts));
    choice
}

impl SuperblockV1 {
    /// The data area where it lies after a reshape: it begins elsewhere, and ends where it did.
    pub(crate) fn end_reshape(&mut self) {
        let end = self.data_offset.saturating_add(self.data_size);
        self.data_offset = self.new_data_offset().unwrap_or(self.data_offset);
        self.data_size = end.saturating_sub(self.data_offset);
        let reshaping =
            Features::RESHAPE_ACTIVE | Features::NEW_OFFSET | Features::RESHAPE_BACKWARDS;
        self.features = self.features.with(reshaping, false);
        self.reshape = ReshapeFields::default();
    }
}

/// What one superblock says of the whole set, as the freshest says it.
pub(crate) fn agree(found: &mut Found, facts: &SuperblockV1) {
    let Superblock::V1(own) = &mut found.superblock else { return };
    own.level = facts.level;
    own.layout = facts.layout;
    own.chunk = facts.chunk;
    own.size = facts.size;
    own.slots = facts.slots;
    own.resync_offset = facts.resync_offset;
    // A bitmap that comes or goes with this pass: its bytes were on every device before.
    if own.features.has(Features::BITMAP) != facts.features.has(Features::BITMAP) {
        own.features = own.features.with(Features::BITMAP, facts.features.has(Features::BITMAP));
        own.bitmap_or_ppl = facts.bitmap_or_ppl;
    }
    let (active, offset) = (Features::RESHAPE_ACTIVE, Features::NEW_OFFSET);
    let moves = own.features.has(active) && own.features.has(offset);
    let new_offset = if moves { own.reshape.new_offset } else { 0 };
    if facts.features.has(active) {
        let backwards = facts.features.has(Features::RESHAPE_BACKWARDS);
        own.features = own.features.with(Features::RESHAPE_BACKWARDS, backwards);
        own.features = own.features.with(active, true).with(offset, new_offset != 0);
        own.reshape = ReshapeFields { new_offset, ..facts.reshape };
    } else if own.features.has(active) {
        // At position 0 it was never begun; else this one missed the end, and its data lies in the new place.
        own.features = own.features.with(offset, own.reshape.position > 0 && moves);
        own.end_reshape();
    }
}
