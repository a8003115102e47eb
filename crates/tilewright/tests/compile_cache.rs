//! The compile cache: what is found is what was kept, whatever happened to the folder meanwhile.
#![cfg(target_os = "linux")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{model, runs_code};
use import_onnx::proto::StringStringEntryProto;
use prost::Message as _;
use tensor::TemporaryFolder;
use tilewright::compiled::Source;
use tilewright::{DType, EngineCache, Executable, Options, Tensor};

/// A model of a product with some kilobytes of weights, all times a factor.
fn text(factor: f64) -> String {
    let number = |at: usize| format!("{:.3}", factor * (((at * 37) % 64) as f64 - 32.0) / 64.0);
    let numbers = (0..48 * 96).map(number).collect::<Vec<String>>().join(", ");
    format!(
        "input x: f32[n, 48]
         constant w: f32[48, 96] {{{numbers}}}
         y = MatMul(x, w)
         z = Tanh(y)
         output z: f32[n, 96]"
    )
}

fn write_model(path: &Path, factor: f64) {
    std::fs::write(path, model(&text(factor)).encode_to_vec()).expect("written");
    // A file that has just changed is not kept: it may change again within the same tick.
    std::thread::sleep(Duration::from_millis(120));
}

fn options(cache: EngineCache, batch: i64) -> Options {
    Options { cache: Some(cache), ..Options::default() }.with_threads(1).with_dim("n", batch)
}

fn compile(path: &Path, options: &Options) -> Executable {
    tilewright::compile(path, options).unwrap_or_else(|found| panic!("{found}"))
}

fn was_found(executable: &Executable) -> bool {
    matches!(executable.source(), Source::Engine(_))
}

fn output(executable: &Executable, batch: i64) -> Tensor {
    let input = tilewright::random(DType::F32, &[batch as usize, 48], 3);
    executable.run(&[input]).unwrap_or_else(|found| panic!("{found}")).remove(0)
}

/// What the model computes without a cache.
fn expected(path: &Path, batch: i64) -> Tensor {
    output(&compile(path, &Options { cache: None, ..options(cache(path), batch) }), batch)
}

fn cache(folder: &Path) -> EngineCache {
    EngineCache::in_folder(folder)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "tw"));
    paths.sort();
    paths
}

