//! The executor's thread beside the program that asks: on the same processor.
//!
//! A program that makes small files asks, waits for the answer, and asks again: of it and its server one works at a time. The
//! kernel tends to put them on two processors, and then each question wakes one that sleeps, and each answer another.
//! Measured on two processors of a virtual machine, files of 4 KiB made in a mount, a second: 1 900 on two, 13 000 on one.
//! So while one program asks small questions the thread is bound to the processor where that one runs; the kernel leaves
//! it there as well, or it is followed: where the thread was merely bound to a processor, a program that had come to lie on the other
//! one stayed there, at 1 300 files a second.
//!
//! The thread is freed when [`STRANGERS_MAX`] of [`WINDOW`] questions come from others or move much data (then both have work
//! at a time), and when nobody asked for [`QUIET_MAX`].
//!
//! A thread serves several mounts: what is known of it is the thread's ([`Beside`] is its state, and knows no system; the
//! functions bind).

use crate::processors;
use rt::Rt;
use rustix::thread::Pid;
use std::cell::RefCell;
use std::time::Duration;

/// Questions that are looked at together.
const WINDOW: u32 = 32;
/// So many of them from others, or large, free the thread: with fewer the asker still waits for most.
const STRANGERS_MAX: u32 = 8;
/// Bytes of a question or an answer that are as much work as a wake: copied in some 10 µs.
const LARGE: usize = 64 << 10;
/// The time without a question after which the thread is freed.
const QUIET_MAX: Duration = Duration::from_millis(100);

thread_local! {
    static OF_THREAD: RefCell<Beside> = RefCell::default();
}

/// A program asked.
pub(super) fn asked(rt: &Rt, thread: u32, bytes: usize) {
    // The kernel's own questions, and those of programs that are not to be seen from here.
    let Some(asker) = i32::try_from(thread).ok().and_then(Pid::from_raw) else { return };
    let advice = OF_THREAD.with_borrow_mut(|beside| beside.asked(asker, bytes >= LARGE));
    match advice {
        Advice::Stay => {}
        Advice::Free => processors::as_started(),
        Advice::Follow => follow(rt, asker),
    }
}

/// Something was answered.
pub(super) fn answered(bytes: usize) {
    if bytes >= LARGE && OF_THREAD.with_borrow_mut(Beside::stranger) == Advice::Free {
        processors::as_started();
    }
}

fn follow(rt: &Rt, asker: Pid) {
    let Some(processor) = processors::of(asker) else { return };
    let before = OF_THREAD.with_borrow(|beside| beside.bound);
    if before == Some(processor) || !processors::bind(processor) {
        return;
    }
    OF_THREAD.with_borrow_mut(|beside| beside.bound = Some(processor));
    if before.is_none() {
        let its = rt.clone();
        rt.spawn(async move { free_when_quiet(&its).await }).detach();
    }
}

async fn free_when_quiet(rt: &Rt) {
    while OF_THREAD.with_borrow(|beside| beside.bound.is_some()) {
        let questions = OF_THREAD.with_borrow(|beside| beside.questions);
        rt.sleep(QUIET_MAX).await;
        let free = OF_THREAD.with_borrow_mut(|beside| {
            let is_quiet = beside.bound.is_some() && beside.questions == questions;
            if is_quiet {
                beside.forget();
            }
            is_quiet
        });
        if free {
            processors::as_started();
        }
    }
}

/// What to do after a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advice {
    Stay,
    /// Bind to where the asker runs.
    Follow,
    Free,
}

/// Who asked of late.
#[derive(Default)]
struct Beside {
    asker: Option<Pid>,
    /// To which processor the thread is bound.
    bound: Option<usize>,
    /// Questions of this window, and those among them that another asked or that move much.
    seen: u32,
    strangers: u32,
    /// All there were.
    questions: u64,
}

impl Beside {
    fn asked(&mut self, asker: Pid, is_large: bool) -> Advice {
        self.questions += 1;
        let is_stranger = is_large || self.asker != Some(asker);
        if is_stranger && self.stranger() == Advice::Free {
            self.asker = Some(asker);
            return Advice::Free;
        }
        self.seen += 1;
        if self.seen < WINDOW {
            return Advice::Stay;
        }
        (self.seen, self.strangers) = (0, 0);
        if is_stranger { Advice::Stay } else { Advice::Follow }
    }

    /// Something that speaks against being bound.
    fn stranger(&mut self) -> Advice {
        self.strangers += 1;
        if self.strangers < STRANGERS_MAX {
            return Advice::Stay;
        }
        self.forget();
        Advice::Free
    }

    /// The thread is bound nowhere, and nobody is its asker.
    fn forget(&mut self) {
        *self = Beside { questions: self.questions, ..Beside::default() };
    }
}

#[cfg(test)]
mod tests {
    //! What could break: the thread stays bound for one of several who ask, or for streams; or is never bound because
    //! others ask now and then.

    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).expect("not 0")
    }

    /// Whether the last of these questions leaves the thread bound.
    fn bound_after(questions: impl Iterator<Item = (i32, bool)>) -> bool {
        let mut beside = Beside::default();
        for (asker, is_large) in questions {
            match beside.asked(pid(asker), is_large) {
                Advice::Stay => {}
                Advice::Follow => beside.bound = Some(1),
                Advice::Free => assert_eq!(beside.bound, None),
            }
        }
        beside.bound.is_some()
    }

    #[test]
    fn one_who_asks_is_followed_though_others_ask_now_and_then() {
        assert!(bound_after((0..1000).map(|_| (7, false))));
        assert!(bound_after((0..1000).map(|n| (if n % 10 == 0 { 8 } else { 7 }, false))));
        assert!(bound_after((0..1000).map(|n| (if n < 500 { 8 } else { 7 }, false))));
    }

    #[test]
    fn several_who_ask_and_streams_are_not() {
        assert!(!bound_after((0..1000).map(|n| (n % 2, false)).map(|(n, l)| (n + 1, l))));
        assert!(!bound_after((0..1000).map(|n| (7, n % 3 == 0))));
        assert!(!bound_after((0..1000).map(|n| (7, n >= 500))));
        let mut beside = Beside { bound: Some(1), ..Beside::default() };
        let advice: Vec<Advice> = (0..STRANGERS_MAX).map(|_| beside.stranger()).collect();
        assert_eq!((advice.last(), beside.bound), (Some(&Advice::Free), None));
    }

    #[test]
    fn the_kernel_asks_for_nobody() {
        assert_eq!(Pid::from_raw(0), None);
    }
}
