//! `spindle serve`: files, block devices, RAID sets, partitions, logical and ZFS volumes over NBD, from a
//! configuration or in one call.
//!
//! The configuration is TOML; a key that is not known is refused by its name:
//!
//! ```toml
//! listen = ["unix:/run/spindle.sock", "127.0.0.1:10809"]    # the default is 127.0.0.1:10809
//! devices = ["/srv/disks"]                                  # where the volumes below lie
//! executors = 2                                             # threads that RAID sets are dealt out to; the default is none
//! tls = { mode = "require", certificates = "/etc/spindle/pki", clients = "required" }
//! memory = "512 MiB"                                        # of all clients' requests; the default is 2 GiB
//!
//! [[export]]
//! name = "disk0"
//! path = "/srv/disk0.img"
//! readonly = false
//! description = "the first disk"
//!
//! [[export]]
//! name = "data"
//! volume = "vg0/data"     # or a RAID set, SET:N, DEVICE:N or GROUP/VOLUME:N for a partition, or a ZFS volume
//! run = true              # also with fewer members than its RAID sets had
//! force = true            # also where its ZFS pool was not exported; with readonly, also RAID sets that take force
//! skip_damaged = true     # with readonly: zeros for what can't be read, or isn't there
//!
//! [[mount]]
//! dataset = "tank/home"   # with all that is below it
//! directory = "/srv/home"
//! readonly = false        # a snapshot is
//! force = false           # also where its pool was not exported
//! snapdir = "hidden"      # or "visible": whether .zfs is listed
//! ```
//!
//! `altroot = "/mnt"` puts the mountpoints of the pools that are held below a directory, for commands that mount by them. `pools =
//! ["tank"]` holds pools of which nothing is served or mounted (yet), for commands and quick answers.
//!
//! The certificates' folder has the names that libnbd and QEMU use: `ca-cert.pem`, `server-cert.pem`,
//! `server-key.pem`.
//!
//! **RAID sets** below volumes that are written are opened for writing, each once for all exports on it,
//! resynchronised and rebuilt beside the serving where they need that, and stopped cleanly at the end. All else is
//! opened for reading.
//!
//! **Pools** of which volumes are written or datasets are mounted for writing are held: their labels say that they are in use until
//! the end, when they are exported. Commands on them are carried out here.
//!
//! **Mounts**: no directory may be within another's, and no dataset that is written in the mount of another: what is below a dataset
//! comes with it. Where there are only mounts, nothing listens.
//!
//! **Several cores.** With `executors` the sets that are written run on as many threads of their own ([`attach::serve::apart`]), beside the
//! one of the connections.
//!
//! **Who is kept off.** What is written has the writer's lock. What is only read has the readers' lock, which many may
//! have and which keeps writers off: a client would never hear of what they change.

use super::carried::carry_out;
use super::zfs::source::ViewArgs;
use crate::events::events;
use crate::output::Failure;
use crate::pools::PoolArgs;
use crate::signals::told_by_signals;
use attach::pools::Queue;
use attach::serve::apart::EXECUTORS_MAX;
use attach::serve::{self, Commands, ExportSettings, MountSettings, Plan};
use attach::typed;
use clap::Args;
use export::nbd::CLIENT_MEMORY;
use export::tls::{Certificates, ClientCertificates, Tls, TlsMode};
use host::Address;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use stdx::ByteCount;

/// Where it listens unless it is told otherwise: the protocol's port, for this machine only.
const LISTEN_DEFAULT: &str = "127.0.0.1:10809";

/// Characters of what the configuration's parser says that are shown.
const COMPLAINT_CHARS_MAX: usize = 300;

