//! Properties that came with a stream: what is set here counts before them, what is inherited only where somebody said so.
//!
//! What could break: a received value that comes back though the property was inherited; one that is lost when another is set; a marker
//! that stays and hides what is set.

use super::datasets::{node, task};
use super::{Rig, top};
use std::rc::Rc;
use zfs::dsl::make::Fresh;
use zfs::dsl::property::effective::{Origin, value_text};
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::live::Live;
use zfs::zap::{Zap, table};
use zfs_format::vdev::VdevKind;

const NAME: &str = "tank/a";

/// What counts of a property, and who set it.
async fn counts(live: &Live, property: &str) -> Option<(String, Origin)> {
    let node = node(live, NAME).await;
    let set = node.set.iter().find(|set| set.name == property)?;
    Some((value_text(&set.value), set.origin.clone()))
}

async fn set(live: &Live, of: &str, property: &'static str, value: Option<u64>) {
    let directory = node(live, of).await.directory.number;
    let value = value.map(table::number);
    let done =
        task(live, async |tasks| tasks.set_property(directory, property, value.clone()).await);
    done.await.expect("it is set");
}

async fn revert(live: &Live, property: &'static str) {
    let directory = node(live, NAME).await.directory.number;
    let done = task(live, async |tasks| tasks.revert_property(directory, property).await);
    done.await.expect("it is reverted");
}

/// A stream has brought these: as a receive leaves them.
async fn receive(live: &Live, values: &'static [(&str, u64)]) {
    let properties = node(live, NAME).await.directory.head.properties;
    let done = task(live, async |tasks| {
        let mos = tasks.maker.mos;
        let properties = mos.dnode(properties).await?;
        for (name, value) in values {
            table::set(mos, &properties, name, table::number(*value)).await?;
        }
        Ok(Ok(()))
    });
    done.await.expect("they are there");
    // As who opens the pool finds them.
    live.sync(async |_| Ok(())).await.expect("it is written");
}

async fn marker(live: &Live) -> bool {
    let properties = node(live, NAME).await.directory.head.properties;
    let properties = live.spa().mos().dnode(properties).await.expect("it is there");
    let table = Zap::open(properties).await.expect("it is a table");
    table.get(b"atime$inherit").await.expect("it is read").is_some()
}

#[test]
fn what_was_received_counts_until_something_else_is_said_and_again_when_that_is_taken_back() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let above = node(&live, "tank").await.directory.number;
        let new = NewDataset { name: "a".to_owned(), owner: (0, 0), properties: Vec::new() };
        task(&live, async |tasks| tasks.create(above, &new).await).await.expect("it is made");
        // Without anything received no marker is needed.
        set(&live, NAME, "atime", Some(1)).await;
        set(&live, NAME, "atime", None).await;
        assert_eq!((counts(&live, "atime").await, marker(&live).await), (None, false));
        receive(&live, &[("$hasrecvd", 0), ("atime$recvd", 0), ("quota$recvd", 1 << 30)]).await;
        let received = Some(("0".to_owned(), Origin::Received));
        assert_eq!(counts(&live, "atime").await, received);
        set(&live, NAME, "atime", Some(1)).await;
        assert_eq!(counts(&live, "atime").await, Some(("1".to_owned(), Origin::Local)));
        revert(&live, "atime").await;
        assert_eq!(counts(&live, "atime").await, received, "it was there all the time");
        // Inherited, though something was received.
        set(&live, "tank", "atime", Some(1)).await;
        set(&live, NAME, "atime", None).await;
        let inherited = Some(("1".to_owned(), Origin::Inherited("tank".to_owned())));
        assert_eq!((counts(&live, "atime").await, marker(&live).await), (inherited, true));
        set(&live, NAME, "atime", Some(0)).await;
        assert!(!marker(&live).await, "it hides nothing any more");
        set(&live, NAME, "atime", None).await;
        revert(&live, "atime").await;
        assert_eq!((counts(&live, "atime").await, marker(&live).await), (received, false));
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
