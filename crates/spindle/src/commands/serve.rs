//! `spindle serve`: files and block devices over NBD, from a configuration or in one call.
//!
//! The configuration is TOML; a key that is not known is refused by its name:
//!
//! ```toml
//! listen = ["unix:/run/spindle.sock", "127.0.0.1:10809"]    # the default is 127.0.0.1:10809
//! tls = { mode = "require", certificates = "/etc/spindle/pki", clients = "required" }
//!
//! [[export]]
//! name = "disk0"
//! path = "/srv/disk0.img"
//! readonly = false
//! description = "the first disk"
//! ```
//!
//! The certificates' folder has the names that libnbd and QEMU use: `ca-cert.pem`, `server-cert.pem`,
//! `server-key.pem`.

use crate::commands::Failure;
use crate::serve;
use clap::Args;
use export::nbd::Export;
use export::tls::{Certificates, ClientCertificates, Tls, TlsMode};
use host::{Address, FileDevice, FileOptions, Host, HostRuntime, ReactorKind};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Where it listens unless it is told otherwise: the protocol's port, for this machine only.
const LISTEN_DEFAULT: &str = "127.0.0.1:10809";

/// What to serve, and where.
#[derive(Args)]
pub struct ServeCommand {
    /// A file or block device to serve
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    file: Option<PathBuf>,
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    listen: Option<Vec<String>>,
    tls: Option<TlsSettings>,
    #[serde(default)]
    export: Vec<ExportSettings>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportSettings {
    name: String,
    path: PathBuf,
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
pub fn run(command: ServeCommand) -> Result<(), Failure> {
    let configuration = match command {
        ServeCommand { config: Some(path), .. } => read(&path)?,
        ServeCommand { file, nbd, readonly, name, .. } => Configuration {
            listen: (!nbd.is_empty()).then_some(nbd),
            tls: None,
            export: file
                .into_iter()
                .map(|path| ExportSettings {
                    name: name.clone(),
                    path,
                    readonly,
                    description: String::new(),
                })
                .collect(),
        },
    };
    let listen = configuration.listen.unwrap_or_else(|| vec![LISTEN_DEFAULT.into()]);
    let addresses: Result<Vec<Address>, _> = listen.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(Failure::usage)?;
    let tls = configuration.tls.map_or_else(|| Ok(Tls::off()), tls)?;
    let runtime = HostRuntime::new(ReactorKind::Auto).map_err(Failure::failed)?;
    let host = runtime.host();
    let exports: Result<Vec<Export>, Failure> =
        configuration.export.into_iter().map(|settings| open(&host, settings)).collect();
    serve::until_told_to_stop(&runtime, exports?, &addresses, tls)
}

fn read(path: &Path) -> Result<Configuration, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("reading {}: {error}", path.display())))?;
    toml::from_str(&text)
        .map_err(|error: toml::de::Error| Failure::usage(format!("{}: {error}", path.display())))
}

fn open(host: &Host, settings: ExportSettings) -> Result<Export, Failure> {
    let ExportSettings { name, path, readonly, description } = settings;
    let options = FileOptions { direct: false, read_only: readonly };
    let device = FileDevice::open(host, &path, options).map_err(Failure::failed)?;
    Ok(Export { name, description, device: Rc::new(device), read_only: readonly })
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