// What to serve, and where.
#[derive(Args)]
pub struct ServeCommand {
    /// A file or block device to serve
    #[arg(required_unless_present_any = ["config", "volume"], conflicts_with_all = ["config", "volume"])]
    file: Option<PathBuf>,
    /// Serve what lies on the devices (-d): a RAID set's name, GROUP/VOLUME, SET:N, DEVICE:N or GROUP/VOLUME:N for a partition, or a
    /// ZFS volume, POOL/VOLUME or POOL/VOLUME@SNAPSHOT. May be given several times
    #[arg(long, value_name = "VOLUME", conflicts_with = "config")]
    volume: Vec<String>,
    /// Serve what this file says
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen there: unix:PATH or HOST:PORT [default: 127.0.0.1:10809]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    nbd: Vec<String>,
    /// Refuse writes
    #[arg(long, conflicts_with = "config")]
    readonly: bool,
    /// Start RAID sets below the volume too that lack members they had when they were used last
    #[arg(short = 'R', long, requires = "volume", conflicts_with = "readonly")]
    run: bool,
    /// With --readonly: read RAID sets below the volume too that can only be put together by force; what was written last may be
    /// lost or torn. Without: write to a ZFS volume though its pool was not exported, and another host may have it in use
    #[arg(short, long, requires = "volume")]
    force: bool,
    /// With --readonly: give zeros for what can't be read, so that programs which end at the first error copy the rest; each stretch
    /// is told where it is met, and all of them in the end. So also for what lay on LVM's physical volumes that are missing, or behind
    /// the end of an image that was cut
    #[arg(long, conflicts_with = "config")]
    skip_damaged: bool,
    /// The export's name, by default the volume's as it was given; clients that name none get it too
    #[arg(long, conflicts_with = "config")]
    name: Option<String>,
    /// Memory of all clients' requests together: with less, clients with large requests wait for one another; beyond 2
    /// GiB it is never used [default: 2 GiB]
    #[arg(long, value_name = "SIZE", value_parser = serve::memory, conflicts_with = "config")]
    memory: Option<ByteCount>,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    pools: PoolArgs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    listen: Option<Vec<String>>,
    tls: Option<TlsSettings>,
    #[serde(default, deserialize_with = "memory")]
    memory: Option<ByteCount>,
    #[serde(default)]
    devices: Vec<PathBuf>,
    #[serde(default)]
    executors: usize,
    #[serde(default)]
    pools: Vec<String>,
    altroot: Option<PathBuf>,
    #[serde(default)]
    export: Vec<ExportSettings>,
    #[serde(default)]
    mount: Vec<MountSettings>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsSettings {
    mode: Mode,
    certificates: Option<PathBuf>,
    #[serde(default)]
    clients: Clients,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Off,
    Allow,
    Require,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Clients {
    #[default]
    None,
    Optional,
    Required,
}

/// Serves until a signal ends it.
///
/// # Errors
/// With the line to print.
pub fn run(command: ServeCommand, devices: &[PathBuf]) -> Result<(), Failure> {
    let (view, pools) = (command.view.clone(), command.pools);
    let with = |flag: &str, key: &str| match &command.volume[..] {
        [] => format!("readonly = true and {key} = true for it in the configuration"),
        volumes => {
            let volumes =
                volumes.iter().map(|volume| format!(" --volume {}", typed::quoted(volume)));
            let (spindle, volumes) = (typed::spindle(devices), volumes.collect::<String>());
            let force = if command.force && key != "force" { " --force" } else { "" };
            format!("{spindle} serve{volumes} --readonly{force} {flag}")
        }
    };
    let (by_force, skipping) = (with("--force", "force"), with("--skip-damaged", "skip_damaged"));
    if command.volume.len() > 1 && command.name.is_some() {
        return Err(Failure::usage("--name: several volumes are served, each by its own"));
    }
    let is_one_shot = command.config.is_none() && command.volume.len() <= 1;
    let configuration = match command {
        ServeCommand { config: Some(path), .. } => {
            let read = read(&path)?;
            Configuration { devices: [devices, &read.devices[..]].concat(), ..read }
        }
        ServeCommand {
            file,
            volume,
            nbd,
            readonly,
            run,
            force,
            skip_damaged,
            name,
            memory,
            ..
        } => {
            let export = |path: Option<PathBuf>, volume: Option<String>| ExportSettings {
                name: name.clone().or_else(|| volume.clone()).unwrap_or_default(),
                path,
                volume,
                readonly,
                run,
                force,
                skip_damaged,
                description: String::new(),
            };
            let file = file.map(|file| export(Some(file), None)).into_iter();
            let volumes = volume.into_iter().map(|volume| export(None, Some(volume)));
            Configuration {
                listen: (!nbd.is_empty()).then_some(nbd),
                tls: None,
                memory,
                devices: devices.to_vec(),
                executors: 0,
                pools: Vec::new(),
                altroot: None,
                mount: Vec::new(),
                export: file.chain(volumes).collect(),
            }
        }
    };
    let listen = configuration.listen.unwrap_or_else(|| vec![LISTEN_DEFAULT.into()]);
    let addresses: Result<Vec<Address>, _> = listen.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(Failure::usage)?;
    let tls = configuration.tls.map_or_else(|| Ok(Tls::off()), tls)?;
    let clients = serve::Clients { tls, memory: configuration.memory.unwrap_or(CLIENT_MEMORY) };
    configuration.export.iter().try_for_each(ExportSettings::check)?;
    if configuration.executors > EXECUTORS_MAX {
        let (wanted, most) = (configuration.executors, EXECUTORS_MAX);
        return Err(Failure::usage(format!("executors = {wanted}: {most} is the limit")));
    }
    let plan = Plan {
        devices: configuration.devices,
        exports: configuration.export,
        mounts: configuration.mount,
        pools: configuration.pools.into_iter().map(|pool| (pool, false)).collect(),
        altroot: configuration.altroot,
        executors: configuration.executors,
        options: pools.options(),
        view: view.view(),
        addresses,
        clients,
        ends_with_set: is_one_shot,
        ends_with_mounts: false,
        what: "spindle serve",
    };
    let commands = Commands { queue: Queue::default(), carry_out: &carry_out };
    let served = serve::run(&events(), plan, told_by_signals, |_| Ok(()), commands);
    let mended = |failure: Failure| failure.or_by_force(|| by_force).or_skipping(|| skipping);
    served.map_err(mended)
}

fn memory<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<ByteCount>, D::Error> {
    let text = String::deserialize(from)?;
    let memory = serve::memory(&text);
    memory.map(Some).map_err(|error| serde::de::Error::custom(format!("memory: {error}")))
}

fn read(path: &Path) -> Result<Configuration, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("reading {}: {error}", path.display())))?;
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        // What the parser quotes may be as long as the file.
        let what: String = error.message().chars().take(COMPLAINT_CHARS_MAX).collect();
        Failure::usage(format!("{}: line {line}: {what}", path.display()))
    })
}

