//! fio: job files, run as they are.
