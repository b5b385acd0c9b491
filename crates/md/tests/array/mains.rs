//! One mains for all disks of a machine: when the power of one is cut, that of the others is, before they take anything
//! more.

use rt::filter::PowerCut;
use rt::{Device, Geometry, IoFuture, Request};
use std::rc::Rc;
use std::sync::Arc;
use stdx::Prng;

/// A disk of a machine whose power goes for all disks at once.
pub(crate) struct OneMains {
    disks: Vec<Rc<PowerCut>>,
    first: usize,
    number: usize,
}

impl OneMains {
    /// The disk of this number; the power goes when that of the first does.
    pub(crate) fn new(disks: &[Rc<PowerCut>], first: usize, number: usize) -> OneMains {
        OneMains { disks: disks.to_vec(), first, number }
    }
}

impl Device for OneMains {
    fn geometry(&self) -> Geometry {
        self.disks[self.number].geometry()
    }

    fn name(&self) -> Arc<str> {
        self.disks[self.number].name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let disk = &self.disks[self.number];
        if self.disks[self.first].is_cut() && !disk.is_cut() {
            disk.cut(Prng::for_part(self.number as u64, "cut"));
        }
        disk.submit(request)
    }
}
