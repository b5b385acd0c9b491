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
//! volume = "vg0/data"     # or a RAID set, SET:N or DEVICE:N for a partition, or a ZFS volume (readonly)
//! run = true              # also with fewer members than its RAID sets had
//! ```
//!
//! The certificates' folder has the names that libnbd and QEMU use: `ca-cert.pem`, `server-cert.pem`,
//! `server-key.pem`.
//!
//! **RAID sets** below volumes that are written are opened for writing, each once for all exports on it,
//! resynchronised and rebuilt beside the serving where they need that, and stopped cleanly at the end. All else is
//! opened for reading.
//!
//! **Several cores.** With `executors` the sets that are written run on as many threads of their own ([`apart`]), beside the
//! one of the connections.
//!
//! **Who is kept off.** What is written has the writer's lock. What is only read has the readers' lock, which many may
//! have and which keeps writers off: a client would never hear of what they change.

mod apart;

use crate::commands::md::running::RunningSet;
use crate::commands::zfs::source::{Session, ViewArgs};
use crate::commands::{Failure, say};
use crate::disks::{Disks, Written, is_written};
use crate::pools::{PoolArgs, Pools, pool_of};
use crate::serve::{self, Told};
use ::md::live::LiveArray;
use apart::Apart;
use clap::Args;
use export::nbd::{CLIENT_MEMORY, Export};
use export::tls::{Certificates, ClientCertificates, Tls, TlsMode};
use host::{Address, FileDevice, Identity};
use rt::{Device, DeviceRef};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::ByteCount;

/// Where it listens unless it is told otherwise: the protocol's port, for this machine only.
const LISTEN_DEFAULT: &str = "127.0.0.1:10809";

/// How the description of a RAID set's member begins.
const MEMBER: &str = "an md RAID member";

/// Characters of what the configuration's parser says that are shown.
const COMPLAINT_CHARS_MAX: usize = 300;

/// What to serve, and where.
#[derive(Args)]
pub struct ServeCommand {
    /// A file or block device to serve
    #[arg(required_unless_present_any = ["config", "volume"], conflicts_with_all = ["config", "volume"])]
    file: Option<PathBuf>,
    /// Serve what lies on the devices (-d): a RAID set's name, GROUP/VOLUME, SET:N or DEVICE:N for a partition, or a
    /// ZFS volume, POOL/VOLUME or POOL/VOLUME@SNAPSHOT, which can only be read
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
    /// Start RAID sets below the volume too that lack members they had when they were used last
    #[arg(short = 'R', long, requires = "volume", conflicts_with = "readonly")]
    run: bool,
    /// The export's name; clients that name none get it too
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "config")]
    name: String,
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
    run: bool,
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
    let is_one_shot = command.config.is_none();
    let configuration = match command {
        ServeCommand { config: Some(path), .. } => {
            let read = read(&path)?;
            Configuration { devices: [devices, &read.devices[..]].concat(), ..read }
        }
        ServeCommand { file, volume, nbd, readonly, run, name, memory, .. } => Configuration {
            listen: (!nbd.is_empty()).then_some(nbd),
            tls: None,
            memory,
            devices: devices.to_vec(),
            executors: 0,
            export: vec![ExportSettings {
                name,
                path: file,
                volume,
                readonly,
                run,
                description: String::new(),
            }],
        },
    };
    let listen = configuration.listen.unwrap_or_else(|| vec![LISTEN_DEFAULT.into()]);
    let addresses: Result<Vec<Address>, _> = listen.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(Failure::usage)?;
    let tls = configuration.tls.map_or_else(|| Ok(Tls::off()), tls)?;
    let clients = serve::Clients { tls, memory: configuration.memory.unwrap_or(CLIENT_MEMORY) };
    configuration.export.iter().try_for_each(ExportSettings::check)?;
    if configuration.executors > apart::EXECUTORS_MAX {
        let (wanted, most) = (configuration.executors, apart::EXECUTORS_MAX);
        return Err(Failure::usage(format!("executors = {wanted}: {most} is the limit")));
    }
    let (stay, elsewhere) = match configuration.executors {
        0 => (configuration.export, Vec::new()),
        executors => apart::divided(&configuration.devices, configuration.export, executors)?,
    };
    let is_one = elsewhere.is_empty();
    let (served, live) = open(&configuration.devices, stay, pools, &view, is_one)?;
    let Served { session, mut exports, read: _read, .. } = served;
    let runtime = session.pools.disks().runtime();
    let told = Told::by_signals()?;
    let (mut others, mut outcome) = (Vec::new(), Ok(()));
    for (number, settings) in elsewhere.into_iter().enumerate() {
        let (devices, view) = (configuration.devices.clone(), view.clone());
        match Apart::start(&runtime.rt(), number, devices, settings, pools, view) {
            Ok((other, its)) => {
                others.push(other);
                exports.extend(its);
            }
            Err(failure) => outcome = Err(failure),
        }
    }
    // What a set's stop ends is the server: only where that serves nothing else.
    let ends = is_one_shot.then_some(&told);
    let running: Vec<RunningSet> =
        live.into_iter().map(|set| RunningSet::start(runtime, set, ends)).collect();
    if outcome.is_ok() {
        outcome = serve::until(&told, runtime, exports, &addresses, clients);
    } else {
        drop(exports);
    }
    for set in running {
        outcome = outcome.and(set.stop(runtime));
    }
    // Its executor goes with it, and with that whoever could ask the others.
    drop(session);
    for other in others {
        outcome = outcome.and(other.end());
    }
    outcome
}

fn say_notes(disks: &Disks) {
    disks.complaints.iter().for_each(|complaint| say(&format!("note: {complaint}")));
}

