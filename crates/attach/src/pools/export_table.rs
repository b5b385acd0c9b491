//! Which exports of a server are volumes of a pool that is held, and how they end before the server does.
//!
//! Whoever opens one puts its name [down here](ExportTable::put), and says which [server](ExportTable::served_by) has them all.

use export::nbd::Server;
use rt::IoError;
use std::cell::RefCell;

/// See the [module](self).
#[derive(Default)]
pub struct ExportTable {
    names: RefCell<Vec<String>>,
    server: RefCell<Option<Server>>,
}

impl ExportTable {
    /// One more is.
    pub fn put(&self, name: &str) {
        self.names.borrow_mut().push(name.to_owned());
    }

    /// How many are.
    pub fn count(&self) -> usize {
        self.names.borrow().len()
    }

    /// They are served by this from here on.
    pub fn served_by(&self, server: &Server) {
        *self.server.borrow_mut() = Some(server.clone());
    }

    /// Clients that are connected to one.
    pub fn clients(&self) -> usize {
        let (names, server) = (self.names.borrow(), self.server.borrow());
        let connected =
            |server: &Server| names.iter().map(|name| server.connections_to(name)).sum();
        server.as_ref().map_or(0, connected)
    }

    /// Ends them all: nobody finds one any more, and who is connected is hung up on.
    ///
    /// # Errors
    /// Of the first that could not be flushed; all were ended.
    pub async fn end(&self) -> Result<(), IoError> {
        let Some(server) = self.server.borrow().clone() else { return Ok(()) };
        let mut outcome = Ok(());
        for name in self.names.take() {
            outcome = outcome.and(server.end(&name).await);
        }
        outcome
    }
}
