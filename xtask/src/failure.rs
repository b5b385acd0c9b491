//! Why a command of this tool did not do what it should.

/// Why a command did not do what it should.
#[derive(Debug)]
pub enum Failure {
    /// It was tried and failed; one line says why.
    Failed(String),
    /// It was called wrongly.
    Usage(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Failure {
        Failure::Failed(reason)
    }
}
