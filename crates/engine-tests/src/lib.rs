//! Nothing: a package has to have a library or a program. Its tests are [named in the manifest](../Cargo.toml), and lie in the folders of
//! the engines that they test.

#![forbid(unsafe_code)]
