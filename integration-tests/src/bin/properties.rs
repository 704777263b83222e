//! Runs every random property of the workspace with fresh cases, for a time or for a number of cases, and prints the number of cases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;
use serde_json::Value;

/// The module into which `properties!` puts its tests.
const MARK: &str = "property::";
/// The crate that provides `properties!`. Only packages that depend on it have properties.
const RUNNER: &str = "integration-tests-properties";

/// Runs every random property with fresh cases.
#[derive(Debug, Parser)]
#[command(name = "properties")]
struct PropertiesOptions {
    /// Fresh cases of each property [default: 1000, unless `--minutes` is given]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    cases: Option<u64>,
    /// Divide this many minutes among all properties
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    minutes: Option<u64>,
    /// Number of properties to run at once [default: one per processor]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
    /// Build with optimization, and so without checks for integer overflow
    #[arg(long)]
    release: bool,
    /// Run only properties whose name contains this text
    filter: Option<String>,
}

/// A property, as a test of a test program.
#[derive(Clone, Debug)]
struct Property {
    package: String,
    /// The folder of the package, in which its test programs run.
    folder: PathBuf,
    program: PathBuf,
    name: String,
}

/// One run of a property.
#[derive(Debug)]
struct PropertyRun {
    property: Property,
    /// The counts that the runner printed; `None` if the property failed.
    counts: Option<[u64; 3]>,
    took: Duration,
    /// The output on both streams.
    output: String,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = PropertiesOptions::parse();
    let properties = all_properties(&options)?;
    if properties.is_empty() {
        bail!("no property has that name");
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options
        .threads
        .map_or(processors, |n| usize::try_from(n).unwrap_or(processors));
    let limits = limits(&options, properties.len(), threads);
    let described: Vec<String> = limits
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    eprintln!(
        "{} properties, {threads} at a time, each with {}",
        properties.len(),
        described.join(" ")
    );

    let outcomes = run_all(&properties, &limits, threads)?;
    let mut totals = [0; 3];
    println!(
        "{:>10} {:>8} {:>8} {:>10}  property",
        "fresh", "fixed", "kept", "ms"
    );
    for outcome in &outcomes {
        let Property { package, name, .. } = &outcome.property;
        let took = outcome.took.as_millis();
        match outcome.counts {
            Some([kept, fixed, fresh]) => {
                println!("{fresh:>10} {fixed:>8} {kept:>8} {took:>10}  {package} {name}")
            }
            None => println!("{:>28} {took:>10}  {package} {name}", "FAILED"),
        }
        for (total, count) in totals.iter_mut().zip(outcome.counts.unwrap_or_default()) {
            *total += count;
        }
    }
    let [kept, fixed, fresh] = totals;
    let failed = outcomes.iter().filter(|outcome| outcome.counts.is_none());
    let failed = failed
        .inspect(|outcome| println!("\n{} failed:\n{}", outcome.property.name, outcome.output))
        .count();
    println!(
        "{} properties: {fresh} fresh, {fixed} fixed, {kept} kept cases; {failed} failed",
        outcomes.len()
    );
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Returns the environment variables that limit each property's fresh cases.
fn limits(
    options: &PropertiesOptions,
    properties: usize,
    threads: usize,
) -> Vec<(&'static str, u64)> {
    let seconds = options.minutes.map(|minutes| {
        let all = minutes * 60 * u64::try_from(threads).unwrap_or(1);
        (all / u64::try_from(properties).unwrap_or(1)).max(1)
    });
    let usual = if seconds.is_none() { Some(1000) } else { None };
    let cases = options
        .cases
        .or(usual)
        .map(|cases| ("PROPERTY_CASES", cases));
    let seconds = seconds.map(|seconds| ("PROPERTY_SECONDS", seconds));
    cases.into_iter().chain(seconds).collect()
}

fn run_all(
    properties: &[Property],
    limits: &[(&str, u64)],
    threads: usize,
) -> anyhow::Result<Vec<PropertyRun>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        let work = || -> anyhow::Result<()> {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(property) = properties.get(i) else {
                    return Ok(());
                };
                let outcome = run(property, limits)?;
                let state = if outcome.counts.is_some() {
                    "ok"
                } else {
                    "FAILED"
                };
                eprintln!("[{}/{}] {} {state}", i + 1, properties.len(), property.name);
                done.lock()
                    .expect("Invariant: nobody panics with it")
                    .insert(i, outcome);
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("Invariant: it does not panic"))
    })?;
    let done = done.into_inner().expect("Invariant: nobody panics with it");
    Ok(done.into_values().collect())
}

