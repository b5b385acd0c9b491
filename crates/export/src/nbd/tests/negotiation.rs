//! What could break: an option that is refused the wrong way and leaves the two out of step, something told
//! before TLS that should not be, a client that never chooses and keeps its place.

use super::client::*;
use crate::nbd::protocol::*;
use crate::nbd::{
    CONNECTIONS_MAX, HANDSHAKE_MAX, HANDSHAKES_MAX, INPUT_BYTES, OPTIONS_MAX, PLACE_WAIT_MAX,
    STRANGER_MAX,
};
use crate::tls::{self, Certificates, ClientCertificates, Tls, TlsMode};
use rt::sync::Notify;
use rt::{Listener, MemoryDevice, Rt, StreamError, StreamFuture, StreamRef};
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
            if error == reply::ERR_UNKNOWN {
                let text = String::from_utf8(replies[0].1.clone()).expect("text");
                assert_eq!(text, "there is no such export; there are 'disk'");
            }
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
        assert_eq!(rt.now().since(begun), STRANGER_MAX, "it has not said a thing");
        let mut client = connect(&rt, &server, 4096);
        client.greet().await;
        let begun = rt.now();
        client.option_replies(option::LIST, &[]).await;
        assert!(client.bytes(1).await.is_err());
        assert_eq!(rt.now().since(begun), HANDSHAKE_MAX);
    });
}

/// A server that listens for clients that come one after another.
fn listening(rt: &Rt, server: &crate::nbd::Server) -> Rc<Coming> {
    let coming = Rc::new(Coming::default());
    let (server, listener) = (server.clone(), Rc::clone(&coming));
    rt.spawn(async move { server.listen(listener).await.expect("it listens until it stops") })
        .detach();
    coming
}

/// Clients on their way to a server.
#[derive(Default)]
struct Coming {
    streams: RefCell<VecDeque<StreamRef>>,
    came: Rc<Notify>,
}

impl Coming {
    fn client(&self) -> Client {
        let (ours, theirs) = rt::pipe(4096);
        self.streams.borrow_mut().push_back(theirs);
        self.came.notify_one();
        Client { inbox: crate::nbd::inbox::Inbox::new(ours) }
    }
}

impl Listener for Coming {
    fn accept(&self) -> StreamFuture<StreamRef> {
        if let Some(stream) = self.streams.borrow_mut().pop_front() {
            return Box::pin(std::future::ready(Ok(stream)));
        }
        let came = Rc::clone(&self.came);
        Box::pin(async move {
            came.notified().await;
            Err(StreamError::Gone)
        })
    }

    fn name(&self) -> Rc<str> {
        "coming".into()
    }
}

#[test]
fn clients_beyond_the_limit_are_greeted_wait_for_a_place_and_are_refused_in_the_end() {
    run(async |rt| {
        let server = plain(&rt);
        let coming = listening(&rt, &server);
        let mut served = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let mut client = coming.client();
            client.go(false).await;
            served.push(client);
        }
        let mut one_more = coming.client();
        one_more.greet().await;
        assert_eq!(one_more.option_replies(option::LIST, &[]).await.len(), 2, "it may look");
        let begun = rt.now();
        let refused = one_more.option_replies(option::GO, &info_option("disk", &[])).await;
        assert_eq!(refused[0].0, reply::ERR_POLICY, "{refused:?}");
        assert_eq!(rt.now().since(begun), PLACE_WAIT_MAX);
        one_more.option(option::GO, &info_option("disk", &[])).await;
        rt.sleep(Duration::from_secs(1)).await;
        let left = rt.now();
        served.pop();
        let welcome = one_more.option_reply(option::GO).await.expect("answered");
        assert_eq!((welcome.0, rt.now()), (reply::INFO, left), "as soon as one leaves");
    });
}

#[test]
fn however_many_sit_there_in_silence_who_comes_is_greeted_at_once_and_served() {
    run(async |rt| {
        let server = plain(&rt);
        let coming = listening(&rt, &server);
        let mut served = coming.client();
        served.go(false).await;
        let mut silent: Vec<Client> = (0..5 * HANDSHAKES_MAX).map(|_| coming.client()).collect();
        let begun = rt.now();
        rt.sleep(Duration::from_millis(1)).await;
        assert!(server.connections() <= HANDSHAKES_MAX + 1, "and they are bounded");
        let mut client = coming.client();
        client.go(false).await;
        client.send(&request(0, 0, 7, 0, 512)).await.expect("sent");
        assert_eq!(client.answer(|_| 512).await.expect("answered").error, 0);
        assert!(rt.now().since(begun) < Duration::from_secs(1));
        served.send(&request(0, 0, 8, 0, 512)).await.expect("sent");
        assert_eq!(served.answer(|_| 512).await.expect("nobody served is sent away").error, 0);
        let first = silent.first_mut().expect("there are many");
        first.bytes(18).await.expect("a greeting");
        assert!(first.bytes(1).await.is_err(), "who came first is sent away");
    });
}

#[test]
fn a_long_list_is_whole_and_options_have_an_end() {
    run(async |rt| {
        let disk = MemoryDevice::new("disk", ByteCount::mib(8));
        let exports = (0..200).map(|n| crate::nbd::Export {
            name: format!("{n:0>2000}"),
            description: "d".repeat(2000),
            device: Rc::clone(&disk) as _,
            read_only: true,
        });
        let server = crate::nbd::Server::new(&rt, exports.collect(), Tls::off()).expect("a server");
        let mut client = connect(&rt, &server, 4096);
        client.greet().await;
        let listed = client.option_replies(option::LIST, &[]).await;
        assert_eq!(listed.len(), 201);
        assert!(
            listed[..200].iter().all(|(kind, data)| (*kind, data.len()) == (reply::SERVER, 4004))
        );
        let mut answered = 1;
        loop {
            client.option(option::STRUCTURED_REPLY, &[]).await;
            match client.option_reply(option::STRUCTURED_REPLY).await {
                Ok(_) => answered += 1,
                Err(_) => break,
            }
            if answered > OPTIONS_MAX {
                break;
            }
        }
        assert_eq!(answered, OPTIONS_MAX);
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
    let stream = tls::shake_hands(stream_of(&client), connection.into(), None).await.ok()?;
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
            let server = server(&rt, disk, false, tls_of(&pki, TlsMode::Require, clients));
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
fn certificates_that_who_comes_without_tls_need_not_show_are_no_setting() {
    let pki = pki();
    for mode in [TlsMode::Off, TlsMode::Allow] {
        let certificates = Certificates {
            authorities: Some(pki.authority.as_bytes()),
            server: pki.server.as_bytes(),
            key: pki.key.as_bytes(),
        };
        let made = Tls::new(mode, certificates, ClientCertificates::Required);
        assert!(matches!(made, Err(tls::TlsError::NotRequired)), "{mode:?}");
    }
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
