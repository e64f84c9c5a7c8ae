//! Choices for given rates, and properties of the model.

use std::sync::Arc;

use warpmill_ir::Program;
use warpmill_machine::{DeviceRates, HardwareProfile};

use warpmill_format::Codec;

use super::*;
use crate::data::undone::Undone;

const LZ4: usize = Codec::Lz4 as usize;
const ZSTD: usize = Codec::Zstd as usize;

/// A column of `light` bytes that `codec` compresses to `heavy` bytes; `both`: stored in both forms.
fn column(light: u64, codec: Codec, heavy: u64, both: bool) -> ScanColumn {
    let as_it_is = Work { read: light, copied: light, ..Work::default() };
    let mut on_host = Work { read: heavy, copied: light, ..Work::default() };
    on_host.on_host[codec as usize] = light;
    let mut on_device = Work { read: heavy, copied: heavy, ..Work::default() };
    on_device.on_device[codec as usize] = light;
    ScanColumn {
        pipeline: 0,
        name: ("t".into(), "c".into()),
        codec: codec.name(),
        undone: Undone::default().has(codec),
        light: if both { as_it_is } else { on_host },
        heavy: if Undone::default().has(codec) { on_device } else { on_host },
        on_host,
    }
}

/// A column of a gigabyte that LZ4 compresses to 40%.
fn gigabyte() -> Vec<ScanColumn> {
    vec![column(1 << 30, Codec::Lz4, (1 << 30) / 5 * 2, true)]
}

fn rates() -> Rates {
    Rates::new(&HardwareProfile::default(), &DeviceRates::assumed("gpu"), 16)
}

fn program() -> Arc<Program> {
    let schema = Arc::new(arrow::datatypes::Schema::empty());
    Arc::new(Program::new(vec![], vec![], schema))
}

fn setting(source: DataSource, disk_limit: u64, kernels: f64) -> Setting {
    Setting { source, disk_limit, kernels, batches: 16 }
}

/// The first choice for `columns`.
fn choice(columns: &[ScanColumn], rates: &Rates, setting: Setting) -> Choice {
    Known::default().choose(columns, rates, setting, Representation::Auto)
}

#[test]
fn the_slowest_stage_decides() {
    use DataSource::{Disk, Host, Pinned};
    let (light, heavy, on_host) = (vec![Form::Light], vec![Form::Heavy], vec![Form::HeavyOnHost]);
    // A slow disk: fewer bytes win, wherever they are decompressed.
    let chosen = choice(&gigabyte(), &rates(), setting(Disk, 0, 0.01));
    assert_ne!(chosen.forms, light);
    // A disk as fast as the link, and kernels as slow as both: decompression would make the device the slowest stage.
    let fast = Rates { disk: 50e9, on_device: [10e9; CODECS], on_host: [0.1e9; CODECS], ..rates() };
    assert_eq!(choice(&gigabyte(), &fast, setting(Disk, 0, 0.02)).forms, light);
    // The same disk with a tenth of the bandwidth.
    assert_ne!(choice(&gigabyte(), &fast, setting(Disk, 1_000_000_000, 0.02)).forms, light);
    // Page-locked copies: the link decides, if the device is idle otherwise.
    let idle = Rates { on_device: [200e9; CODECS], ..rates() };
    assert_eq!(choice(&gigabyte(), &idle, setting(Pinned, 0, 0.001)).forms, heavy);
    assert_eq!(choice(&gigabyte(), &idle, setting(Pinned, 0, 0.5)).forms, light);
    // A device that decompresses slowly, and a host with idle threads.
    let weak = Rates { on_device: [1e9; CODECS], ..rates() };
    assert_eq!(choice(&gigabyte(), &weak, setting(Disk, 0, 0.01)).forms, on_host);
    let alone = Rates { threads: 1, on_host: [0.2e9; CODECS], ..rates() };
    assert_eq!(choice(&gigabyte(), &alone, setting(Disk, 0, 0.01)).forms, heavy);
    // From the host's memory, LZ4 that the host decompresses saves nothing.
    assert_ne!(choice(&gigabyte(), &rates(), setting(Host, 0, 0.01)).forms, on_host);
}

