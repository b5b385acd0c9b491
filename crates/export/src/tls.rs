//! TLS over a stream: rustls makes and takes the records, our streams carry them.
//!
//! **Settings** are the bytes of PEM files; who reads the files is not decided here. The modes: `Off`, `Allow`
//! (the client chooses) and `Require` (nothing is told before TLS but that it is asked for). Clients are
//! asked for a certificate of the given authority, or not; who is asked and has none may come in where that
//! is only `Optional`. Version 1.3 only.
//!
//! **Order.** Records must leave in the order in which rustls made them, and a read may make some (an answer
//! to a change of keys). So whoever writes takes a lock, and takes records from rustls only under it.
//!
//! **Limits.** rustls holds one record (16 KiB and a little) that is not whole yet, and what was decrypted;
//! it is given more only when all of that was taken. Plain text to be sent is
//! handed over in steps of `STEP_BYTES`.
//!
//! The random numbers and the hour that certificates are held against come from the operating system: keys
//! that follow from a seed would be none. So a run with TLS is not the same each time.

use rt::sync::{Mutex, Semaphore, SemaphorePermit};
use rt::{Buf, BufMut, HungUp, NoMemory, Rt, SgList, Stream, StreamError, StreamFuture, StreamRef};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{Connection, RootCertStore, ServerConfig, ServerConnection};
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::Arc;

/// Plain text that is encrypted before it is sent. More makes fewer calls; it is memory twice over.
const STEP_BYTES: usize = 64 << 10;

/// Encrypted bytes read at a time: a largest record.
const RECORD_BYTES: usize = (16 << 10) + 256;

/// Whether clients may or must encrypt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS.
    #[default]
    Off,
    /// As the client likes.
    Allow,
    /// Only with TLS.
    Require,
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    None,
    /// They are asked; one that is shown must be good.
    Optional,
    /// They must.
    Required,
}

/// Certificates as PEM files have them.
#[derive(Clone, Copy, Debug)]
pub struct Certificates<'a> {
    /// Authorities that sign clients' certificates; needed only where clients are asked.
    pub authorities: Option<&'a [u8]>,
    /// The server's certificate and what leads from it to its authority.
    pub server: &'a [u8],
    /// The server's private key.
    pub key: &'a [u8],
}

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file without what it should have.
    #[error("reading the {what} as PEM: {reason}")]
    Pem {
        /// Which.
        what: &'static str,
        /// What the reader says.
        reason: String,
    },
    /// Clients are asked for certificates, and there is nobody to vouch for them.
    #[error("clients are asked for certificates, and there is no authority's (ca-cert.pem)")]
    NoAuthority,
    /// Clients must show a certificate, and may come without TLS, where nobody shows any.
    #[error(
        "clients must show a certificate, and TLS is not required of them: whoever comes without it would get in without one"
    )]
    NotRequired,
    /// They don't fit together.
    #[error("setting up TLS: {0}")]
    Refused(String),
}

/// TLS as a server is set up for it.
#[derive(Clone, Default)]
pub struct Tls {
    mode: TlsMode,
    config: Option<Arc<ServerConfig>>,
}

impl Tls {
    /// No TLS.
    pub fn off() -> Tls {
        Tls::default()
    }

