//! bonnie++: how fast one process writes, rewrites, reads, seeks, and makes and removes files.
