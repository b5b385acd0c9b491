//! The server beside a client that speaks the protocol by hand, over a pipe in memory, in virtual time.
//!
//! * `client`: the client, and devices that misbehave.
//! * `negotiation`: options, right and wrong; time-out; TLS.
//! * `requests`: each kind of malformed request; limits; stopping.
//! * `scripts`: random scripts against a model, random bytes against everything.

pub(in crate::nbd) mod client;
mod negotiation;
mod requests;
mod scripts;
