//! Serving devices and file systems to clients.
//!
//! * [`fuse`]: a server of mounted file systems over any [`rt::Inodes`].
//! * [`nbd`]: a server of the NBD protocol over any [`rt::Device`].
//! * [`tls`]: an encrypted [`rt::Stream`] over another.
//!
//! A server runs on the engine's own executor: a request goes from the socket to the device and back without
//! a hop between threads. It knows neither arrays nor pools, files nor sockets: devices and listeners are
//! handed to it.
//!
//! Invariant: what a client sends can't make the server panic, hold more memory than the limits named in
//! [`fuse`] and [`nbd`], or touch bytes outside of the export it chose.

#![forbid(unsafe_code)]

pub mod fuse;
pub mod nbd;
pub mod tls;
