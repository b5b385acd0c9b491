//! Sets opened for writing.

use super::parted::open_partition;
use super::place::whole_of;
use super::{missing, name};
use crate::context::Context;
use crate::error::Error;
use crate::event::{Event, Events, Work};
use ::md::SyncPriority;
use ::md::assemble::{self, Choice};
use ::md::live::{LiveArray, LiveError, LiveOptions};
use host::{FileDevice, FileOptions};
use rt::DeviceRef;
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Opens a chosen set for writing.
///
/// # Errors
/// It can't be; or its members are of different histories, and it is not forced.
pub fn open_choice(context: &Context, choice: Choice, force: bool) -> Result<LiveArray, Error> {
    if !force {
        missing::refuse_histories(&choice)?;
    }
    open_with(context, choice, LiveOptions { force, ..LiveOptions::default() })
}

/// Opens a chosen set so that its devices can come and go, also where its journal is not there.
///
/// # Errors
/// It can't be.
pub fn open_for_devices(context: &Context, choice: Choice) -> Result<LiveArray, Error> {
    open_with(context, choice, LiveOptions { without_journal: true, ..LiveOptions::default() })
}

fn open_with(
    context: &Context,
    mut choice: Choice,
    options: LiveOptions,
) -> Result<LiveArray, Error> {
    if options.force {
        choice.accept_stale();
    }
    missing::tell_left_out(context.events(), &choice);
    // Of the devices that are opened for writing nobody can tell who was left out.
    let name = name::shown(&choice);
    choice.check_enough().map_err(|error| Error::from(error).naming(choice.set, &name))?;
    // The same devices once more, and this time for writing.
    let mut devices: Vec<DeviceRef> = Vec::new();
    for found in choice.taking_part() {
        devices.push(for_writing(context, Path::new(&found.name()))?);
    }
    // From here on nobody else writes to them.
    missing::tell_taken_back(context.events(), &choice, true);
    let (set, rt) = (choice.set, context.rt());
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_s = since.map_or(0, |since| since.as_secs());
    let options = LiveOptions { unix_s, ..options };
    context.finish(async move {
        let mut found = Vec::new();
        for device in &devices {
            found.extend(assemble::find(device).await.map_err(LiveError::from)?);
        }
        let mut choice = Choice::of(set, found)?;
        if options.force {
            choice.accept_stale();
        }
        LiveArray::open(&rt, &name, choice, options).await
    })
}

/// A device for writing; `IMAGE:N` is a partition of a disk image.
///
/// # Errors
/// Where it can't be opened.
pub fn for_writing(context: &Context, path: &Path) -> Result<DeviceRef, Error> {
    if let Some(image) = whole_of(path) {
        return Ok(open_partition(context, path, &image)?.device);
    }
    let options = FileOptions { direct: false, read_only: false };
    Ok(Rc::new(FileDevice::open(&context.host(), path, options)?))
}

/// Makes right what was not stopped cleanly, fills spares and members that came back, and ends replacements.
/// Tells so as it goes, and returns what was done.
///
/// # Errors
/// [`LiveError`]
pub async fn make_whole(
    events: &Events,
    set: &LiveArray,
    priority: SyncPriority,
) -> Result<Vec<Work>, LiveError> {
    let mut done = Vec::new();
    let begin = |work| events.tell(Event::Begun(work));
    let mut end = |work| {
        events.tell(Event::Done(work));
        done.push(work);
    };
    if set.needs_resync() {
        begin(Work::Resync);
        set.resync(priority).await?;
        end(Work::Resync);
    }
    for slot in set.needs_rebuild() {
        begin(Work::Rebuild(slot));
        set.rebuild(slot, priority).await?;
        end(Work::Rebuild(slot));
    }
    for slot in set.needs_replace() {
        begin(Work::Replace(slot));
        set.replace(slot, priority).await?;
        end(Work::Replace(slot));
    }
    Ok(done)
}