fn run(property: &Property, limits: &[(&str, u64)]) -> anyhow::Result<PropertyRun> {
    let started = Instant::now();
    let ran = Command::new(&property.program)
        .args(["--exact", &property.name, "--nocapture", "--test-threads=1"])
        .current_dir(&property.folder)
        .envs(limits.iter().map(|(name, value)| (name, value.to_string())))
        .output();
    let ran = ran.with_context(|| format!("cannot run {}", property.program.display()))?;
    let output = format!(
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    let counts = counts(&output).filter(|_| ran.status.success());
    Ok(PropertyRun {
        property: property.clone(),
        counts,
        took: started.elapsed(),
        output,
    })
}

/// Parses "property NAME: K kept, N fixed, M fresh cases".
fn counts(output: &str) -> Option<[u64; 3]> {
    let line = output
        .lines()
        .rfind(|line| line.contains("property ") && line.ends_with(" fresh cases"))?;
    let (_, counts) = line.rsplit_once(": ")?;
    let mut counts = counts
        .split(", ")
        .map(|count| count.split(' ').next()?.parse().ok());
    Some([counts.next()??, counts.next()??, counts.next()??])
}

/// Builds the test programs of all packages with properties, and lists the properties of each.
fn all_properties(options: &PropertiesOptions) -> anyhow::Result<Vec<Property>> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: Value =
        serde_json::from_str(&metadata).context("cargo metadata prints no JSON")?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let named = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let has_some = |package: &&Value| {
        let mut uses = package["dependencies"].as_array().into_iter().flatten();
        named(package) == RUNNER || uses.any(|used| named(used) == RUNNER)
    };
    let packages: Vec<String> = packages.iter().filter(has_some).map(named).collect();

    let mut args = vec![
        "test",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
        "--lib",
        "--bins",
        "--tests",
    ];
    args.extend(packages.iter().flat_map(|package| ["-p", package]));
    args.extend(options.release.then_some("--release"));
    let built = cargo(&args)?;
    let mut properties = Vec::new();
    for line in built.lines() {
        let message: Value = serde_json::from_str(line).context("cargo test prints no JSON")?;
        let manifest = message["manifest_path"].as_str().map(Path::new);
        let is_test = message["profile"]["test"] == Value::Bool(true);
        let Some((program, folder)) = message["executable"]
            .as_str()
            .zip(manifest.and_then(Path::parent))
            .filter(|_| is_test)
        else {
            continue;
        };
        let package = message["package_id"].as_str().unwrap_or_default();
        let package = package
            .rsplit(['/', '#'])
            .find(|part| !part.starts_with(|c: char| c.is_ascii_digit()))
            .and_then(|named| named.split('@').next());
        for name in listed(program, folder)? {
            let is_wanted = options
                .filter
                .as_ref()
                .is_none_or(|filter| name.contains(filter));
            properties.extend(is_wanted.then(|| Property {
                package: package.unwrap_or_default().to_owned(),
                folder: folder.to_owned(),
                program: program.into(),
                name,
            }));
        }
    }
    Ok(properties)
}

/// Returns the properties among the tests of a test program; empty for a program without a harness.
fn listed(program: &str, folder: &Path) -> anyhow::Result<Vec<String>> {
    let listed = Command::new(program)
        .args(["--list", "--format", "terse", MARK])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let tests = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    Ok(tests
        .filter(|name| name.contains(MARK))
        .map(str::to_owned)
        .collect())
}

fn cargo(args: &[&str]) -> anyhow::Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ran = Command::new(cargo)
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !ran.status.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    String::from_utf8(ran.stdout).context("cargo prints UTF-8")
}
