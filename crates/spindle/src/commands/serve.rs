//! `spindle serve`: files, block devices, RAID sets, partitions, logical and ZFS volumes over NBD, from a
//! configuration or in one call.
//!
//! The configuration is TOML; a key that is not known is refused by its name:
//!
//! ```toml
//! listen = ["unix:/run/spindle.sock", "127.0.0.1:10809"]    # the default is 127.0.0.1:10809
//! devices = ["/srv/disks"]                                  # where the volumes below lie
//! tls = { mode = "require", certificates = "/etc/spindle/pki", clients = "required" }
//!
//! [[export]]
//! name = "disk0"
//! path = "/srv/disk0.img"
//! readonly = false
//! description = "the first disk"
//!
//! [[export]]
//! name = "data"
//! volume = "vg0/data"     # or a RAID set's name, DEVICE:N for a partition, or a ZFS volume (readonly)
//! ```
//!
//! The certificates' folder has the names that libnbd and QEMU use: `ca-cert.pem`, `server-cert.pem`,
//! `server-key.pem`.

use crate::commands::zfs::source::{Session, ViewArgs};
use crate::commands::{Failure, say};
use crate::disks::{Disks, Opened};
use crate::pools::{Pools, pool_of};
use crate::serve;
use clap::Args;
use export::nbd::Export;
use export::tls::{Certificates, ClientCertificates, Tls, TlsMode};
use host::{Address, FileDevice, FileOptions};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Where it listens unless it is told otherwise: the protocol's port, for this machine only.
const LISTEN_DEFAULT: &str = "127.0.0.1:10809";

/// What to serve, and where.
#[derive(Args)]
pub struct ServeCommand {
    /// A file or block device to serve
    #[arg(required_unless_present_any = ["config", "volume"], conflicts_with_all = ["config", "volume"])]
    file: Option<PathBuf>,
    /// Serve what lies on the devices (-d): a RAID set's name, GROUP/VOLUME, DEVICE:N for a partition, or a ZFS
    /// volume, POOL/VOLUME or POOL/VOLUME@SNAPSHOT, which can only be read
    #[arg(long, value_name = "VOLUME", conflicts_with = "config")]
    volume: Option<String>,
    /// Serve what this file says
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen there: unix:PATH or HOST:PORT [default: 127.0.0.1:10809]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    nbd: Vec<String>,
    /// Refuse writes
    #[arg(long, conflicts_with = "config")]
    readonly: bool,
    /// The export's name; clients that name none get it too
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "config")]
    name: String,
    #[command(flatten)]
    view: ViewArgs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    listen: Option<Vec<String>>,
    tls: Option<TlsSettings>,
    #[serde(default)]
    devices: Vec<PathBuf>,
    #[serde(default)]
    export: Vec<ExportSettings>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportSettings {
    name: String,
    path: Option<PathBuf>,
    volume: Option<String>,
    #[serde(default)]
    readonly: bool,
    #[serde(default)]
    description: String,
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

#[derive(Clone, Copy, Default, Deserialize)]
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
    let view = command.view.clone();
    let configuration = match command {
        ServeCommand { config: Some(path), .. } => {
            let read = read(&path)?;
            Configuration { devices: [devices, &read.devices[..]].concat(), ..read }
        }
        ServeCommand { file, volume, nbd, readonly, name, .. } => Configuration {
            listen: (!nbd.is_empty()).then_some(nbd),
            tls: None,
            devices: devices.to_vec(),
            export: vec![ExportSettings {
                name,
                path: file,
                volume,
                readonly,
                description: String::new(),
            }],
        },
    };
    let listen = configuration.listen.unwrap_or_else(|| vec![LISTEN_DEFAULT.into()]);
    let addresses: Result<Vec<Address>, _> = listen.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(Failure::usage)?;
    let tls = configuration.tls.map_or_else(|| Ok(Tls::off()), tls)?;
    let wants_volumes = configuration.export.iter().any(|settings| settings.volume.is_some());
    let disks = match wants_volumes {
        true => {
            // Writable only where somebody may write.
            let volumes = configuration.export.iter().filter(|settings| settings.volume.is_some());
            let read_only = volumes.into_iter().all(|settings| settings.readonly);
            let disks = Disks::open(&configuration.devices, read_only)?;
            disks.complaints.iter().for_each(|complaint| say(&format!("note: {complaint}")));
            disks
        }
        false => Disks::open_files(&[], true)?,
    };
    let session = Session::over(Pools::over(disks), &view);
    let exports = configuration.export.into_iter().map(|settings| open(&session, settings));
    let exports = exports.collect::<Result<Vec<Export>, Failure>>()?;
    serve::until_told_to_stop(session.pools.disks().runtime(), exports, &addresses, tls)
}

fn read(path: &Path) -> Result<Configuration, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("reading {}: {error}", path.display())))?;
    toml::from_str(&text)
        .map_err(|error: toml::de::Error| Failure::usage(format!("{}: {error}", path.display())))
}

fn open(session: &Session, settings: ExportSettings) -> Result<Export, Failure> {
    let disks = session.pools.disks();
    let ExportSettings { name, path, volume, readonly, description } = settings;
    match (path, volume) {
        (Some(path), None) => {
            let options = FileOptions { direct: false, read_only: readonly };
            let host = disks.runtime().host();
            let device = FileDevice::open(&host, &path, options).map_err(Failure::failed)?;
            Ok(Export { name, description, device: Rc::new(device), read_only: readonly })
        }
        (None, Some(volume)) => {
            let opened = match disks.volume(&volume) {
                Ok(opened) => opened,
                Err(failure) => match session.pools.named(pool_of(&volume))? {
                    None => return Err(failure),
                    Some(_) => {
                        let (_, device) = session.volume(&volume)?;
                        Opened { device: Rc::new(device), read_only: true }
                    }
                },
            };
            if opened.read_only && !readonly {
                return Err(Failure::usage(format!(
                    "{volume} can only be read (it is a ZFS volume, lies on a RAID set, or is marked so): add readonly"
                )));
            }
            Ok(Export { name, description, device: opened.device, read_only: readonly })
        }
        _ => Err(Failure::usage(format!("export '{name}': give it either path or volume"))),
    }
}

fn tls(settings: TlsSettings) -> Result<Tls, Failure> {
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
