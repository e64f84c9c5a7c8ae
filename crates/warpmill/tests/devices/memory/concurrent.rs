//! Many threads on one device.

use std::collections::BTreeMap;
use std::sync::Mutex;

use warpmill::{QueryProfile, Session};
use warpmill_datagen::Suite;
use warpmill_format::Table;

use crate::device;
use crate::support::sorted_rows;

const SF: f64 = 0.01;

fn fill(session: &Session) {
    for name in warpmill_datagen::tables(Suite::Tpch) {
        let table = Table::in_memory(warpmill_datagen::schema(Suite::Tpch, name).unwrap());
        let mut writer = table.append(Default::default()).unwrap();
        for part in 0..warpmill_datagen::parts(Suite::Tpch, name, SF).unwrap() {
            for batch in warpmill_datagen::generate(Suite::Tpch, name, SF, part).unwrap() {
                writer.write(&batch).unwrap();
            }
        }
        writer.commit().unwrap();
        session.register_table(name, table).unwrap();
    }
}

/// The outcomes of the programs of all threads.
#[derive(Default)]
struct Tally {
    ran: usize,
    /// Queries that copied data to the device: the first readers, and those after an eviction.
    loaded: usize,
    /// Queries that waited for others.
    waited: usize,
    elsewhere: Vec<String>,
}

impl Tally {
    fn add(&mut self, profile: &QueryProfile) {
        for program in &profile.programs {
            let Some(on_device) = &program.on_device else {
                self.elsewhere.extend(program.not_on_device.clone());
                continue;
            };
            self.ran += 1;
            self.loaded += usize::from(on_device.transfers.iter().any(|copy| copy.what == "segments to the device"));
            self.waited += usize::from(on_device.wait_nanos > 1_000_000);
        }
    }
}

/// Eight threads run `queries` in different orders, and compare the answers.
fn run_at_once(session: &Session, queries: &[(&str, &str)], expected: &BTreeMap<&str, Vec<String>>) -> Tally {
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let tally = &tally;
            scope.spawn(move || {
                for round in 0..2 * queries.len() {
                    let (name, sql) = queries[(thread * 3 + round) % queries.len()];
                    let result = session.execute(sql, &[]).unwrap();
                    assert_eq!(sorted_rows(&result), expected[name], "query {name}");
                    tally.lock().unwrap().add(result.profile.as_ref().unwrap());
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

#[test]
fn many_threads_share_a_device_of_any_size() {
    let session = Session::builder().set("warpmill.device", "cpu").set("warpmill.fallback", "error").build().unwrap();
    fill(&session);
    let chosen = ["1", "3", "4", "6", "12", "14", "17", "19"];
    let queries = warpmill_datagen::queries(Suite::Tpch).iter().filter(|query| chosen.contains(&query.name));
    let queries: Vec<(&str, &str)> = queries.map(|query| (query.name, query.sql)).collect();
    let expected: BTreeMap<&str, Vec<String>> =
        queries.iter().map(|(name, sql)| (*name, sorted_rows(&session.execute(sql, &[]).unwrap()))).collect();
    session.set("warpmill.device", &device()).unwrap();
    // Memory for all of them at once.
    session.set("warpmill.gpu_memory_limit", "256MB").unwrap();
    let tally = run_at_once(&session, &queries, &expected);
    assert_eq!(tally.ran, 8 * 2 * queries.len(), "not on the device: {:?}", tally.elsewhere);
    assert!(tally.loaded <= queries.len(), "{} copied data", tally.loaded);
    // Less than the data of all: data are evicted while no query runs, and copied again; the tables of one query never fit.
    session.set("warpmill.gpu_memory_limit", "1.2MB").unwrap();
    let tally = run_at_once(&session, &queries, &expected);
    assert!(tally.ran > tally.elsewhere.len(), "not on the device: {:?}", tally.elsewhere);
    assert!(tally.elsewhere.iter().all(|reason| reason.contains("of device memory")), "{:?}", tally.elsewhere);
    assert!(tally.loaded > queries.len() && tally.waited > 0, "{} copied data, {} waited", tally.loaded, tally.waited);
}
