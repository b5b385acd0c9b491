//! How many simulated I/Os a real second carries, on one core, through the executor: what bounds the
//! length of a `lab run`. `cargo run --release -p sim --example rates`
//!
//! This program measures real time, which nothing in the crate itself may.

use rt::{Buf, DeviceRef, Request};
use sim::{Machine, NullDisk, RamDisk, SsdState};
use std::rc::Rc;
use stdx::{ByteCount, MIB, Offset, Prng};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let disk = || Machine::builder(1).drives("hua723030ala640", 1);
    let read = |at: u64| Request::read(Offset(at * 4096), ByteCount(4096));
    let write = |at: u64| Request::write(Offset(at * 4096), Buf::fill(at, 4096));
    let blocks = 1 << 28;
    let mut prng = Prng::new(2);
    let random = move || prng.below(blocks);

    for depth in [1, 32] {
        let mut next = random.clone();
        let machine = disk()?.build();
        run(
            &format!("disk, random 4 KiB reads, depth {depth}"),
            &machine,
            None,
            depth,
            1_000_000,
            move |_| read(next()),
        );
    }
    let mut next = random.clone();
    let machine = disk()?.build();
    run("disk, random 4 KiB writes, cached", &machine, None, 8, 500_000, move |_| write(next()));
    let machine = disk()?.build();
    let mib = |i: u64| Request::read(Offset(i * MIB), ByteCount(MIB));
    run("disk, 1 MiB reads in order", &machine, None, 2, 1_000_000, mib);
    let machine = disk()?.build();
    let mib = |i: u64| Request::write(Offset(i * MIB), Buf::fill(i, MIB as usize));
    run("disk, 1 MiB writes in order, cached", &machine, None, 2, 200_000, mib);
    let mut next = random.clone();
    let machine = disk()?.link("sas-6g-x4")?.controller("hba")?.build();
    run("disk behind link and adapter, random reads", &machine, None, 32, 500_000, move |_| {
        read(next())
    });
    let blocks_ssd = 1 << 27;
    for drive in ["pm9a3", "p4800x"] {
        let mut next = random.clone();
        let machine = Machine::builder(1).drives(drive, 1)?.build();
        let at = move |_| read(next() % (blocks_ssd / 2));
        run(&format!("{drive}, random 4 KiB reads"), &machine, None, 32, 2_000_000, at);
    }
    let mut next = random.clone();
    let machine = Machine::builder(1).ssd_state(SsdState::Random).drives("pm9a3", 1)?.build();
    let at = move |_| write(next() % blocks_ssd);
    run("pm9a3, random 4 KiB writes", &machine, None, 32, 1_000_000, at);

    let machine = Machine::builder(1).build();
    let ram: DeviceRef = Rc::new(RamDisk::new("ram", ByteCount::gib(64)));
    let in_ram = move |i: u64| read(i.wrapping_mul(0x9e37_79b9) % (1 << 24));
    run("RAM disk, random 4 KiB reads", &machine, Some(ram.clone()), 32, 5_000_000, in_ram);
    let in_ram = move |i: u64| write(i.wrapping_mul(0x9e37_79b9) % (1 << 20));
    run("RAM disk, random 4 KiB writes", &machine, Some(ram), 32, 5_000_000, in_ram);
    let null: DeviceRef = Rc::new(NullDisk::new("null", ByteCount::gib(64)));
    run("null disk, 4 KiB reads", &machine, Some(null), 32, 5_000_000, move |i| read(i % 1000));
    Ok(())
}

/// Keeps `depth` tasks busy until `count` requests are answered; prints the rate.
#[allow(clippy::disallowed_methods)] // the one thing that this program is for
fn run(
    what: &str,
    machine: &Machine,
    device: Option<DeviceRef>,
    depth: usize,
    count: u64,
    request: impl FnMut(u64) -> Request + 'static,
) {
    let device = device.unwrap_or_else(|| Rc::clone(&machine.devices()[0]));
    let shared = Rc::new(std::cell::RefCell::new((0, request)));
    let rt = machine.rt();
    let begun = std::time::Instant::now();
    let simulated = rt.now();
    let work = async move {
        let tasks: Vec<_> = (0..depth)
            .map(|_| {
                let (device, shared) = (Rc::clone(&device), Rc::clone(&shared));
                rt.spawn(async move {
                    loop {
                        let next = {
                            let (index, request) = &mut *shared.borrow_mut();
                            *index += 1;
                            (*index <= count).then(|| request((*index - 1) % 2_000_000))
                        };
                        let Some(next) = next else { return };
                        device.submit(next).await.expect("a sound request");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    };
    machine.run(work).expect("no stall");
    let real = begun.elapsed().as_secs_f64();
    let simulated = machine.rt().now().since(simulated).as_secs_f64();
    let rate = count as f64 / real / 1e6;
    println!(
        "{what:45} {rate:7.3} M I/Os a real second ({simulated:.1} s simulated in {real:.2} s)"
    );
}
