//! What could break: a handshake that goes on where a server breaks the rules, an answer that is believed, a refusal
//! that does not say which it is.

use super::by_hand::ByHand;
use super::{ALL, SIZE};
use crate::nbd::client::{Client, ClientError, ClientOptions, MalformedOption};
use crate::nbd::inbox::Inbox;
use crate::nbd::protocol::{info, option, option_reply, reply};
use crate::nbd::tests::client::run;
use rt::StreamError;
use stdx::ByteCount;

#[test]
fn a_handshake_that_breaks_the_rules_or_refuses_is_an_error_that_says_so() {
    let head = b"NBDMAGICIHAVEOPT\0\x03";
    let told = |option, kind, data: &[u8]| {
        let mut out = Vec::new();
        option_reply(&mut out, option, kind, data);
        out
    };
    // Structured replies are refused; then GO is answered by this.
    let go = |replies: &[(u32, &[u8])]| {
        let mut out = head.to_vec();
        out.extend(told(option::STRUCTURED_REPLY, reply::ERR_UNSUP, b""));
        replies.iter().for_each(|(kind, data)| out.extend(told(option::GO, *kind, data)));
        out
    };
    let export = |size: u64, flags: u16| {
        [&info::EXPORT.to_be_bytes()[..], &size.to_be_bytes(), &flags.to_be_bytes()].concat()
    };
    let sizes = |min: u32, preferred: u32, max: u32| {
        let sizes = [min, preferred, max].map(u32::to_be_bytes);
        [&info::BLOCK_SIZE.to_be_bytes(), sizes.as_flattened()].concat()
    };
    let good = export(SIZE, ALL);
    let sized = |min, preferred, max| {
        go(&[(reply::INFO, &good), (reply::INFO, &sizes(min, preferred, max)), (reply::ACK, &[])])
    };
    let wrong_sizes = |min, preferred, max| {
        ClientError::from(MalformedOption::BlockSizes { min, preferred, max })
    };
    let mut no_magic = head.to_vec();
    no_magic.extend([0; 20]);
    let mut endless = go(&[]);
    for _ in 0..100 {
        endless.extend(told(option::GO, reply::INFO, &good));
    }
    let mut huge = go(&[]);
    huge.extend(told(option::GO, reply::INFO, &[]));
    let len = huge.len();
    huge[len - 4..].copy_from_slice(&u32::MAX.to_be_bytes());
    let is_unknown =
        |text: &str| ClientError::NoSuchExport { export: String::new(), text: text.into() };
    for (bytes, error) in [
        (b"SSH-2.0-OpenSSH_9.2 and so on".to_vec(), ClientError::NotNbd),
        (b"NBDMAGIC\x00\x00\x42\x02\x81\x86\x12\x53and so on".to_vec(), ClientError::Oldstyle),
        (b"NBDMAGICIHAVEOPT\0\0".to_vec(), ClientError::Oldstyle),
        (b"NBDMAG".to_vec(), ClientError::Stream(StreamError::Gone)),
        (no_magic, MalformedOption::Magic.into()),
        (
            [&head[..], &told(option::GO, reply::ACK, &[])].concat(),
            MalformedOption::OtherOption.into(),
        ),
        (
            [&head[..], &told(option::STRUCTURED_REPLY, reply::SERVER, &[])].concat(),
            MalformedOption::Kind.into(),
        ),
        (
            [&head[..], &told(option::STRUCTURED_REPLY, reply::ACK, &[1])].concat(),
            MalformedOption::Len.into(),
        ),
        (
            [&head[..], &told(option::STRUCTURED_REPLY, reply::ERR_TLS_REQD, &[])].concat(),
            ClientError::NeedsTls,
        ),
        (go(&[(reply::ERR_UNKNOWN, b"not\x1b[2J here")]), is_unknown("not[2J here")),
        (go(&[(reply::ERR_UNSUP, b"")]), ClientError::Oldstyle),
        (
            go(&[(reply::ERR_TOO_BIG, b"x")]),
            ClientError::Refused { option: option::GO, kind: reply::ERR_TOO_BIG, text: "x".into() },
        ),
        (go(&[(reply::ACK, &[])]), MalformedOption::NoExport.into()),
        (go(&[(reply::INFO, &[0])]), MalformedOption::Len.into()),
        (go(&[(reply::INFO, &good[..11])]), MalformedOption::Len.into()),
        (go(&[(reply::SERVER, &[])]), MalformedOption::Kind.into()),
        (
            go(&[(reply::INFO, &export(SIZE, 0)), (reply::ACK, &[])]),
            MalformedOption::Flags(0).into(),
        ),
        (
            go(&[(reply::INFO, &export(1 << 63, 1)), (reply::ACK, &[])]),
            MalformedOption::Size(1 << 63).into(),
        ),
        (
            go(&[(reply::INFO, &export(511, 1)), (reply::ACK, &[])]),
            ClientError::TooSmall { size: ByteCount(511), block: ByteCount(512) },
        ),
        (sized(0, 4096, 8192), wrong_sizes(0, 4096, 8192)),
        (sized(3, 4096, 8192), wrong_sizes(3, 4096, 8192)),
        (sized(1 << 17, 1 << 17, 1 << 20), wrong_sizes(1 << 17, 1 << 17, 1 << 20)),
        (sized(512, 100, 8192), wrong_sizes(512, 100, 8192)),
        (sized(4096, 4096, 100), wrong_sizes(4096, 4096, 100)),
        (endless, MalformedOption::TooMany.into()),
        (huge, MalformedOption::Len.into()),
    ] {
        run(async move |rt| {
            let (ours, theirs) = rt::pipe(1 << 20);
            let by_hand = ByHand { inbox: Inbox::new(theirs) };
            by_hand.send(&bytes).await;
            by_hand.inbox.stream().shutdown().await.expect("ended");
            let end = Client::connect(&rt, ours, &ClientOptions::default()).await;
            assert_eq!(end.err(), Some(error));
        });
    }
}

#[test]
fn a_server_that_never_speaks_is_given_up() {
    run(async |rt| {
        let (ours, _theirs) = rt::pipe(4096);
        let end = Client::connect(&rt, ours, &ClientOptions::default()).await;
        assert_eq!(end.err(), Some(ClientError::TimedOut));
        let options = ClientOptions { export: "x".repeat(4097), ..ClientOptions::default() };
        let end = Client::connect(&rt, rt::pipe(1).0, &options).await;
        assert_eq!(end.err(), Some(ClientError::NameTooLong(4097)));
    });
}
