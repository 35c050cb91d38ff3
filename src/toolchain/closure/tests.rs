//! The dynamic loader itself says what is right: `ldd` prints what it loads, and from where.

use std::process::Command;
use std::time::SystemTime;

use super::*;

/// The shared libraries outside the base system that the loader takes, by their real paths.
fn loaded_by_ldd(program: &Path) -> BTreeSet<PathBuf> {
    let output = Command::new("ldd")
        .arg(program)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let paths = text.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        (!is_base(name.as_bytes()))
            .then(|| rest.rsplit_once(" (").map(|(path, _)| PathBuf::from(path)))?
    });
    paths.map(|path| path.canonicalize().unwrap()).collect()
}

fn found(program: &Path) -> Result<BTreeSet<PathBuf>, Reason> {
    let parts = parts(
        "program",
        program,
        &mut Loader::host(),
        &mut Watch::new(SystemTime::now()),
    )?;
    Ok(parts
        .into_iter()
        .skip(1)
        .map(|part| part.path.canonicalize().unwrap())
        .collect())
}

fn assert_agrees_with_ldd(program: &Path) -> BTreeSet<PathBuf> {
    let found = found(program).unwrap();
    assert_eq!(found, loaded_by_ldd(program), "{}", program.display());
    found
}

#[test]
fn real_tools_load_what_the_loader_says() {
    let bin = [
        "mlir-opt",
        "mlir-translate",
        "clang",
        "lld",
        "opt",
        "llvm-objcopy",
    ];
    let bin = bin
        .iter()
        .map(|tool| Path::new("/usr/lib/llvm-22/bin").join(tool));
    let usual = [
        "ld", "python3", "gcc", "as", "gdb", "git", "perl", "cmake", "ssh",
    ];
    for program in bin.chain(usual.iter().map(|tool| Path::new("/usr/bin").join(tool))) {
        if program.exists() {
            let found = assert_agrees_with_ldd(&program);
            println!(
                "{}: {} libraries outside the base system",
                program.display(),
                found.len()
            );
        } else {
            println!("{}: not on this machine", program.display());
        }
    }
}

/// A directory in which gcc makes programs and libraries.
struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Self {
        let workshop = Self(tempfile::tempdir().unwrap());
        std::fs::write(workshop.path("main.c"), "int main(void) { return 0; }").unwrap();
        std::fs::write(workshop.path("empty.c"), "").unwrap();
        workshop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `words` are gcc's arguments; the directories that they name exist.
    fn gcc(&self, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        for word in &words {
            std::fs::create_dir_all(self.path(word).parent().unwrap()).unwrap();
        }
        let status = Command::new("gcc")
            .arg("-Wl,--no-as-needed")
            .args(&words)
            .current_dir(self.0.path())
            .status();
        assert!(status.unwrap().success(), "gcc {words:?}");
    }

    fn library(&self, path: &str, needs: &str) {
        let soname = Path::new(path).file_name().unwrap().to_str().unwrap();
        self.gcc(
            format!("-shared -fPIC -Wl,-soname,{soname} -o {path} empty.c {needs}").trim_end(),
        );
    }
}

#[test]
fn rpath_is_inherited_and_runpath_is_not() {
    let workshop = Workshop::new();
    workshop.library("deep/libdeep.so", "");
    workshop.library("lib/libfirst.so", "deep/libdeep.so");
    for (name, tags) in [
        ("rpath", "--disable-new-dtags"),
        ("runpath", "--enable-new-dtags"),
    ] {
        let paths = format!("-Wl,{tags},-rpath,$ORIGIN/lib:$ORIGIN/deep");
        workshop.gcc(&format!(
            "-o {name} main.c lib/libfirst.so {paths} -Wl,-rpath-link,deep"
        ));
    }
    assert_eq!(assert_agrees_with_ldd(&workshop.path("rpath")).len(), 2);
    let missing = Reason::NoLibrary {
        library: "libdeep.so".to_owned(),
        needed_by: workshop.path("lib/libfirst.so"),
    };
    assert_eq!(found(&workshop.path("runpath")), Err(missing));
}

#[test]
fn a_librarys_runpath_hides_the_rpath_of_what_loads_it() {
    let workshop = Workshop::new();
    workshop.library("one/libdeep.so", "");
    workshop.library("two/libdeep.so", "");
    workshop.library(
        "lib/libfirst.so",
        "one/libdeep.so -Wl,--enable-new-dtags,-rpath,$ORIGIN/../two",
    );
    workshop.gcc(
        "-o main main.c lib/libfirst.so -Wl,--disable-new-dtags,-rpath,$ORIGIN/lib:$ORIGIN/one",
    );
    let found = assert_agrees_with_ldd(&workshop.path("main"));
    assert!(
        found.contains(&workshop.path("two/libdeep.so").canonicalize().unwrap()),
        "{found:?}"
    );
}