/// Opens what is to be served, and the sets below it. Where several executors of this process do so, each sees what the
/// others write to as if another process did: they say no notes.
///
/// # Errors
/// With the line to print.
fn open(
    devices: &[PathBuf],
    exports: Vec<ExportSettings>,
    pools: PoolArgs,
    view: &ViewArgs,
    says_notes: bool,
) -> Result<(Served, Vec<LiveArray>), Failure> {
    let wants_volumes = exports.iter().any(|settings| settings.volume.is_some());
    let mut disks = match wants_volumes {
        true => {
            let written: Vec<Written> =
                exports.iter().filter_map(ExportSettings::written).collect();
            let disks = Disks::open_for(devices, &written)?;
            if says_notes {
                say_notes(&disks);
            }
            disks
        }
        false => Disks::open_files(&[], true)?,
    };
    let live = disks.take_live();
    let session = Session::over(Pools::over(disks, pools), view);
    let (exports_open, read, written) = Default::default();
    let mut served = Served { session, exports: exports_open, read, written };
    exports.into_iter().try_for_each(|settings| served.open(settings))?;
    served.keep_writers_off()?;
    Ok((served, live))
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

impl ExportSettings {
    /// # Errors
    /// Where keys don't fit together.
    fn check(&self) -> Result<(), Failure> {
        let wrong = |text: &str| Err(Failure::usage(format!("export '{}': {text}", self.name)));
        match (&self.path, &self.volume) {
            (Some(_), None) if self.run => wrong("run is for a volume, and it has a path"),
            (None, Some(_)) if self.run && self.readonly => {
                wrong("run is for a volume that is written, and it is readonly")
            }
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => wrong("give it either path or volume"),
        }
    }

    /// The volume, where it is to be written.
    fn written(&self) -> Option<Written> {
        let volume = self.volume.clone().filter(|_| !self.readonly)?;
        Some(Written { volume, run: self.run })
    }
}

/// What is served.
struct Served {
    session: Session,
    exports: Vec<Export>,
    /// What is only read.
    read: Vec<OnlyRead>,
    /// Files that are written.
    written: BTreeSet<Identity>,
}

/// What is only read, for writers to be kept off.
enum OnlyRead {
    File(Rc<FileDevice>),
    Volume(String),
    /// A ZFS volume of this pool.
    OfPool(String),
}

impl Served {
    fn open(&mut self, settings: ExportSettings) -> Result<(), Failure> {
        let ExportSettings { name, path, volume, readonly: read_only, description, .. } = settings;
        let device = match (path, volume) {
            (Some(path), _) => self.open_path(&path, read_only)?,
            (_, Some(volume)) => self.open_volume(volume, read_only)?,
            _ => unreachable!("one of them was given"),
        };
        self.exports.push(Export { name, description, device, read_only });
        Ok(())
    }

    fn open_path(&mut self, path: &Path, read_only: bool) -> Result<DeviceRef, Failure> {
        let host = self.session.pools.disks().runtime().host();
        let device = FileDevice::open_to_the_byte(&host, path, read_only);
        let device = Rc::new(device.map_err(Failure::failed)?);
        if let Ok(Some(content)) = host::probe::content(path)
            && content.what.starts_with(MEMBER)
            && !read_only
        {
            let text = "what is written to it alone is not on the others; --volume serves the set";
            say(&format!("note: {}: it holds {}: {text}", path.display(), content.what));
        }
        match read_only {
            true => self.read.push(OnlyRead::File(Rc::clone(&device))),
            false => self.written.extend(Identity::of(path)),
        }
        Ok(device)
    }

    fn open_volume(&mut self, volume: String, read_only: bool) -> Result<DeviceRef, Failure> {
        let pools = &self.session.pools;
        let opened = match pools.disks().volume(&volume) {
            Ok(opened) => opened,
            Err(failure) => match pools.named(pool_of(&volume))? {
                None => return Err(failure),
                Some(_) if read_only => {
                    let (_, device) = self.session.volume(&volume)?;
                    self.read.push(OnlyRead::OfPool(volume));
                    return Ok(Rc::new(device));
                }
                Some(_) => {
                    let text = "a ZFS volume can only be read: add readonly";
                    return Err(Failure::usage(format!("{volume}: {text}")));
                }
            },
        };
        match opened.read_only {
            _ if read_only => self.read.push(OnlyRead::Volume(volume)),
            None => {}
            Some(why) => {
                let text = "to serve it for reading add readonly";
                return Err(Failure::failed(format!("{volume} can't be written: {why}; {text}")));
            }
        }
        Ok(opened.device)
    }

    /// Where this process writes to it itself its clients are to know.
    fn keep_off_file(&self, file: &FileDevice) {
        let name = file.name();
        let path = Path::new(&*name);
        let is_own = Identity::of(path).is_ok_and(|identity| self.written.contains(&identity));
        if !is_own && !self.session.pools.disks().is_writing(path) && !file.keep_writers_off() {
            say(&format!("note: {}", is_written(path)));
        }
    }

    /// Keeps writers off what is only read. After all is open: what this process writes to itself is not in its own way.
    fn keep_writers_off(&self) -> Result<(), Failure> {
        let pools = &self.session.pools;
        for read in &self.read {
            match read {
                OnlyRead::File(file) => self.keep_off_file(file),
                OnlyRead::Volume(volume) => pools.disks().keep_writers_off(volume)?,
                OnlyRead::OfPool(volume) => {
                    let pool = pools.named(pool_of(volume))?;
                    let devices = pool.iter().flat_map(|pool| pool.members.values());
                    let devices = devices.map(|member| &member.device);
                    pools.disks().keep_writers_off_devices(devices);
                }
            }
        }
        Ok(())
    }
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