/// Changes a byte of a file in its place.
fn damage(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("it is there");
    bytes[at] ^= 0x10;
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn what_was_compiled_is_found_until_it_is_another() {
    if !runs_code() {
        return;
    }
    let folder = TemporaryFolder::new().expect("a folder");
    let (path, kept) = (folder.path().join("model.onnx"), folder.path().join("kept"));
    write_model(&path, 1.0);
    for by_content in [false, true] {
        let cache = EngineCache { by_content, ..cache(&kept) };
        let first = compile(&path, &options(cache.clone(), 2));
        assert!(!was_found(&first));
        let again = compile(&path, &options(cache.clone(), 2));
        assert!(was_found(&again));
        assert_eq!(output(&again, 2), output(&first, 2));
        assert_eq!(output(&again, 2), expected(&path, 2));
        assert!(
            again.see_passes(&again.fixed_code().expect("a variant").0, &mut |_, _| {}).is_ok()
        );
        // Another extent, another precision, another limit.
        assert!(!was_found(&compile(&path, &options(cache.clone(), 3))));
        let other = options(cache.clone(), 2).with_precision(tilewright::Precision::Bf16);
        assert!(!was_found(&compile(&path, &other)));
        let other = options(cache.clone(), 2).with_target("x86-64-v3");
        assert!(!was_found(&compile(&path, &other)));
    }
    // The same bytes in another file: known by content alone.
    let copy = folder.path().join("copy.onnx");
    std::fs::copy(&path, &copy).expect("copied");
    assert!(!was_found(&compile(&copy, &options(cache(&kept), 2))));
    let by_content = EngineCache { by_content: true, ..cache(&kept) };
    assert!(was_found(&compile(&copy, &options(by_content.clone(), 2))));
    // Other bytes in the same file.
    write_model(&path, 0.5);
    for cache in [cache(&kept), by_content] {
        let changed = compile(&path, &options(cache, 2));
        assert!(!was_found(&changed));
        assert_eq!(output(&changed, 2), expected(&path, 2));
    }
}

#[test]
fn a_damaged_entry_is_made_anew() {
    if !runs_code() {
        return;
    }
    let folder = TemporaryFolder::new().expect("a folder");
    let (path, kept) = (folder.path().join("model.onnx"), folder.path().join("kept"));
    write_model(&path, 1.0);
    let options = options(cache(&kept), 2);
    let expected = expected(&path, 2);
    compile(&path, &options);
    let entry = entries(&kept).remove(0);
    let bytes = std::fs::metadata(&entry).expect("it is there").len() as usize;
    for at in [0, 9, 20, 70, 200, 3000, bytes / 2, bytes - 3] {
        assert!(was_found(&compile(&path, &options)));
        damage(&entry, at);
        let again = compile(&path, &options);
        assert!(!was_found(&again), "byte {at}");
        assert_eq!(output(&again, 2), expected);
    }
    // Cut short, empty, and without its seal, which is no damage.
    for length in [0, 10, bytes - 1] {
        let whole = std::fs::read(&entry).expect("it is there");
        std::fs::write(&entry, &whole[..length]).expect("written");
        assert!(!was_found(&compile(&path, &options)), "{length} bytes");
        assert!(was_found(&compile(&path, &options)));
    }
    std::fs::remove_file(entry.with_extension("seal")).expect("it is there");
    let again = compile(&path, &options);
    assert!(was_found(&again));
    assert_eq!(output(&again, 2), expected);
    assert!(entry.with_extension("seal").is_file());
}

#[test]
fn a_folder_that_cannot_be_written_is_told_once() {
    if !runs_code() {
        return;
    }
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let folder = TemporaryFolder::new().expect("a folder");
    let path = folder.path().join("model.onnx");
    write_model(&path, 1.0);
    let mut cache = cache(&path.join("no_folder"));
    cache.report = Some(|found| {
        assert_eq!(found.code, "TW0301");
        TOLD.fetch_add(1, Ordering::Relaxed);
    });
    for batch in [1, 2, 3] {
        let made = compile(&path, &options(cache.clone(), batch));
        assert_eq!(output(&made, batch), expected(&path, batch));
    }
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
}

/// A file system of few bytes in a folder.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where it cannot be mounted.
    fn mounted(folder: &Path, bytes: usize) -> Option<SmallDisk> {
        std::fs::create_dir_all(folder).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"]).arg(folder);
        let is_mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        is_mounted.then(|| SmallDisk(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.0).status().expect("`umount` beside `mount`");
        assert!(status.success() || std::thread::panicking(), "{status}");
    }
}

#[test]
fn what_does_not_fit_the_disk_is_not_kept() {
    if !runs_code() {
        return;
    }
    let folder = TemporaryFolder::new().expect("a folder");
    let path = folder.path().join("model.onnx");
    write_model(&path, 1.0);
    compile(&path, &options(cache(&folder.path().join("kept")), 1));
    let entry = std::fs::metadata(&entries(&folder.path().join("kept"))[0]).expect("it is there");
    let bytes = entry.len() as usize;
    for (number, size) in [8192, bytes / 2, bytes - 4096, bytes + 3 * 4096].iter().enumerate() {
        let place = folder.path().join(format!("disk{number}"));
        let Some(_disk) = SmallDisk::mounted(&place, *size) else {
            println!("skipped: a file system of few bytes cannot be mounted here");
            return;
        };
        let kept = place.join("kept");
        for batch in [1, 2, 1] {
            let made = compile(&path, &options(cache(&kept), batch));
            assert_eq!(output(&made, batch), expected(&path, batch));
            // The first may fit, and is not lost where the second does not.
            assert_eq!(entries(&kept).len(), usize::from(*size > bytes));
        }
        let left = std::fs::read_dir(&kept).into_iter().flatten().flatten();
        let is_part =
            |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with('.');
        assert!(!left.into_iter().any(|file| is_part(&file)), "a part of {size} bytes is left");
    }
}

#[test]
fn what_was_used_longest_ago_leaves_first() {
    if !runs_code() {
        return;
    }
    let folder = TemporaryFolder::new().expect("a folder");
    let (path, kept) = (folder.path().join("model.onnx"), folder.path().join("kept"));
    write_model(&path, 1.0);
    compile(&path, &options(cache(&kept), 1));
    let bytes = std::fs::metadata(&entries(&kept)[0]).expect("it is there").len();
    let cache = EngineCache { most_bytes: bytes * 7 / 2, ..cache(&kept) };
    for batch in [2, 3] {
        std::thread::sleep(Duration::from_millis(20));
        compile(&path, &options(cache.clone(), batch));
    }
    std::thread::sleep(Duration::from_millis(20));
    assert!(was_found(&compile(&path, &options(cache.clone(), 1))));
    std::thread::sleep(Duration::from_millis(20));
    compile(&path, &options(cache.clone(), 4));
    assert_eq!(entries(&kept).len(), 3);
    let found: Vec<bool> =
        [1, 3, 4].map(|batch| was_found(&compile(&path, &options(cache.clone(), batch)))).into();
    assert_eq!(found, [true; 3]);
    assert!(!was_found(&compile(&path, &options(cache, 2))));
}

/// Where a process of [`processes_that_are_killed_lose_nothing`] finds its model and its cache.
const FOLDER: &str = "TILEWRIGHT_CACHE_FOLDER";

/// The extents that such processes compile for.
const EXTENTS: i64 = 5;

fn crowded(kept: &Path) -> EngineCache {
    // Too little for all, so that entries are written all the time.
    EngineCache { most_bytes: 110_000, ..cache(kept) }
}

/// What each of the processes does, until it is killed: a part of the test below.
#[test]
fn one_of_many_processes() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let (path, kept) = (folder.join("model.onnx"), folder.join("kept"));
    let right: Vec<Tensor> = (1..=EXTENTS).map(|batch| expected(&path, batch)).collect();
    let mut seed = u64::from(std::process::id());
    for _ in 0..2000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let batch = 1 + (seed >> 33) as i64 % EXTENTS;
        let made = compile(&path, &options(crowded(&kept), batch));
        assert_eq!(output(&made, batch), right[batch as usize - 1], "a wrong answer");
    }
}