#[test]
fn zstd_is_the_hosts_without_a_library() {
    let columns = vec![column(1 << 30, Codec::Zstd, 1 << 28, true)];
    assert_eq!(columns[0].heavy, columns[0].on_host);
    assert_eq!(candidates(&columns, &rates()).len(), 2);
    let forms = choice(&columns, &rates(), setting(DataSource::Disk, 0, 0.01)).forms;
    assert_eq!(total(&columns, &forms).on_host[ZSTD], 1 << 30);
    let slow = Rates { on_host: [0.1e9; CODECS], ..rates() };
    assert_eq!(choice(&columns, &slow, setting(DataSource::Disk, 0, 0.01)).forms, [Form::Light]);
}

#[test]
fn a_library_undoes_zstd_where_that_is_faster() {
    let mut zstd = column(1 << 30, Codec::Zstd, 1 << 28, true);
    zstd.heavy = Work { read: 1 << 28, copied: 1 << 28, ..Work::default() };
    (zstd.heavy.on_device[ZSTD], zstd.undone) = (1 << 30, true);
    let columns = vec![zstd];
    let rates = Rates { threads: 4, ..rates() };
    assert_eq!(candidates(&columns, &rates).len(), 3);
    assert_eq!(choice(&columns, &rates, setting(DataSource::Disk, 0, 0.01)).forms, [Form::Heavy]);
    let weak = Rates { on_device: [1e9; CODECS], ..rates };
    assert_eq!(choice(&columns, &weak, setting(DataSource::Disk, 0, 0.01)).forms, [Form::HeavyOnHost]);
}

/// The time of a first decompression does not count.
#[test]
fn a_cold_library_is_not_judged() {
    let paths = Paths::new(DeviceKind::Cuda, &DeviceRates::assumed("gpu"));
    let mut measured = Measured { on_device: ([0; CODECS], Duration::from_secs(1)), ..Measured::default() };
    measured.on_device.0[ZSTD] = 1 << 30;
    for (cold, rate) in [(true, paths.rates().on_device[ZSTD]), (false, (1u64 << 30) as f64)] {
        measured.cold = cold;
        paths.learn(&program(), &vec![], (DataSource::Host, 0), (&measured, true));
        assert_eq!(paths.rates().on_device[ZSTD], rate);
    }
}

#[test]
fn what_is_stored_once_can_still_be_undone_in_two_places() {
    let columns = vec![column(1 << 30, Codec::Lz4, 1 << 29, false)];
    assert_eq!(candidates(&columns, &rates()).len(), 2);
    let weak = Rates { on_device: [0.1e9; CODECS], ..rates() };
    let forms = choice(&columns, &weak, setting(DataSource::Disk, 0, 0.0)).forms;
    assert_eq!((total(&columns, &forms).on_host[LZ4], total(&columns, &forms).on_device[LZ4]), (1 << 30, 0));
    // Without a codec there is no choice.
    let plain = [column(1 << 30, Codec::None, 1 << 30, true)];
    let plain = vec![ScanColumn { heavy: plain[0].light, on_host: plain[0].light, ..plain[0].clone() }];
    assert_eq!(choice(&plain, &rates(), setting(DataSource::Disk, 0, 0.0)).reason, "only");
}

#[test]
fn columns_are_chosen_one_by_one() {
    // One column compresses well, the other does not: the device has time for one.
    let columns = vec![column(1 << 30, Codec::Lz4, 9 << 26, true), column(1 << 30, Codec::Lz4, 1 << 26, true)];
    let rates = Rates { disk: 10e9, on_device: [10e9; CODECS], on_host: [0.01e9; CODECS], ..rates() };
    let chosen = choice(&columns, &rates, setting(DataSource::Disk, 0, 0.0));
    assert_eq!(chosen.forms, [Form::Light, Form::Heavy]);
    assert!(chosen.fixed.iter().all(|fixed| chosen.predicted.total < fixed.predicted));
}

/// A random number generator with a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn between(&mut self, least: f64, most: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        least * (most / least).powf((self.0 >> 33) as f64 / (1u64 << 31) as f64)
    }
}