#[test]
fn a_library_that_is_already_loaded_is_not_searched_again() {
    let workshop = Workshop::new();
    workshop.library("one/libshared.so", "");
    workshop.library("two/libshared.so", "");
    workshop.library(
        "lib/libuser.so",
        "two/libshared.so -Wl,--enable-new-dtags,-rpath,$ORIGIN/../two",
    );
    let paths = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/lib:$ORIGIN/one";
    workshop.gcc(&format!(
        "-o main main.c one/libshared.so lib/libuser.so {paths}"
    ));
    let found = assert_agrees_with_ldd(&workshop.path("main"));
    assert!(
        !found.contains(&workshop.path("two/libshared.so").canonicalize().unwrap()),
        "{found:?}"
    );
}

#[test]
fn a_build_for_this_processor_is_preferred_and_other_architectures_are_passed_by() {
    let workshop = Workshop::new();
    workshop.library("lib/libx.so", "");
    for level in ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v9"] {
        workshop.library(&format!("lib/glibc-hwcaps/{level}/libx.so"), "");
    }
    workshop.library("foreign/libx.so", "");
    // e_machine, at 18, becomes EM_68K.
    let mut foreign = std::fs::read(workshop.path("foreign/libx.so")).unwrap();
    foreign[18..20].copy_from_slice(&[4, 0]);
    std::fs::write(workshop.path("foreign/libx.so"), foreign).unwrap();
    let paths = "-Wl,--enable-new-dtags,-rpath,${ORIGIN}/foreign:${ORIGIN}/lib";
    workshop.gcc(&format!("-o main main.c lib/libx.so {paths}"));
    assert_eq!(assert_agrees_with_ldd(&workshop.path("main")).len(), 1);
}

#[test]
fn origin_is_the_real_directory_of_a_program_and_the_named_one_of_a_library() {
    let workshop = Workshop::new();
    workshop.library("store/libdeep.so", "");
    workshop.library("links/libdeep.so", "");
    workshop.library(
        "store/libfirst.so",
        "store/libdeep.so -Wl,--enable-new-dtags,-rpath,$ORIGIN",
    );
    workshop
        .gcc("-o bin/main main.c store/libfirst.so -Wl,--enable-new-dtags,-rpath,$ORIGIN/../links");
    std::os::unix::fs::symlink("../store/libfirst.so", workshop.path("links/libfirst.so")).unwrap();
    std::os::unix::fs::symlink("bin/main", workshop.path("main")).unwrap();
    let run = Command::new(workshop.path("main"))
        .env_clear()
        .status()
        .unwrap();
    assert!(run.success(), "a link to the program finds its libraries");
    let expected = assert_agrees_with_ldd(&workshop.path("bin/main"));
    assert!(
        expected.contains(&workshop.path("links/libdeep.so").canonicalize().unwrap()),
        "{expected:?}"
    );
    assert_eq!(found(&workshop.path("main")).unwrap(), expected);
}

#[test]
fn a_damaged_library_is_an_error_as_it_is_for_the_loader() {
    let workshop = Workshop::new();
    workshop.library("lib/libx.so", "");
    workshop.gcc("-o main main.c lib/libx.so -Wl,-rpath,$ORIGIN/lib");
    std::fs::write(workshop.path("lib/libx.so"), "not a library").unwrap();
    let run = Command::new(workshop.path("main"))
        .env_clear()
        .output()
        .unwrap();
    assert!(!run.status.success());
    let real = workshop.path("lib/libx.so");
    assert_eq!(
        found(&workshop.path("main")),
        Err(Reason::NoProgram { file: real })
    );
}

