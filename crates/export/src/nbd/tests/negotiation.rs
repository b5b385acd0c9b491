//! What could break: an option that is refused the wrong way and leaves the two out of step, something told
//! before TLS that should not be, a client that never chooses and keeps its place.

use super::client::*;
use crate::nbd::protocol::*;
use crate::nbd::{CONNECTIONS_MAX, HANDSHAKE_MAX, INPUT_BYTES};
use crate::tls::{self, Certificates, ClientCertificates, Tls, TlsMode};
use rt::{Listener, MemoryDevice, Rt, StreamFuture, StreamRef};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::ByteCount;

fn plain(rt: &Rt) -> crate::nbd::Server {
    server(rt, MemoryDevice::new("disk", ByteCount::mib(8)), false, Tls::off())
}

#[test]
fn each_wrong_option_is_refused_by_its_error_and_the_next_is_answered() {
    run(async |rt| {
        let server = plain(&rt);
        let mut client = connect(&rt, &server, 4096);
        client.greet().await;
        let long = vec![b'x'; INPUT_BYTES + 1];
        let mut bad_name = info_option("disk", &[]);
        bad_name[3] = 200;
        let mut bad_text = info_option("disk", &[]);
        bad_text[4] = 0xff;
        let mut endless = context_option("disk", &["base:"]);
        endless[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        for (option, data, error) in [
            (option::LIST, &b"x"[..], reply::ERR_INVALID),
            (option::STRUCTURED_REPLY, b"x", reply::ERR_INVALID),
            (option::STARTTLS, b"x", reply::ERR_INVALID),
            (option::STARTTLS, b"", reply::ERR_UNSUP),
            (option::GO, b"", reply::ERR_INVALID),
            (option::GO, &bad_name, reply::ERR_INVALID),
            (option::INFO, &bad_text, reply::ERR_INVALID),
            (option::GO, &info_option("other", &[]), reply::ERR_UNKNOWN),
            (option::SET_META_CONTEXT, &endless, reply::ERR_INVALID),
            (option::SET_META_CONTEXT, &context_option("disk", &[]), reply::ERR_INVALID),
            (option::LIST, &long, reply::ERR_TOO_BIG),
            (4, b"", reply::ERR_UNSUP),
            (11, b"", reply::ERR_UNSUP),
            (u32::MAX, b"anything", reply::ERR_UNSUP),
        ] {
            let replies = client.option_replies(option, data).await;
            assert_eq!(replies.len(), 1, "option {option}");
            assert_eq!(replies[0].0, error, "option {option}: {replies:?}");
        }
        let listed = client.option_replies(option::LIST, &[]).await;
        assert_eq!(listed[0], (reply::SERVER, b"\0\0\0\x04diska disk".to_vec()));
        client.option_replies(option::STRUCTURED_REPLY, &[]).await;
        let set = client
            .option_replies(
                option::SET_META_CONTEXT,
                &context_option("nosuch", &["base:allocation"]),
            )
            .await;
        assert_eq!(set[0].0, reply::ERR_UNKNOWN);
        for (queries, count) in [(&["base:"][..], 2), (&[], 2), (&["qemu:x"], 1)] {
            let data = context_option("disk", queries);
            let listed = client.option_replies(option::LIST_META_CONTEXT, &data).await;
            assert_eq!(listed.len(), count, "{queries:?}");
        }
    });
}

#[test]
fn info_tells_size_flags_and_block_sizes_and_the_empty_name_is_the_first_export() {
    run(async |rt| {
        let server = plain(&rt);
        let mut client = connect(&rt, &server, 4096);
        client.greet().await;
        let wishes = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 99];
        let told = client.option_replies(option::INFO, &info_option("", &wishes)).await;
        let texts: Vec<&[u8]> = told.iter().map(|(_, data)| &data[..]).collect();
        assert_eq!(texts[0][..10], [0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0]);
        assert_eq!(texts[1], b"\0\x01disk");
        assert_eq!(texts[2], b"\0\x02a disk");
        assert_eq!(texts[3], [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
        assert_eq!(told[4].0, reply::ACK);
    });
}

#[test]
fn an_old_client_gets_an_export_by_its_name_alone() {
    run(async |rt| {
        let server = plain(&rt);
        let mut client = connect(&rt, &server, 4096);
        client.bytes(18).await.expect("a greeting");
        client.send(&0_u32.to_be_bytes()).await.expect("sent");
        client.option(option::EXPORT_NAME, b"disk").await;
        let told = client.bytes(10 + EXPORT_NAME_ZEROES).await.expect("size and flags");
        assert_eq!(told[..8], (8_u64 << 20).to_be_bytes());
        client.send(&request(0, 0, 7, 0, 512)).await.expect("sent");
        let answer = client.answer(|_| 512).await.expect("answered");
        assert_eq!((answer.cookie, answer.error, answer.data.len()), (7, 0, 512));
    });
}

#[test]
fn what_has_no_answer_closes_the_connection() {
    run(async |rt| {
        let server = plain(&rt);
        for (flags, bytes) in [
            (4_u32, &b""[..]),
            (3, b"IHAVEOPX\0\0\0\x03\0\0\0\0"),
            (3, b"IHAVEOPT\0\0\0\x01\0\0\0\x05wrong"),
            (3, b"IHAVEOPT\0\0\0\x03\xff\0\0\0"),
            (0, b"IHAVEOPT\0\0\0\x03\0\0\0\0"),
        ] {
            let mut client = connect(&rt, &server, 4096);
            client.bytes(18).await.expect("a greeting");
            client.send(&flags.to_be_bytes()).await.expect("sent");
            client.send(bytes).await.expect("sent");
            assert!(client.bytes(1).await.is_err(), "{flags} {bytes:?}");
        }
        rt.yield_now().await;
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn a_client_that_never_chooses_is_sent_away_when_its_time_is_over() {
    run(async |rt| {
        let server = plain(&rt);
        let mut client = connect(&rt, &server, 4096);
        client.greet().await;
        let begun = rt.now();
        assert!(client.bytes(1).await.is_err());
        assert_eq!(rt.now().since(begun), HANDSHAKE_MAX);
    });
}

/// Gives these connections, then none.
struct Waiting(RefCell<VecDeque<StreamRef>>);

impl Listener for Waiting {
    fn accept(&self) -> StreamFuture<StreamRef> {
        match self.0.borrow_mut().pop_front() {
            Some(stream) => Box::pin(std::future::ready(Ok(stream))),
            None => Box::pin(std::future::pending()),
        }
    }

    fn name(&self) -> Rc<str> {
        "waiting".into()
    }
}

#[test]
fn connections_beyond_the_limit_wait_until_others_leave() {
    run(async |rt| {
        let server = plain(&rt);
        let (ours, theirs): (Vec<_>, VecDeque<_>) =
            (0..CONNECTIONS_MAX + 3).map(|_| rt::pipe(100)).unzip();
        let listener = Rc::new(Waiting(RefCell::new(theirs)));
        let listening = rt.spawn({
            let (server, listener) = (server.clone(), Rc::clone(&listener));
            async move { server.listen(listener).await }
        });
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!((server.connections(), listener.0.borrow().len()), (CONNECTIONS_MAX, 3));
        let mut ours = ours;
        drop(ours.drain(..2));
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!((server.connections(), listener.0.borrow().len()), (CONNECTIONS_MAX, 1));
        server.stop();
        assert_eq!(listening.await, Ok(()), "stopping ends listening");
        server.drained().await.expect("flushed");
    });
}

struct Pki {
    authority: String,
    server: String,
    key: String,
    client: (CertificateDer<'static>, PrivateKeyDer<'static>),
}

fn pki() -> Pki {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let authority_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).expect("signed").pem();
    let issuer = Issuer::new(params, authority_key);
    let issue = |name: &str| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        (params.signed_by(&key, &issuer).expect("signed"), key)
    };
    let (server, key) = issue("localhost");
    let (client, client_key) = issue("client");
    let client_key = PrivateKeyDer::try_from(client_key.serialize_der()).expect("a key");
    Pki {
        authority,
        server: server.pem(),
        key: key.serialize_pem(),
        client: (client.der().clone(), client_key),
    }
}

fn tls_of(pki: &Pki, mode: TlsMode, clients: ClientCertificates) -> Tls {
    let certificates = Certificates {
        authorities: Some(pki.authority.as_bytes()),
        server: pki.server.as_bytes(),
        key: pki.key.as_bytes(),
    };
    Tls::new(mode, certificates, clients).expect("good settings")
}

/// Goes on inside TLS, with a certificate or without.
async fn encrypt(client: Client, pki: &Pki, certified: bool) -> Option<Client> {
    use rustls::pki_types::pem::PemObject;
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(pki.authority.as_bytes()).expect("a PEM");
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = if certified {
        let (certificate, key) = (pki.client.0.clone(), pki.client.1.clone_key());
        builder.with_client_auth_cert(vec![certificate], key).expect("a certificate")
    } else {
        builder.with_no_client_auth()
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let stream = tls::shake_hands(stream_of(&client), connection.into()).await.ok()?;
    Some(Client { inbox: crate::nbd::inbox::Inbox::new(stream) })
}

#[test]
fn where_tls_is_required_nothing_is_told_before_and_megabytes_pass_after() {
    run(async |rt| {
        let pki = pki();
        let disk = MemoryDevice::new("disk", ByteCount::mib(8));
        let tls = tls_of(&pki, TlsMode::Require, ClientCertificates::Required);
        let server = server(&rt, Rc::clone(&disk) as _, false, tls);
        let mut client = connect(&rt, &server, 10_000);
        client.greet().await;
        for option in [option::LIST, option::GO, option::STRUCTURED_REPLY, 99] {
            let replies = client.option_replies(option, &info_option("disk", &[])).await;
            assert_eq!(replies[0].0, reply::ERR_TLS_REQD, "option {option}");
        }
        assert_eq!(client.option_replies(option::STARTTLS, &[]).await[0].0, reply::ACK);
        let mut client = encrypt(client, &pki, true).await.expect("a good certificate");
        assert_eq!(client.option_replies(option::STARTTLS, &[]).await[0].0, reply::ERR_INVALID);
        let go = client.option_replies(option::GO, &info_option("disk", &[])).await;
        assert_eq!(go.last().expect("a reply").0, reply::ACK);
        let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        client.send(&request(1, 0, 1, 4096, 3_000_000)).await.expect("sent");
        client.send(&data).await.expect("sent");
        assert_eq!(client.answer(|_| 0).await.expect("answered").error, 0);
        client.send(&request(0, 0, 2, 4096, 3_000_000)).await.expect("sent");
        assert!(client.answer(|_| 3_000_000).await.expect("answered").data == data);
    });
}

#[test]
fn a_client_without_a_certificate_comes_in_only_where_it_need_have_none() {
    run(async |rt| {
        let pki = pki();
        for (clients, welcome) in [
            (ClientCertificates::None, true),
            (ClientCertificates::Optional, true),
            (ClientCertificates::Required, false),
        ] {
            let disk = MemoryDevice::new("disk", ByteCount::mib(8));
            let server = server(&rt, disk, false, tls_of(&pki, TlsMode::Allow, clients));
            let mut client = connect(&rt, &server, 10_000);
            client.greet().await;
            client.option_replies(option::STARTTLS, &[]).await;
            // In TLS 1.3 a client learns that it was refused when it next reads.
            let came_in = match encrypt(client, &pki, false).await {
                None => false,
                Some(mut client) => {
                    client.option(option::LIST, &[]).await;
                    client.option_reply(option::LIST).await.is_ok()
                }
            };
            assert_eq!(came_in, welcome, "{clients:?}");
        }
    });
}

#[test]
fn plain_bytes_sent_behind_starttls_are_never_taken_for_encrypted_ones() {
    run(async |rt| {
        let pki = pki();
        let disk = MemoryDevice::new("disk", ByteCount::mib(8));
        let tls = tls_of(&pki, TlsMode::Allow, ClientCertificates::None);
        let server = server(&rt, disk, false, tls);
        let mut client = connect(&rt, &server, 10_000);
        client.greet().await;
        client.send(b"IHAVEOPT\0\0\0\x05\0\0\0\0IHAVEOPT\0\0\0\x03\0\0\0\0").await.expect("sent");
        assert_eq!(client.option_reply(option::STARTTLS).await.expect("answered").0, reply::ACK);
        assert!(client.bytes(1).await.is_err(), "closed");
    });
}