fn made_up(numbers: &mut Numbers) -> (Vec<ScanColumn>, Rates, Setting) {
    let count = numbers.between(1.0, 6.0) as usize;
    let columns = (0..count)
        .map(|_| {
            let light = numbers.between(1e6, 1e10);
            let codec = if numbers.between(0.5, 2.0) > 1.0 { Codec::Lz4 } else { Codec::Zstd };
            column(light as u64, codec, (light / numbers.between(1.0, 10.0)) as u64, numbers.between(0.5, 2.0) > 0.7)
        })
        .collect();
    let mut by_codec = |least, most| std::array::from_fn(|_| numbers.between(least, most));
    let (on_device, on_host) = (by_codec(1e8, 1e12), by_codec(1e8, 1e10));
    let rates = Rates {
        disk: numbers.between(1e8, 1e11),
        staging: numbers.between(1e9, 1e11),
        link: numbers.between(1e9, 1e12),
        warp: f64::INFINITY,
        on_device,
        on_host,
        threads: numbers.between(1.0, 64.0) as usize,
        measured: [true; 3 + 2 * CODECS],
    };
    let source = [DataSource::Disk, DataSource::Host, DataSource::Pinned][numbers.between(1.0, 3.99) as usize - 1];
    let setting = Setting {
        source,
        disk_limit: if numbers.between(0.5, 2.0) > 1.0 { 0 } else { numbers.between(1e8, 1e10) as u64 },
        kernels: numbers.between(1e-5, 10.0),
        batches: numbers.between(1.0, 100.0) as u64,
    };
    (columns, rates, setting)
}

#[test]
fn predictions_are_monotonous_and_choices_no_worse_than_fixed_forms() {
    let mut numbers = Numbers(1);
    for _ in 0..3000 {
        let (columns, rates, setting) = made_up(&mut numbers);
        let chosen = choice(&columns, &rates, setting);
        for fixed in &chosen.fixed {
            assert!(chosen.predicted.total <= fixed.predicted * (1.0 + 1e-9), "{columns:?} {rates:?} {setting:?}");
        }
        let work = total(&columns, &chosen.forms);
        let before = predict(&work, &rates, setting);
        let slowest = (before.read.max(before.host)).max(before.copy).max(before.decompress + before.kernels);
        assert!(before.total >= slowest && before.total <= 3.0 * slowest + 1e-12);
        // A faster rate never makes a prediction slower.
        let faster = [
            predict(&work, &Rates { disk: 2.0 * rates.disk, ..rates.clone() }, setting),
            predict(&work, &Rates { staging: 2.0 * rates.staging, ..rates.clone() }, setting),
            predict(&work, &Rates { link: 2.0 * rates.link, ..rates.clone() }, setting),
            predict(&work, &Rates { on_device: rates.on_device.map(|rate| 2.0 * rate), ..rates.clone() }, setting),
            predict(&work, &Rates { threads: 2 * rates.threads, ..rates.clone() }, setting),
            predict(&work, &rates, Setting { kernels: setting.kernels / 2.0, ..setting }),
            predict(&work, &rates, Setting { batches: 2 * setting.batches, ..setting }),
            predict(&work, &rates, Setting { disk_limit: 0, ..setting }),
        ];
        assert!(faster.iter().all(|after| after.total <= before.total * (1.0 + 1e-9)), "{before:?} {faster:?}");
        // More bytes never take less time.
        let more = Work { read: 2 * work.read, copied: 2 * work.copied, ..work };
        assert!(predict(&more, &rates, setting).total >= before.total);
    }
}

/// Simulates a machine of unknown rates `truth` for 12 runs: lists the runs that are more than 5% slower than the best fixed form.
fn missed(columns: &[ScanColumn], truth: &Rates, setting: Setting, overhead: f64) -> Vec<usize> {
    let paths = Paths::new(DeviceKind::Cuda, &DeviceRates::assumed("gpu"));
    let program = program();
    let place = (setting.source, setting.disk_limit);
    let seconds = |forms: &Forms| predict(&total(columns, forms), truth, setting).total + overhead;
    let fixed = Form::ALL.map(|form| seconds(&vec![form; columns.len()]));
    let best = fixed.into_iter().fold(f64::INFINITY, f64::min);
    let mut missed = vec![];
    for run in 0..12 {
        let chosen = paths.choose(&program, columns, place, (Representation::Auto, setting.batches));
        let took = seconds(&chosen.forms);
        if took > 1.05 * best {
            missed.push(run);
        }
        let work = total(columns, &chosen.forms);
        let stages = predict(&work, truth, setting);
        let time = Duration::from_secs_f64;
        let measured = Measured {
            total: time(took),
            copies: (work.copied, time(stages.copy)),
            link: if stages.copy > 0.0 { work.copied as f64 / stages.copy } else { 0.0 },
            on_device: (work.on_device, time(stages.decompress)),
            kernels: time(stages.kernels),
            disk: if stages.read > 2.0 * stages.host { (work.read, time(stages.read)) } else { (0, Duration::ZERO) },
            disk_least: if stages.read > 0.0 { work.read as f64 / stages.read.max(stages.host) } else { 0.0 },
            staging: if setting.source == DataSource::Host && work.on_host == [0; CODECS] {
                (work.copied, time(stages.host))
            } else {
                (0, Duration::ZERO)
            },
            ..Measured::default()
        };
        for codec in Codec::AVAILABLE {
            let bytes = work.on_host[codec as usize];
            if bytes > 0 {
                measured.on_host.add(codec, bytes, time(bytes as f64 / truth.on_host[codec as usize]));
            }
        }
        paths.learn(&program, &chosen.forms, place, (&measured, true));
    }
    missed
}