    /// TLS with these certificates.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(
        mode: TlsMode,
        certificates: Certificates<'_>,
        clients: ClientCertificates,
    ) -> Result<Tls, TlsError> {
        if clients == ClientCertificates::Required && mode != TlsMode::Require {
            return Err(TlsError::NotRequired);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let refused = |error: &dyn std::fmt::Display| TlsError::Refused(error.to_string());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| refused(&error))?;
        let builder = match clients {
            ClientCertificates::None => builder.with_no_client_auth(),
            _ => {
                let mut roots = RootCertStore::empty();
                let authorities = certificates.authorities.ok_or(TlsError::NoAuthority)?;
                for authority in chain("authority's certificate", authorities)? {
                    roots.add(authority).map_err(|error| refused(&error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match clients {
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|e| refused(&e))?)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(certificates.key)
            .map_err(|error| TlsError::Pem { what: "server's key", reason: error.to_string() })?;
        let server = chain("server's certificate", certificates.server)?;
        let mut config = builder.with_single_cert(server, key).map_err(|error| refused(&error))?;
        // Resuming sessions saves little on connections that live for days.
        config.send_tls13_tickets = 0;
        Ok(Tls { mode, config: Some(Arc::new(config)) })
    }

    /// Whether clients may or must encrypt.
    pub fn mode(&self) -> TlsMode {
        self.mode
    }

    pub(crate) fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.clone()
    }
}

fn chain(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let wrong = |reason: String| TlsError::Pem { what, reason };
    match found {
        Ok(chain) if chain.is_empty() => Err(wrong("there is none in it".into())),
        Ok(chain) => Ok(chain),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The turn of one of many to do something for which all else waits, as the next step of a handshake: it signs or checks
/// a signature, which takes up to some milliseconds. Who has it lets others run before it gives it on, so that any number
/// takes half of the executor's time at the most.
pub(crate) struct Turn {
    one: Semaphore,
    rt: Rt,
}

impl Turn {
    pub(crate) fn new(rt: &Rt) -> Turn {
        Turn { one: Semaphore::new(1), rt: rt.clone() }
    }

    pub(crate) async fn wait(&self) -> SemaphorePermit<'_> {
        self.one.acquire().await.expect("nobody closes the semaphore")
    }
}

/// Does the server's part of the handshake over `stream`; what it gives back is inside TLS.
pub(crate) async fn accept(
    stream: StreamRef,
    config: Arc<ServerConfig>,
    turn: &Turn,
) -> Result<StreamRef, StreamError> {
    let connection = ServerConnection::new(config).map_err(|_| StreamError::Protocol)?;
    shake_hands(stream, connection.into(), Some(turn)).await
}

/// Does one side's part of the handshake over `stream`.
pub(crate) async fn shake_hands(
    stream: StreamRef,
    connection: Connection,
    turn: Option<&Turn>,
) -> Result<StreamRef, StreamError> {
    let inside = Rc::new(Inside {
        stream,
        connection: RefCell::new(connection),
        ahead: Cell::new(Buf::empty()),
        sending: Mutex::new(()),
    });
    while inside.connection.borrow().is_handshaking() {
        inside.send_records().await?;
        if !inside.connection.borrow().is_handshaking() {
            break;
        }
        if !inside.receive().await? {
            return Err(StreamError::Gone);
        }
        match turn {
            None => inside.take_records().await?,
            Some(turn) => {
                let _one = turn.wait().await;
                inside.take_records().await?;
                turn.rt.yield_now().await;
            }
        }
    }
    inside.send_records().await?;
    Ok(Rc::new(TlsStream(inside)))
}

/// One end of an encrypted stream.
struct TlsStream(Rc<Inside>);

struct Inside {
    stream: StreamRef,
    connection: RefCell<Connection>,
    /// What was read and rustls has not been given.
    ahead: Cell<Buf>,
    sending: Mutex<()>,
}

impl Inside {
    /// Sends the records that rustls has made.
    async fn send_records(&self) -> Result<(), StreamError> {
        let _order = self.sending.lock().await;
        loop {
            let mut records = Vec::new();
            {
                let mut connection = self.connection.borrow_mut();
                while connection.wants_write() && records.len() < STEP_BYTES {
                    // A vector takes all.
                    connection.write_tls(&mut records).map_err(|_| StreamError::Protocol)?;
                }
            }
            if records.is_empty() {
                return Ok(());
            }
            self.stream.write(Buf::copy_of(&records).into()).await?;
        }
    }

    /// Gives rustls some of what the peer sent; false at the end. Called only when all that was decrypted
    /// has been taken: rustls refuses more than a record's worth.
    async fn receive_records(&self) -> Result<bool, StreamError> {
        if !self.receive().await? {
            return Ok(false);
        }
        self.take_records().await?;
        Ok(true)
    }

    /// Sees to it that there is something that rustls has not been given; false at the end.
    async fn receive(&self) -> Result<bool, StreamError> {
        let mut ahead = self.ahead.replace(Buf::empty());
        if ahead.is_empty() {
            let lent = BufMut::try_for_overwrite(RECORD_BYTES);
            let lent = lent.map_err(|NoMemory| StreamError::NoResources)?;
            let (buf, count) = self.stream.read(lent, 0).await?;
            if count == 0 {
                return Ok(false);
            }
            ahead = buf.freeze().slice(0..count);
        }
        self.ahead.replace(ahead);
        Ok(true)
    }

    /// Gives rustls what was received.
    async fn take_records(&self) -> Result<(), StreamError> {
        let ahead = self.ahead.replace(Buf::empty());
        let mut rest = ahead.bytes();
        let good = {
            let mut connection = self.connection.borrow_mut();
            matches!(connection.read_tls(&mut rest), Ok(taken) if taken > 0)
                && connection.process_new_packets().is_ok()
        };
        if !good {
            // The peer is told why, where it still listens.
            let _ = self.send_records().await;
            return Err(StreamError::Protocol);
        }
        self.ahead.replace(ahead.slice(ahead.len() - rest.len()..ahead.len()));
        Ok(())
    }
}

impl Stream for TlsStream {
    fn read(&self, into: BufMut, from: usize) -> StreamFuture<(BufMut, usize)> {
        assert!(from < into.len(), "a read has room for a byte");
        let inside = Rc::clone(&self.0);
        Box::pin(async move {
            let mut into = into;
            loop {
                let read = inside.connection.borrow_mut().reader().read(&mut into[from..]);
                match read {
                    Ok(count) => return Ok((into, count)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return Err(StreamError::Gone),
                }
                if !inside.receive_records().await? {
                    // Without the word of goodbye it may have been cut: as good as gone.
                    return Ok((into, 0));
                }
                if inside.connection.borrow().wants_write() {
                    inside.send_records().await?;
                }
            }
        })
    }

    fn write(&self, data: SgList) -> StreamFuture<()> {
        let inside = Rc::clone(&self.0);
        Box::pin(async move {
            for piece in data.pieces() {
                let mut rest = piece.bytes();
                while !rest.is_empty() {
                    let step = &rest[..rest.len().min(STEP_BYTES)];
                    let taken = inside.connection.borrow_mut().writer().write(step);
                    let taken = taken.map_err(|_| StreamError::Protocol)?;
                    rest = &rest[taken..];
                    inside.send_records().await?;
                }
            }
            Ok(())
        })
    }

    fn shutdown(&self) -> StreamFuture<()> {
        let inside = Rc::clone(&self.0);
        Box::pin(async move {
            inside.connection.borrow_mut().send_close_notify();
            inside.send_records().await?;
            inside.stream.shutdown().await
        })
    }

    fn hung_up(&self) -> HungUp {
        self.0.stream.hung_up()
    }

    fn peer(&self) -> Rc<str> {
        self.0.stream.peer()
    }
}