#[test]
fn scripts_that_call_each_other_end() {
    use std::os::unix::fs::PermissionsExt;
    let workshop = Workshop::new();
    let (one, two) = (workshop.path("one"), workshop.path("two"));
    for (script, other) in [(&one, &two), (&two, &one)] {
        std::fs::write(
            script,
            format!("#!/bin/sh\nexec {} \"$@\"\n", other.display()),
        )
        .unwrap();
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(
        found(&one).unwrap(),
        BTreeSet::from([two.canonicalize().unwrap()])
    );
}

/// Directories that older versions of the loader prefer: what lies there counts, whichever is taken.
#[test]
fn libraries_in_directories_of_old_for_some_processors_count() {
    let workshop = Workshop::new();
    workshop.library("lib/libx.so", "");
    workshop.gcc("-o main main.c lib/libx.so -Wl,-rpath,$ORIGIN/lib");
    let main = workshop.path("main");
    assert_eq!(found(&main).unwrap().len(), 1);
    let mut expected = found(&main).unwrap();
    for (number, directory) in ["tls", "tls/x86_64", "haswell", "x86_64"]
        .iter()
        .enumerate()
    {
        workshop.library(&format!("lib/{directory}/libx.so"), "");
        let library = workshop.path(&format!("lib/{directory}/libx.so"));
        expected.insert(library.canonicalize().unwrap());
        let found = found(&main).unwrap();
        assert!(found.is_superset(&loaded_by_ldd(&main)), "{directory}");
        if std::env::consts::ARCH == "x86_64" {
            assert_eq!(found, expected, "{number}: {directory}");
        }
    }
}

/// A script that is no program may be given to an interpreter, or be made a program later.
#[test]
fn scripts_that_are_no_programs_count() {
    use std::os::unix::fs::PermissionsExt;
    let workshop = Workshop::new();
    let (outer, inner) = (workshop.path("outer"), workshop.path("inner"));
    std::fs::write(
        &outer,
        format!("#!/bin/sh\nexec sh {} \"$@\"\n", inner.display()),
    )
    .unwrap();
    std::fs::set_permissions(&outer, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(&inner, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut watch = Watch::new(SystemTime::now());
    let parts = parts("outer", &outer, &mut Loader::host(), &mut watch).unwrap();
    let paths: Vec<_> = parts.iter().map(|part| part.path.clone()).collect();
    assert_eq!(paths, [outer, inner]);
}

/// The usual form of a wrapper. What `ldd` says with that variable is right, before RUNPATH and behind
/// RPATH.
#[test]
fn a_wrapper_says_where_libraries_are() {
    use std::os::unix::fs::PermissionsExt;
    let workshop = Workshop::new();
    for directory in ["wrapped", "own"] {
        workshop.library(&format!("{directory}/libx.so"), "");
    }
    workshop.library("wrapped/liby.so", "");
    for tags in ["--disable-new-dtags", "--enable-new-dtags"] {
        workshop.gcc(&format!(
            "-o main main.c own/libx.so wrapped/liby.so -Wl,{tags},-rpath,$ORIGIN/own"
        ));
        let (main, wrapper) = (workshop.path("main"), workshop.path("wrapper"));
        let directory = workshop.path("wrapped");
        let text = format!(
            "#!/bin/sh\nexport LD_LIBRARY_PATH=\"{}:$LD_LIBRARY_PATH\"\nexec {} \"$@\"\n",
            directory.display(),
            main.display()
        );
        std::fs::write(&wrapper, text).unwrap();
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new("ldd")
            .arg(&main)
            .env_clear()
            .env("LD_LIBRARY_PATH", &directory)
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let found = found(&wrapper).unwrap();
        assert_eq!(found.len(), 3, "{tags}: {found:?}");
        for path in found.iter().filter(|path| !path.ends_with("main")) {
            assert!(
                told.contains(path.to_str().unwrap()),
                "{tags}: {path:?} is not in {told}"
            );
        }
    }
}

#[test]
fn what_a_script_reads_counts_and_what_it_writes_does_not() {
    use std::os::unix::fs::PermissionsExt;
    let workshop = Workshop::new();
    let real = workshop.0.path().canonicalize().unwrap();
    let place = |name: &str| real.join(name);
    std::fs::create_dir(place("my tools")).unwrap();
    for (name, text, mode) in [
        ("my tools/clang", "#!/bin/sh\n".to_owned(), 0o755),
        ("options", format!(". {}\n", place("more").display()), 0o644),
        ("more", "X=-O3\n".to_owned(), 0o644),
        ("flags.rsp", "-O2\n".to_owned(), 0o644),
        ("log", "once\n".to_owned(), 0o644),
        (
            "wrapper",
            format!(
                "#!/bin/sh\n. {0}/options\necho run >> {0}/log\nexec \"{0}/my tools/clang\" \
                 ${{EXTRA:-@{0}/flags.rsp}} $(cat /proc/version) \"$@\"\n",
                real.display()
            ),
            0o755,
        ),
    ] {
        std::fs::write(place(name), text).unwrap();
        std::fs::set_permissions(place(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let expected = ["options", "more", "my tools/clang", "flags.rsp"].map(place);
    assert_eq!(found(&place("wrapper")).unwrap(), BTreeSet::from(expected));
}
