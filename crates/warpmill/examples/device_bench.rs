//! Times the queries of a suite on a device, over tables that are generated in memory:
//! `device_bench ssb|tpch SF RUNS [gpu|sim|cpu] [Q1,Q2,...|all] [explain] [verify]`; `verify` compares with the CPU's results.

#[path = "../tests/suite/support.rs"]
mod support;

use std::time::Instant;

use warpmill::Session;
use warpmill_datagen::Suite;
use warpmill_format::Table;

use support::sorted_rows;

fn load(session: &Session, suite: Suite, sf: f64) {
    for name in warpmill_datagen::tables(suite) {
        let started = Instant::now();
        let table = Table::in_memory(warpmill_datagen::schema(suite, name).unwrap());
        let mut writer = table.append(Default::default()).unwrap();
        for batch in warpmill_datagen::stream(suite, name, sf, 0).unwrap() {
            writer.write(&batch).unwrap();
        }
        let snapshot = writer.commit().unwrap();
        eprintln!(
            "{name}: {} rows, {:.2} GB ({:.2} plain) in {:.1} s",
            snapshot.num_rows(),
            snapshot.stored_bytes() as f64 / 1e9,
            snapshot.plain_bytes() as f64 / 1e9,
            started.elapsed().as_secs_f64()
        );
        session.register_table(name, table).expect("a name of a table");
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [suite, sf, runs, rest @ ..] = args.as_slice() else {
        eprintln!("device_bench ssb|tpch SF RUNS [gpu|sim|cpu] [Q1,Q2,...]");
        std::process::exit(2);
    };
    let suite: Suite = suite.parse().unwrap();
    let runs: usize = runs.parse().unwrap();
    let device = rest.first().map_or("gpu", String::as_str);
    let chosen: Vec<&str> = rest.get(1).map(|list| list.split(',').collect()).unwrap_or_default();
    let (explain, verify) = (rest.iter().any(|arg| arg == "explain"), rest.iter().any(|arg| arg == "verify"));
    let mut wrong = 0;
    let session = Session::builder().set("warpmill.device", device).build().unwrap();
    load(&session, suite, sf.parse().unwrap());
    let (mut sum_wall, mut sum_kernel) = (0.0, 0.0);
    for query in warpmill_datagen::queries(suite) {
        if !chosen.is_empty() && chosen != ["all"] && !chosen.contains(&query.name) {
            continue;
        }
        let (mut walls, mut kernels, mut first) = (vec![], vec![], 0.0);
        let (mut last, mut rows) = (None, vec![]);
        for run in 0..=runs {
            let started = Instant::now();
            if let Err(error) = session.execute(query.sql, &[]) {
                println!("{}: {error}", query.name);
                break;
            }
            let wall = started.elapsed().as_secs_f64() * 1e3;
            // Kernels are timed in separate runs, which the timing slows down.
            session.set("warpmill.profile", "kernels").unwrap();
            let result = session.execute(query.sql, &[]).unwrap();
            session.set("warpmill.profile", "on").unwrap();
            let profile = result.profile.clone().unwrap();
            let on_device = profile.programs.first().and_then(|program| program.on_device.clone());
            if run == 0 {
                first = wall;
            } else {
                walls.push(wall);
                kernels.push(on_device.as_ref().map_or(f64::NAN, |p| p.kernel_nanos() as f64 / 1e6));
            }
            last = Some(profile);
            rows = sorted_rows(&result);
        }
        let mut verdict = "";
        if verify {
            session.set("warpmill.device", "cpu").unwrap();
            let equal = session.execute(query.sql, &[]).is_ok_and(|result| sorted_rows(&result) == rows);
            session.set("warpmill.device", device).unwrap();
            verdict = if equal { "equal" } else { "WRONG" };
            wrong += usize::from(!equal);
        }
        let Some(profile) = last.filter(|_| !walls.is_empty()) else { continue };
        walls.sort_by(f64::total_cmp);
        kernels.sort_by(f64::total_cmp);
        let (wall, kernel) = (walls[walls.len() / 2], kernels[kernels.len() / 2]);
        sum_wall += wall;
        sum_kernel += kernel;
        let reason = profile.programs.iter().find_map(|program| program.not_on_device.clone()).unwrap_or_default();
        println!(
            "{:>5} {wall:>9.3} ms hot {kernel:>9.3} ms kernels {first:>9.1} ms first {:>8.3} GB {verdict} {reason}",
            query.name,
            profile.bytes_read as f64 / 1e9
        );
        if explain {
            println!("{profile}");
        }
    }
    if wrong > 0 {
        println!("{wrong} WRONG");
    }
    println!("{} SF{sf} on {device}: {sum_wall:.3} ms hot, {sum_kernel:.3} ms in kernels", suite.name());
}
