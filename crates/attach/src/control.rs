//! Sockets by which a command reaches the process that holds what it is about: RAID sets today, pools next.
//!
//! ```text
//!   command                                        process that holds it
//!   client::reach ──▶ folder / NAME.sock ──▶ server::listen, a Service of it
//!                      one line of JSON: version, the devices that the command found in use, what it asks
//!              ◀──     "taken", lines to be shown, the result or the error
//! ```
//!
//! * [`folder`]: where the sockets lie, and whose they must be.
//! * [`message`]: the frame, with its version. What can be asked for is a type of whoever serves
//!   ([`sets::running::protocol`](crate::sets::running::protocol)).
//! * [`server`]: connections, their limits, and what a request began.
//! * [`client`]: who holds these devices, and asking it.

pub mod client;
pub mod folder;
pub mod message;
pub mod server;
