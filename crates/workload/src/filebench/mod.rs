//! filebench: workloads in WML, run as they are.
