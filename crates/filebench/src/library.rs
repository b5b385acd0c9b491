//! The personalities that come with Spindle, compiled in.
//!
//! Their names, variables and shapes are the field's; the files, in `workloads/`, are ours.
//! `multistream*` are Solaris's names of what later became `fivestream*`.

/// A personality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Personality {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

impl Personality {
    /// What it is, in a line: the first of its file.
    pub fn title(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.trim_start_matches(['#', ' '])
    }
}

macro_rules! personalities {
    ($($name:literal,)*) => {
        &[$(Personality {
            name: $name,
            text: include_str!(concat!("../../../workloads/", $name, ".f")),
        }),*]
    };
}

/// All of them, by name.
pub const PERSONALITIES: &[Personality] = personalities![
    "compflow_demo",
    "copyfiles",
    "createdelete-swing",
    "createfiles",
    "deletefiles",
    "filemicro_create",
    "filemicro_createfiles",
    "filemicro_createrand",
    "filemicro_delete",
    "filemicro_rread",
    "filemicro_rwrite",
    "filemicro_rwritedsync",
    "filemicro_rwritefsync",
    "filemicro_seqread",
    "filemicro_seqwrite",
    "filemicro_seqwriterand",
    "filemicro_seqwriterandvargam",
    "filemicro_seqwriterandvartab",
    "filemicro_statfile",
    "filemicro_writefsync",
    "fileserver",
    "fivestreamread",
    "fivestreamreaddirect",
    "fivestreamwrite",
    "fivestreamwritedirect",
    "listdirs",
    "makedirs",
    "mongo",
    "multistreamread",
    "multistreamreaddirect",
    "multistreamwrite",
    "multistreamwritedirect",
    "netsfs",
    "networkfs",
    "oltp",
    "openfiles",
    "randomfileaccess",
    "randomread",
    "randomrw",
    "randomwrite",
    "ratelimcopyfiles",
    "removedirs",
    "singlestreamread",
    "singlestreamreaddirect",
    "singlestreamwrite",
    "singlestreamwritedirect",
    "varmail",
    "videoserver",
    "webproxy",
    "webserver",
];

/// The personality of this name, with or without `.f`.
pub fn find(name: &str) -> Option<Personality> {
    let name = name.strip_suffix(".f").unwrap_or(name);
    PERSONALITIES.iter().find(|personality| personality.name == name).copied()
}
