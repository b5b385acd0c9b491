//! tiobench: threads that read and write in sequence and at random.
