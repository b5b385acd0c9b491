//! Sets opened for reading.

use super::{missing, name, sources};
use crate::context::Context;
use crate::error::Error;
use ::md::assemble::{Choice, OpenArray, OpenOptions};
use std::rc::Rc;

/// Opens a set for reading, and tells who takes no part in it. One that another process is writing is refused
/// unless forced: what is read of it need not hold together.
///
/// # Errors
/// It can't be opened, or is written.
pub fn open(
    context: &Context,
    mut choice: Choice,
    options: OpenOptions,
) -> Result<Rc<OpenArray>, Error> {
    if options.force {
        missing::take_back(context.events(), &mut choice);
    } else {
        sources::refuse_if_written(context, &choice)?;
    }
    missing::tell_left_out(context.events(), &choice);
    let (name, rt) = (name::shown(&choice), context.rt());
    context.finish(async move { OpenArray::open(&rt, &name, choice, options).await })
}
