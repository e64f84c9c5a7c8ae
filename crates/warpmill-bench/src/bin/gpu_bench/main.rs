//! Micro-benchmarks of the device functions: `gpu_bench [decode|join|groupby|sort|like ...] [--scale X] [--runs N] [--tune]
//! [--json FILE] [--device gpu|sim]`. Without a suite: all. Ends with a table; fails when an answer is wrong. `gpu_bench links` measures
//! the links between GPUs.

mod links;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use warpmill_bench::device::{self, Options, Report, Suite};
use warpmill_gpu::device::Device;
use warpmill_gpu::device::cuda::CudaDevice;
use warpmill_gpu::device::sim::{SimDevice, SimOptions};

/// The command line.
struct Command {
    suites: Vec<Suite>,
    options: Options,
    json: Option<String>,
    simulated: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Command, Box<dyn Error>> {
    let mut command = Command { suites: vec![], options: Options::default(), json: None, simulated: false };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--scale" => command.options.scale = value()?.parse()?,
            "--runs" => command.options.runs = value()?.parse::<usize>()?.max(1),
            "--json" => command.json = Some(value()?),
            "--device" => {
                command.simulated = match value()?.as_str() {
                    "gpu" => false,
                    "sim" => true,
                    other => return Err(format!("--device {other}: gpu or sim").into()),
                }
            }
            "--tune" => command.options.tune = true,
            name => command.suites.push(Suite::from_name(name).ok_or_else(|| format!("no suite is called {name}"))?),
        }
    }
    if command.suites.is_empty() {
        command.suites = Suite::ALL.to_vec();
    }
    Ok(command)
}

fn run() -> Result<bool, Box<dyn Error>> {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == "links").is_some() {
        return links::run(args);
    }
    let command = parse(args)?;
    let device: Arc<dyn Device> = if command.simulated {
        Arc::new(SimDevice::new(SimOptions { memory_bytes: 8 << 30, ..SimOptions::default() })?)
    } else {
        CudaDevice::open(0)?
    };
    let mut report = Report::default();
    for &suite in &command.suites {
        eprintln!("{} ...", suite.name());
        let start = Instant::now();
        let outcome = device::run(&device, suite, &command.options, &mut report);
        eprintln!("{}: {:.1} s", suite.name(), start.elapsed().as_secs_f64());
        // The measurements before are worth having.
        if let Err(error) = outcome {
            eprintln!("{}: {error}", suite.name());
            print!("{report}");
            return Ok(false);
        }
    }
    if let Some(path) = &command.json {
        let properties = device.properties();
        let json = serde_json::json!({ "device": properties, "measurements": report.measurements });
        std::fs::write(path, serde_json::to_string_pretty(&json)?)?;
    }
    println!("{} ({}), driver {}", device.properties().name, device.properties().arch, device.properties().driver);
    print!("{report}");
    Ok(report.all_verified())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