#[test]
fn choices_settle_within_five_percent_of_the_best_fixed_form() {
    let mut numbers = Numbers(7);
    let (mut late, mut many) = (0, 0);
    let cases = 400;
    for _ in 0..cases {
        let (columns, _, setting) = made_up(&mut numbers);
        // Guesses are wrong by a factor of up to five.
        let guess = Rates::new(&HardwareProfile::default(), &DeviceRates::assumed("gpu"), rayon::current_num_threads());
        let mut near = |rate: f64| rate * numbers.between(0.2, 5.0);
        let truth = Rates {
            disk: near(guess.disk),
            staging: near(guess.staging),
            link: near(guess.link),
            warp: guess.warp,
            on_device: guess.on_device.map(&mut near),
            on_host: guess.on_host.map(&mut near),
            threads: guess.threads,
            measured: guess.measured,
        };
        let overhead = numbers.between(1e-4, 1e-2);
        let missed = missed(&columns, &truth, setting, overhead);
        late += usize::from(missed.iter().any(|&run| run >= 6));
        many += usize::from(missed.len() > 3);
    }
    // Missed forms were never run, because the wrong guesses predicted them to be far slower.
    assert!(late <= cases / 20, "{late} of {cases} are not there after six runs, {many} miss it often");
    assert!(many <= cases / 20, "{many} of {cases} miss it more than three times");
}

#[test]
fn settings_force_a_form_and_previews_leave_no_trace() {
    let paths = Paths::new(DeviceKind::Cuda, &DeviceRates::assumed("gpu"));
    let (program, columns) = (program(), gigabyte());
    let place = (DataSource::Disk, 0);
    for (wanted, form) in [
        (Representation::Light, Form::Light),
        (Representation::Heavy, Form::Heavy),
        (Representation::HeavyOnHost, Form::HeavyOnHost),
    ] {
        let chosen = paths.choose(&program, &columns, place, (wanted, 8));
        assert_eq!((&chosen.forms[..], chosen.reason), (&[form][..], "forced"));
    }
    let seen = paths.preview(&program, &columns, place, (Representation::Auto, 8));
    let chosen = paths.choose(&program, &columns, place, (Representation::Auto, 8));
    assert_eq!(seen, chosen);
    // Another program has no measurements.
    let other = self::program();
    assert_eq!(paths.preview(&other, &columns, place, (Representation::Auto, 8)).fixed[0].measured, None);
}

#[test]
fn rates_are_those_of_what_was_done() {
    let paths = Paths::new(DeviceKind::Sim, &DeviceRates::simulated());
    let (program, columns) = (program(), gigabyte());
    let place = (DataSource::Disk, 0);
    let forms = paths.choose(&program, &columns, place, (Representation::Heavy, 8)).forms;
    let guess = paths.rates();
    let mut on_device = [0; CODECS];
    on_device[LZ4] = 1 << 30;
    let second = Duration::from_secs(1);
    let measured = |first| Measured {
        total: 4 * second,
        disk: (16 << 20, second),
        copies: (1000, second),
        link: 1000.0,
        on_device: (on_device, second),
        kernels: second,
        first,
        ..Measured::default()
    };
    paths.learn(&program, &forms, place, (&measured(true), true));
    let rates = paths.rates();
    assert_eq!((rates.disk, rates.on_device[LZ4]), ((16 << 20) as f64, (1 << 30) as f64));
    // Too few bytes to learn from.
    assert_eq!((rates.link, rates.on_host), (guess.link, guess.on_host));
    let known = |paths: &Paths| paths.explain(&program, &columns, place, (&forms, 8));
    assert_eq!(known(&paths).fixed[1].measured, None, "a first run says nothing of the next");
    assert_eq!(known(&paths).predicted.kernels, 1.0);
    paths.learn(&program, &forms, place, (&measured(false), false));
    assert_eq!(known(&paths).fixed[1].measured, None, "a run that began anew says nothing of whole ones");
    paths.learn(&program, &forms, place, (&measured(false), true));
    assert_eq!(known(&paths).fixed[1].measured, Some(4.0));
    paths.forget_outcomes(&program);
    assert_eq!(known(&paths).fixed[1].measured, None);
    assert_eq!(known(&paths).predicted.kernels, 1.0);
}

