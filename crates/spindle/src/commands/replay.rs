//! `spindle hw replay`: a recorded load on a simulated drive, and how near it comes to what was measured.

use crate::output::{Failure, print, print_json, say};
use clap::Args;
use lab::report::{CURVE_POINTS, Curve, DistributionPage};
use sim::profile;
use sim::replay::{Playing, replay};
use std::path::PathBuf;
use trace::{Distribution, Format, Trace, demerit};

/// Shares that are told: the text's and the JSON's names for them.
const QUANTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99_9"), (1.0, "max")];

// What `hw replay` is asked.
#[derive(Args)]
pub struct ReplayArgs {
    /// A drive: a profile's name, the path of a profile, or of parameters as for DiskSim (.diskspecs, with its .model beside)
    profile: String,
    /// The recorded load, plain or .zst
    trace: PathBuf,
    /// What it is written in: validate, ascii, iolog, blkparse or msr; by default what its lines look like
    #[arg(long)]
    format: Option<Format>,
    /// The disk in the trace, where it is of several
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// One request at a time, the next after the pause that the trace has (as validate says, where nothing is chosen)
    #[arg(long, conflicts_with = "open")]
    closed: bool,
    /// Requests at the times at which they were sent (all other formats, where nothing is chosen)
    #[arg(long)]
    open: bool,
    /// For the angle of the platters
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page with the distributions
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

/// Plays the load.
///
/// # Errors
/// With the line to print.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let drive = profile::load(&args.profile).map_err(Failure::usage)?;
    let trace =
        trace::read(&args.trace, args.format, args.device.as_deref()).map_err(Failure::usage)?;
    let playing = match (args.closed, args.open) {
        (true, _) => Playing::Closed,
        (_, true) => Playing::Open,
        _ if trace.format.is_closed() => Playing::Closed,
        _ => Playing::Open,
    };
    let file = args.trace.display();
    let times = replay(&drive, &trace.asked, playing, args.seed)
        .map_err(|error| Failure::usage(format!("{file}: {error}")))?;
    let ours = Distribution::of(&times);
    let measured = trace.measured().map(|measured| Distribution::of(&measured));
    let apart = measured.as_ref().and_then(|measured| demerit(&ours, measured));
    let played = Played { drive: drive.name(), trace: &trace, playing, ours, measured, apart };
    if let Some(out) = &args.out {
        let page = played.page(&format!("{} under {file}", drive.title()));
        std::fs::write(out, page.html())
            .map_err(|error| Failure::failed(format!("{}: {error}", out.display())))?;
    }
    if args.json {
        return print_json(&format!("{:#}\n", played.json()));
    }
    print(&played.text())?;
    if let Some(out) = &args.out {
        say(&format!("page: {}", out.display()));
    }
    Ok(())
}

struct Played<'a> {
    drive: &'a str,
    trace: &'a Trace,
    playing: Playing,
    ours: Distribution,
    measured: Option<Distribution>,
    apart: Option<f64>,
}

impl Played<'_> {
    fn how(&self) -> &'static str {
        match self.playing {
            Playing::Closed => "closed: one request at a time",
            Playing::Open => "open: requests at their times",
        }
    }

    /// Names and figures, ms: of the drive that is simulated, and as measured.
    fn figures(&self) -> Vec<(&'static str, f64, Option<f64>)> {
        let of = |figure: &dyn Fn(&Distribution) -> f64| {
            (figure(&self.ours), self.measured.as_ref().map(figure))
        };
        let (mean, measured) = of(&Distribution::mean_ms);
        let mut figures = vec![("mean", mean, measured)];
        for (share, name) in QUANTILES {
            let (ours, measured) = of(&|all: &Distribution| all.quantile_ms(share));
            figures.push((name, ours, measured));
        }
        figures
    }

    fn json(&self) -> serde_json::Value {
        let mut all = serde_json::Map::new();
        all.insert("drive".to_owned(), self.drive.into());
        all.insert("format".to_owned(), self.trace.format.name().into());
        all.insert("closed".to_owned(), (self.playing == Playing::Closed).into());
        all.insert("n".to_owned(), self.ours.count().into());
        for (name, ours, _) in self.figures() {
            all.insert(format!("{name}_ms"), ours.into());
        }
        for (name, _, measured) in self.figures() {
            if let Some(measured) = measured {
                all.insert(format!("measured_{name}_ms"), measured.into());
            }
        }
        if let Some(apart) = self.apart {
            all.insert("demerit".to_owned(), apart.into());
        }
        all.into()
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{}, {} requests ({}), {}\n",
            self.drive,
            self.ours.count(),
            self.trace.format,
            self.how()
        );
        if self.trace.passed_over > 0 {
            text.push_str(&format!("{} lines hold no request of it\n", self.trace.passed_over));
        }
        let head = if self.measured.is_some() { "simulated  measured" } else { "simulated" };
        text.push_str(&format!("{:8}{head}\n", "ms"));
        for (name, ours, measured) in self.figures() {
            let measured = measured.map_or(String::new(), |ms| format!(" {ms:9.3}"));
            text.push_str(&format!("{:8}{ours:9.3}{measured}\n", name.replace('_', ".")));
        }
        if let Some(apart) = self.apart {
            text.push_str(&format!("demerit {:.1} % of the measured mean\n", apart * 100.0));
        }
        text
    }

    fn page(&self, title: &str) -> DistributionPage {
        let mut about = format!(
            "{} requests ({}), {}. The drive is simulated.",
            self.ours.count(),
            self.trace.format,
            self.how()
        );
        if let Some(apart) = self.apart {
            about.push_str(&format!(
                " Demerit {:.1} %: the root mean square of the horizontal distance between the two curves, as a share \
                 of the measured mean (Ruemmler and Wilkes, 1994).",
                apart * 100.0
            ));
        }
        let mut columns = vec!["ms".to_owned(), "simulated".to_owned()];
        let mut curves = vec![curve("simulated", &self.ours)];
        if let Some(measured) = &self.measured {
            columns.push("measured".to_owned());
            curves.push(curve("measured", measured));
        }
        let rows = self.figures().into_iter().map(|(name, ours, measured)| {
            let figures = std::iter::once(ours).chain(measured).map(|ms| format!("{ms:.3}"));
            std::iter::once(name.replace('_', ".")).chain(figures).collect()
        });
        DistributionPage { title: title.to_owned(), about, columns, rows: rows.collect(), curves }
    }
}

/// Evenly over the shares, and then ever closer to the slowest.
fn curve(name: &str, all: &Distribution) -> Curve {
    let half = CURVE_POINTS / 2;
    let even = (1..=half).map(|n| n as f64 / half as f64 * 0.9);
    let tail = (1..=half).map(|n| 1.0 - 0.1_f64.powf(1.0 + 3.0 * n as f64 / half as f64));
    let points = even.chain(tail).map(|share| (share, all.quantile_ms(share))).collect();
    Curve { name: name.to_owned(), points }
}
