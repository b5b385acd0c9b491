//! Channels, locks and semaphores between tasks.
//!
//! They are tokio's, which need nothing of its run time: wakers are woken in the order of waiting, so
//! they keep the executor's FIFO promise. Semaphores are fair: a large request is not starved by
//! small ones.

pub use tokio::sync::{
    Mutex, MutexGuard, Notify, OwnedMutexGuard, OwnedSemaphorePermit, RwLock, Semaphore,
    SemaphorePermit, mpsc, oneshot, watch,
};