#[test]
fn a_rate_falls_slowly_and_by_as_much_as_was_done() {
    let mut rates = rates();
    let link = |rates: &mut Rates, bytes: u64, rate: f64| {
        rates.learn(2, bytes, bytes as f64 / rate);
        rates.link
    };
    assert_eq!(link(&mut rates, 16 << 20, 40e9), 40e9, "a guess counts for nothing");
    // A hundred short copies, which are mostly overhead, hardly lower the link's rate.
    for _ in 0..100 {
        link(&mut rates, 64 << 10, 1e9);
    }
    assert!(rates.link > 35e9, "{}", rates.link);
    // Nor does one run with other users of the link; a link that stays slow is learnt.
    assert!(link(&mut rates, 1 << 30, 10e9) > 25e9);
    for _ in 0..20 {
        link(&mut rates, 1 << 30, 10e9);
    }
    assert!(rates.link < 11e9, "{}", rates.link);
    for _ in 0..8 {
        link(&mut rates, 1 << 30, 50e9);
    }
    assert!(rates.link > 49e9, "{}", rates.link);
}

/// Short copies, and copies that wait for others, do not count for the link's rate.
#[test]
fn the_link_is_as_fast_as_its_fastest_long_copy() {
    let mut measured = Measured::default();
    measured.copied(1000, Duration::from_nanos(1));
    assert_eq!(measured.link, 0.0);
    measured.copied(4 << 20, Duration::from_millis(1));
    measured.copied(4 << 20, Duration::from_millis(4));
    assert_eq!(measured.link, f64::from(4 << 20) * 1e3);
    assert_eq!(measured.copies, ((8 << 20) + 1000, Duration::from_nanos(5_000_001)));
}

/// A few large blocks occupy a few warps only.
#[test]
fn large_blocks_of_a_small_table_are_the_hosts() {
    let mut pages = column(64 << 20, Codec::Snappy, 32 << 20, false);
    pages.undone = true;
    let choose = |pages: &ScanColumn| {
        let setting = Setting { batches: 3, ..setting(DataSource::Host, 0, 0.0) };
        choice(std::slice::from_ref(pages), &Rates { on_host: [0.2e9; CODECS], ..rates() }, setting)
    };
    assert_eq!(choose(&pages).forms, [Form::Heavy]);
    pages.heavy.largest = 1 << 20;
    let chosen = choose(&pages);
    assert!(total(&[pages.clone()], &chosen.forms).on_host.iter().any(|&bytes| bytes > 0), "{chosen:?}");
    let alone = predict(&pages.heavy, &rates(), Setting { batches: 3, ..setting(DataSource::Host, 0, 0.0) });
    assert_eq!(alone.decompress, 3.0 * f64::from(1 << 20) / rates().warp);
}

#[test]
fn a_link_is_measured_where_there_is_one() {
    let fast = Measured { copies: (1 << 30, Duration::from_secs(1)), link: 1e13, ..Measured::default() };
    let link = |kind| {
        let paths = Paths::new(kind, &DeviceRates::assumed("gpu"));
        let program = program();
        let forms = paths.choose(&program, &gigabyte(), (DataSource::Pinned, 0), (Representation::Auto, 8)).forms;
        paths.learn(&program, &forms, (DataSource::Pinned, 0), (&fast, true));
        paths.rates().link
    };
    assert_eq!(link(DeviceKind::Cuda), 1e13);
    assert_eq!(link(DeviceKind::Sim), rates().link);
}
