//! Where ROCR is. The environment names roots, a root has library directories, and a directory has
//! the library under one of several names. Every place that was looked at and not taken is kept
//! with the reason, so that one error tells them all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A place that was named or is usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// The variable that names it, or what else makes it one.
    pub(super) origin: &'static str,
}

/// The roots, in the order in which they are tried. A variable that is set to nothing is as good
/// as one that is not set.
pub(super) fn roots(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Root> {
    let named = |name: &str| variable(name).filter(|value| !value.is_empty());
    let mut roots = Vec::new();
    for origin in ["AMD_NPU_ROCR_PATH", "ROCM_PATH"] {
        if let Some(path) = named(origin) {
            let path = path.into();
            roots.push(Root { path, origin });
        }
    }
    for origin in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(environment) = named(origin) {
            let packages = site_packages(Path::new(&environment)).into_iter();
            let wheels = packages.map(|packages| packages.join("_rocm_sdk_core"));
            let present = wheels.filter(|path| path.is_dir());
            roots.extend(present.map(|path| Root { path, origin }));
        }
    }
    roots.push(Root {
        path: "/opt/rocm".into(),
        origin: "the usual place",
    });
    roots
}

/// The site-packages directories of a Python environment, newest Python first.
fn site_packages(environment: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for library in ["lib", "lib64"] {
        let pythons = entries(&environment.join(library));
        let pythons = pythons.into_iter().filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_prefix("python")?;
            let (major, minor) = name.split_once('.')?;
            let version: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
            Some((version, path.join("site-packages")))
        });
        let mut pythons: Vec<_> = pythons.collect();
        pythons.sort_by(|a, b| b.cmp(a));
        found.extend(pythons.into_iter().map(|(_, path)| path));
    }
    found
}

/// The libraries below a root, in the order in which they are tried. A root may be the library
/// itself.
pub(super) fn libraries(root: &Path) -> Result<Vec<PathBuf>, String> {
    // The loader would search its own places for a bare name.
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    if root.is_file() {
        return Ok(vec![root]);
    }
    if !root.is_dir() {
        return Err("there is no such directory".into());
    }
    let mut found = Vec::new();
    for directory in DIRECTORIES {
        let directory = root.join(directory);
        for name in [NAME, SONAME] {
            let path = directory.join(name);
            if path.is_file() {
                found.push(path);
            }
        }
        let mut versioned = entries(&directory);
        versioned.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            let version = name.and_then(|name| name.strip_prefix("libhsa-runtime64.so."));
            version.is_some_and(|version| version != "1") && path.is_file()
        });
        versioned.sort();
        found.append(&mut versioned);
    }
    if found.is_empty() {
        let directories = DIRECTORIES.join(", ");
        return Err(format!("it has no {NAME} in any of {directories}"));
    }
    Ok(found)
}

const DIRECTORIES: [&str; 3] = ["lib", "lib64", "lib/x86_64-linux-gnu"];
const NAME: &str = "libhsa-runtime64.so";
const SONAME: &str = super::sys::SONAME;

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn directory(name: &str) -> PathBuf {
        let name = format!("npu-runtime-find-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn roots_are_tried_in_the_order_of_their_authority() {
        let environment = directory("environment");
        for python in ["python3.9", "python3.12", "python3", "pypy3.10"] {
            let package = environment.join(format!("lib/{python}/site-packages/_rocm_sdk_core"));
            fs::create_dir_all(package).unwrap();
        }
        fs::create_dir_all(environment.join("lib/python3.13/site-packages")).unwrap();
        let found = roots(|name| match name {
            "AMD_NPU_ROCR_PATH" => Some("/a".into()),
            "ROCM_PATH" => Some("/b".into()),
            "VIRTUAL_ENV" => Some(environment.clone().into()),
            _ => None,
        });
        let found: Vec<_> = found
            .iter()
            .map(|root| (root.origin, &*root.path))
            .collect();
        let wheel = |python: &str| {
            let path = format!("lib/{python}/site-packages/_rocm_sdk_core");
            environment.join(path)
        };
        assert_eq!(
            found,
            [
                ("AMD_NPU_ROCR_PATH", Path::new("/a")),
                ("ROCM_PATH", Path::new("/b")),
                ("VIRTUAL_ENV", &*wheel("python3.12")),
                ("VIRTUAL_ENV", &*wheel("python3.9")),
                ("the usual place", Path::new("/opt/rocm")),
            ]
        );
        fs::remove_dir_all(environment).unwrap();
    }

    #[test]
    fn a_variable_that_is_empty_names_nothing() {
        let found = roots(|_| Some(OsString::new()));
        assert_eq!(found, roots(|_| None));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_root_gives_its_libraries_by_directory_and_then_by_name() {
        let root = directory("root");
        let names = [
            "lib/libhsa-runtime64.so.1.18.0",
            "lib/libhsa-runtime64.so.1",
            "lib/libhsa-runtime64.so.1.15.0",
            "lib/libhsa-runtime64.a",
            "lib/libhsa-runtime64.so.backup/file",
            "lib64/libhsa-runtime64.so",
            "lib/x86_64-linux-gnu/libhsa-runtime64.so.1",
        ];
        for name in names {
            touch(&root.join(name));
        }
        let expected = [
            "lib/libhsa-runtime64.so.1",
            "lib/libhsa-runtime64.so.1.15.0",
            "lib/libhsa-runtime64.so.1.18.0",
            "lib64/libhsa-runtime64.so",
            "lib/x86_64-linux-gnu/libhsa-runtime64.so.1",
        ];
        assert_eq!(
            libraries(&root).unwrap(),
            expected.map(|name| root.join(name))
        );
        // The library itself may be named as well.
        let file = root.join("lib/libhsa-runtime64.so.1");
        assert_eq!(libraries(&file).unwrap(), [&*file]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_root_without_a_library_says_what_it_lacks() {
        let root = directory("empty");
        touch(&root.join("lib/libamdhip64.so"));
        let reason = libraries(&root).unwrap_err();
        assert!(
            reason.contains("libhsa-runtime64.so") && reason.contains("lib64"),
            "{reason}"
        );
        let reason = libraries(&root.join("none")).unwrap_err();
        assert!(reason.contains("no such directory"), "{reason}");
        fs::remove_dir_all(root).unwrap();
    }
}