fn tls(settings: TlsSettings) -> Result<Tls, Failure> {
    let wrong = |text: &str| Err(Failure::usage(format!("tls: {text}")));
    match (settings.mode, settings.clients) {
        (Mode::Off, Clients::Optional | Clients::Required) => {
            return wrong(
                "clients are to show a certificate, and with mode = \"off\" nobody can; set mode = \"require\"",
            );
        }
        (Mode::Allow, Clients::Required) => {
            return wrong(
                "with mode = \"allow\" whoever comes without TLS gets in without a certificate, and clients = \"required\"; \
                 set mode = \"require\", or clients = \"optional\"",
            );
        }
        _ => {}
    }
    let (mode, clients) = match settings.mode {
        Mode::Off => return Ok(Tls::off()),
        Mode::Allow => (TlsMode::Allow, settings.clients),
        Mode::Require => (TlsMode::Require, settings.clients),
    };
    let Some(folder) = settings.certificates else {
        let text = "tls: name the folder of the certificates (certificates = \"DIR\")";
        return Err(Failure::usage(text));
    };
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path)
            .map_err(|error| Failure::usage(format!("reading {}: {error}", path.display())))
    };
    let (clients, authorities) = match clients {
        Clients::None => (ClientCertificates::None, None),
        Clients::Optional => (ClientCertificates::Optional, Some(file("ca-cert.pem")?)),
        Clients::Required => (ClientCertificates::Required, Some(file("ca-cert.pem")?)),
    };
    let (server, key) = (file("server-cert.pem")?, file("server-key.pem")?);
    let certificates =
        Certificates { authorities: authorities.as_deref(), server: &server, key: &key };
    Tls::new(mode, certificates, clients)
        .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))
}