#[test]
fn processes_that_are_killed_lose_nothing() {
    if !runs_code() {
        return;
    }
    let kills: u64 =
        std::env::var("TILEWRIGHT_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(6);
    let folder = TemporaryFolder::new().expect("a folder");
    let (path, kept) = (folder.path().join("model.onnx"), folder.path().join("kept"));
    write_model(&path, 1.0);
    let start = || -> Child {
        Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "one_of_many_processes"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process")
    };
    let mut running: Vec<Child> = (0..8).map(|_| start()).collect();
    let mut seed = 17_u64;
    for _ in 0..kills {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(30 + (seed >> 40) % 300));
        let number = (seed >> 33) as usize % running.len();
        if let Some(status) = running[number].try_wait().expect("its status") {
            assert!(status.success(), "a process gave a wrong answer: {status}");
        }
        running[number].kill().expect("killed");
        running[number].wait().expect("its status");
        running[number] = start();
    }
    for mut process in running {
        if let Some(status) = process.try_wait().expect("its status") {
            assert!(status.success(), "a process gave a wrong answer: {status}");
        }
        process.kill().expect("killed");
        process.wait().expect("its status");
    }
    // Every entry that is there is whole, and what is kept now is found.
    for entry in entries(&kept) {
        let source = tilewright::compiled::EngineSource::open(&entry);
        let source = source.unwrap_or_else(|found| panic!("{found}"));
        source.check_constants().unwrap_or_else(|found| panic!("{found}"));
    }
    for batch in 1..=EXTENTS {
        compile(&path, &options(crowded(&kept), batch));
        let made = compile(&path, &options(crowded(&kept), batch));
        assert!(was_found(&made), "batch {batch}");
        assert_eq!(output(&made, batch), expected(&path, batch));
    }
}

#[test]
fn other_external_data_is_another_model() {
    if !runs_code() {
        return;
    }
    let folder = TemporaryFolder::new().expect("a folder");
    let (path, kept) = (folder.path().join("model.onnx"), folder.path().join("kept"));
    let mut own = model(&text(1.0));
    let tensor = &mut own.graph.as_mut().expect("a graph").initializer[0];
    (tensor.raw_data, tensor.data_location) = (None, 1);
    tensor.float_data.clear();
    let (key, value) = ("location".to_owned(), "weights.bin".to_owned());
    tensor.external_data.push(StringStringEntryProto { key, value });
    std::fs::write(&path, own.encode_to_vec()).expect("written");
    for (by_content, number) in [(false, 0.5_f32), (true, 0.25)] {
        let cache = EngineCache { by_content, ..cache(&kept) };
        for factor in [1.0, 2.0] {
            let weights = (number * factor).to_le_bytes().repeat(48 * 96);
            std::fs::write(folder.path().join("weights.bin"), weights).expect("written");
            std::thread::sleep(Duration::from_millis(120));
            let made = compile(&path, &options(cache.clone(), 2));
            assert!(!was_found(&made), "{by_content}, {factor}");
            let again = compile(&path, &options(cache.clone(), 2));
            assert!(was_found(&again), "{by_content}, {factor}");
            assert_eq!(output(&again, 2), expected(&path, 2));
        }
    }
}
