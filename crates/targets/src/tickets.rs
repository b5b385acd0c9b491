//! Tickets through a pipe, as bonnie++ hands its seeks to its threads.

use std::io::{PipeReader, PipeWriter, Read, Write};
use workload::tickets::Tickets;

/// Tells a taker that there are no more. Tickets are numbers of 31 bits.
const END: u32 = u32::MAX;

/// See the [module](self).
pub struct Piped {
    reader: PipeReader,
    writer: PipeWriter,
    all: Vec<u8>,
}

impl Piped {
    /// These numbers for so many takers.
    ///
    /// # Errors
    /// Where there is no pipe to be had.
    pub fn new(all: &[u32], takers: usize) -> std::io::Result<Piped> {
        let (reader, writer) = std::io::pipe()?;
        let ends = std::iter::repeat_n(&END, takers);
        let all = all.iter().chain(ends).flat_map(|ticket| ticket.to_ne_bytes()).collect();
        Ok(Piped { reader, writer, all })
    }
}

impl Tickets for Piped {
    fn offer(&self) {
        // The reader is held here, so the pipe is never broken.
        let _ = (&self.writer).write_all(&self.all);
    }

    fn take(&self) -> Option<u32> {
        let mut ticket = [0; 4];
        (&self.reader).read_exact(&mut ticket).ok()?;
        match u32::from_ne_bytes(ticket) {
            END => None,
            ticket => Some(ticket),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a ticket that is lost or taken twice, a taker that waits for ever.

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the takers are threads")]
    fn every_ticket_is_taken_once_and_every_taker_ends() {
        // More than a pipe holds, so that who offers must wait.
        let all: Vec<u32> = (0..100_000).collect();
        let tickets = Piped::new(&all, 3).expect("a pipe");
        let mut taken: Vec<u32> = std::thread::scope(|scope| {
            let take = || std::iter::from_fn(|| tickets.take()).collect::<Vec<u32>>();
            let takers: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            tickets.offer();
            takers.into_iter().flat_map(|taker| taker.join().expect("it ends")).collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, all);
    }
}
