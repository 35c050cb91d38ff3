//! What is packed is what upstream's tools pack.

use super::files::{Elf, data, llvm, path, stream};
use npu_formats::container::{Container, Elf64};
use npu_formats::full_elf::{self, FullElf};
use npu_formats::insts::{Insts, InstsFault};
use npu_formats::pack::{InputFault, Kernel, PackFault, Unloadable, pack, section};
use npu_formats::section::{Section, SectionImage};
use npu_formats::spec::{KernelOption, Spec};
use npu_formats::xclbin::Xclbin;
use npu_formats::{Arch, KernelKind, pdi};

/// formats.md's worked example, as ROCR's documentation prints it.
const WORKED_EXAMPLE: &str = "
41 49 45 4b 01 00 00 00 30 00 00 00 02 00 00 00 2c 00 00 00 88 00 00 00 06 00 00 00 8e 00 00 00
00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 8e 00 00 00 08 00 00 00 96 00 00 00
08 00 00 00 20 00 00 00 04 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 03 00 00 00
8e 00 00 00 08 00 00 00 96 00 00 00 08 00 00 00 10 00 00 00 04 00 00 00 00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00 6b 31 00 6b 32 00 01 02 03 04 05 06 07 08 50 44 49 44 41 54 41 21";

fn worked_example() -> Vec<u8> {
    WORKED_EXAMPLE
        .split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

fn packed(arch: Arch, kernels: &[Kernel<'_>]) -> Vec<u8> {
    let (image, refused) = section(arch, kernels, Unloadable::Refuse).unwrap();
    assert_eq!(refused, []);
    Container::fresh(arch, &image).to_vec().unwrap()
}

#[test]
fn the_worked_example_comes_out_byte_for_byte() {
    let (insts, pdi) = ([1, 2, 3, 4, 5, 6, 7, 8], b"PDIDATA!");
    let kernels = [
        Kernel::of_pdi("k1", &insts, pdi, 32, 4),
        Kernel::of_pdi("k2", &insts, pdi, 16, 4),
    ];
    let (image, _) = section(Arch::Aie2p, &kernels, Unloadable::Refuse).unwrap();
    assert_eq!(image.to_vec(), worked_example());
    assert_eq!(image.size(), 158);
    let file = packed(Arch::Aie2p, &kernels);
    assert_eq!(file[0x51..0x51 + 158], worked_example());
}

#[test]
fn upstreams_files_come_out_byte_for_byte() {
    let copy = data("copy_npu2/aie.elf");
    let two = data("two_kernels_npu2/aie.elf");
    let (xclbin1, insts1) = (data("copy_npu1/design.xclbin"), data("copy_npu1/insts.bin"));
    let (pdi2, insts2) = (data("copy_npu2/design.pdi"), data("copy_npu2/insts.bin"));
    let xclbin2 = data("copy_npu2/design.xclbin");
    let name = "MLIR_AIE";
    for (expected, arch, kernels) in [
        (
            "copy_npu2_elf",
            Arch::Aie2p,
            Kernel::of_elf(&copy, 32, Some(8)).unwrap(),
        ),
        (
            "two_kernels_npu2_elf",
            Arch::Aie2p,
            Kernel::of_elf(&two, 0, None).unwrap(),
        ),
        (
            "copy_npu1_xclbin",
            Arch::Aie2,
            vec![Kernel::of_xclbin(name, &xclbin1, &insts1, 32, Some(4)).unwrap()],
        ),
        (
            "copy_npu2_pdi",
            Arch::Aie2p,
            vec![Kernel::of_pdi(name, &insts2, &pdi2, 32, 8)],
        ),
        (
            "copy_npu2_pdi",
            Arch::Aie2p,
            vec![Kernel::of_xclbin(name, &xclbin2, &insts2, 32, None).unwrap()],
        ),
    ] {
        let upstream = data(&format!("upstream_hsaco/{expected}.hsaco"));
        assert!(packed(arch, &kernels) == upstream, "{expected}");
    }
}

#[test]
fn blobs_are_kept_once_in_the_order_of_their_first_use() {
    let kernels = [
        stream("a", b"one.", b"two."),
        stream("b", b"two.", b"three..."),
        stream("c", b"one.", b"three..."),
    ];
    let image = SectionImage::new(&kernels).unwrap().to_vec();
    assert!(image.ends_with(b"a\0b\0c\0one.two.three..."));
    let parsed = Section::parse(&image).unwrap().check().unwrap();
    for (kernel, parsed) in kernels.iter().zip(parsed) {
        assert_eq!(parsed.name, kernel.name.as_bytes());
        assert_eq!((parsed.insts, parsed.pdi), (kernel.insts, kernel.pdi));
    }
}

#[test]
fn objcopy_extracts_the_section_that_was_packed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("k.hsaco");
    std::fs::write(&file, data("upstream_hsaco/two_kernels_npu2_elf.hsaco")).unwrap();
    let specs = specs(&[("--kernel", path_spec("xclbin:k:", "copy_npu1", ":32"))]);
    pack(&file, Arch::Aie2, &specs, Unloadable::Refuse).unwrap();
    let written = std::fs::read(&file).unwrap();
    let elf = Elf64::parse(&written).unwrap();
    for arch in Arch::ALL {
        let out = directory.path().join(arch.name());
        let option = format!("--dump-section={arch}={}", out.display());
        llvm("llvm-objcopy", &[&option, &file, &"/dev/null"]);
        assert_eq!(
            std::fs::read(&out).unwrap(),
            elf.section(arch).unwrap().unwrap()
        );
    }
}

/// `prefix` + xclbin and insts of a design + `suffix`.
fn path_spec(prefix: &str, design: &str, suffix: &str) -> String {
    format!(
        "{prefix}{}:{}{suffix}",
        path(&format!("{design}/design.xclbin")).display(),
        path(&format!("{design}/insts.bin")).display()
    )
}

fn specs(options: &[(&str, String)]) -> Vec<Spec> {
    let options = options.iter().map(|(flag, value)| {
        let option = KernelOption::ALL
            .into_iter()
            .find(|option| option.flag() == *flag);
        (option.unwrap(), value.into())
    });
    Spec::from_options(options).unwrap()
}

#[test]
fn a_second_architecture_gives_what_objcopy_gives() {
    let directory = tempfile::tempdir().unwrap();
    let both = [
        (Arch::Aie2p, "two_kernels_npu2_elf"),
        (Arch::Aie2, "copy_npu1_xclbin"),
    ];
    for (first, second) in [(both[0], both[1]), (both[1], both[0])] {
        let start = data(&format!("upstream_hsaco/{}.hsaco", first.1));
        let other = data(&format!("upstream_hsaco/{}.hsaco", second.1));
        let other = Elf64::parse(&other)
            .unwrap()
            .section(second.0)
            .unwrap()
            .unwrap();
        let kernels: Vec<_> = Section::parse(other).unwrap().check().unwrap();
        let kernels: Vec<_> = kernels
            .iter()
            .map(|kernel| npu_formats::section::WriteKernel {
                name: std::str::from_utf8(kernel.name).unwrap(),
                kind: kernel.kind,
                insts: kernel.insts,
                pdi: kernel.pdi,
                kernarg_size: kernel.entry.kernarg_size,
                columns: kernel.entry.columns,
            })
            .collect();
        let image = SectionImage::new(&kernels).unwrap();
        assert_eq!(image.to_vec(), other, "what is read is written again");

        let (input, section, output) = (
            directory.path().join("in"),
            directory.path().join("section"),
            directory.path().join("out"),
        );
        let mut ours = start.clone();
        std::fs::write(&input, &start).unwrap();
        std::fs::write(&section, other).unwrap();
        // Once to add the section, once to replace it.
        for _ in 0..2 {
            let arch = second.0;
            llvm(
                "llvm-objcopy",
                &[
                    &format!("--remove-section={arch}"),
                    &format!("--add-section={arch}={}", section.display()),
                    &format!("--set-section-flags={arch}=noload,readonly"),
                    &input,
                    &output,
                ],
            );
            std::fs::copy(&output, &input).unwrap();
            ours = Container::edited(&ours, arch, &image)
                .unwrap()
                .to_vec()
                .unwrap();
            assert!(ours == std::fs::read(&output).unwrap());
        }
    }
}

#[test]
fn a_full_elf_says_what_real_tools_put_into_it() {
    for (design, abi, columns, names) in [
        ("copy_npu2", 33, 8, vec!["copyrows:copy"]),
        ("copy_npu2_4col", 33, 4, vec!["wide:run"]),
        (
            "two_kernels_npu2",
            33,
            8,
            vec!["first:copy_i32", "second:copy_i8"],
        ),
    ] {
        let bytes = data(&format!("{design}/aie.elf"));
        let elf = FullElf::parse(&bytes, Arch::Aie2p).unwrap();
        assert_eq!(elf.abi_version, abi);
        let outline = full_elf::outline(&bytes).unwrap();
        assert_eq!(outline.columns, Some(columns));
        assert_eq!(
            elf.kernels
                .iter()
                .map(|kernel| kernel.name())
                .collect::<Vec<_>>(),
            names
        );
        for (number, kernel) in (1_u8..).zip(&elf.kernels) {
            // ROCR's own parser: PDI site 0x18, argument sites 0x30 and 0x90, kernarg 32.
            let [pdi] = kernel.pdis.as_slice() else {
                panic!("{:?}", kernel.pdis)
            };
            assert_eq!(pdi.offset, 0x18);
            assert_eq!(pdi.name, [b".pdi.", &[b'0' + number][..]].concat());
            pdi::validate(pdi.image).unwrap();
            let sites: Vec<_> = (kernel.arguments.iter())
                .map(|site| (site.argument, site.offset, site.addend))
                .collect();
            assert_eq!(sites, [(0, 0x30, 0), (1, 0x90, 0)]);
            assert_eq!(kernel.kernarg_size(), 32);
            let insts = Insts::parse_for(kernel.control, Arch::Aie2p).unwrap();
            assert_eq!((insts.rows, insts.memory_rows), (6, 1));
        }
    }
}

#[test]
fn the_pdi_of_a_full_elf_is_the_one_of_the_xclbin() {
    let bytes = data("copy_npu2/aie.elf");
    let elf = FullElf::parse(&bytes, Arch::Aie2p).unwrap();
    assert!(elf.kernels[0].pdis[0].image == data("copy_npu2/design.pdi"));
}

#[test]
fn xclbins_are_read_as_xclbinutil_reads_them() {
    for design in ["copy_npu1", "copy_npu2", "copy_npu2_4col"] {
        let bytes = data(&format!("{design}/design.xclbin"));
        let xclbin = Xclbin::parse(&bytes).unwrap();
        let partition = xclbin.partition().unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&data(&format!("{design}/xclbinutil_dump.json"))).unwrap();
        let expected = &json["aie_partition"];
        let shape = &expected["partition"];
        assert_eq!(shape["column_width"], partition.column_width.to_string());
        let starts: Vec<_> = (partition.start_columns.iter())
            .map(ToString::to_string)
            .collect();
        assert_eq!(shape["start_columns"], serde_json::json!(starts));
        assert_eq!(expected["PDIs"].as_array().unwrap().len(), 1);
        assert_eq!(
            expected["PDIs"][0]["uuid"],
            partition.pdis[0].uuid.to_string()
        );
        let pdi = data(&format!("{design}/design.pdi"));
        assert!(partition.only_pdi().unwrap() == pdi);
        assert!(bytes[0x408..0x408 + pdi.len()] == pdi);
        pdi::validate(&pdi).unwrap();

        assert_eq!(xclbin.kernel_names().unwrap(), [b"MLIR_AIE:MLIRAIE"]);
        let [kernel] = &xclbin.kernels().unwrap()[..] else {
            panic!("one kernel")
        };
        assert_eq!((&*kernel.name, &*kernel.kind), ("MLIR_AIE", "dpu"));
        assert_eq!(kernel.instances, ["MLIRAIE"]);
        let offsets: Vec<_> = (kernel.arguments.iter())
            .map(|argument| argument.offset)
            .collect();
        assert_eq!(offsets, [0, 8, 0x10, 0x14, 0x1c, 0x24, 0x2c, 0x34]);
    }
}

#[test]
fn an_instruction_stream_fits_its_generation() {
    let npu1 = data("copy_npu1/insts.bin");
    let npu2 = data("copy_npu2/insts.bin");
    assert_eq!(Insts::parse_for(&npu1, Arch::Aie2).unwrap().columns, 4);
    assert_eq!(Insts::parse_for(&npu2, Arch::Aie2p).unwrap().columns, 8);
    assert_eq!(
        Insts::parse_for(&npu1, Arch::Aie2p),
        Err(InstsFault::Generation {
            found: 3,
            arch: Arch::Aie2p
        })
    );
    assert_eq!(Insts::parse(&[]), Err(InstsFault::Empty));
    for cut in 1..npu1.len() {
        assert!(Insts::parse(&npu1[..cut]).is_err(), "{cut} bytes");
    }
    let longer = [&npu1[..], &[0; 4]].concat();
    assert_eq!(
        Insts::parse(&longer),
        Err(InstsFault::Size {
            declared: 300,
            size: 304
        })
    );
}

#[test]
fn what_rocr_would_refuse_is_refused_with_its_reason() {
    let elf = data("copy_npu2/aie.elf");
    let npu1 = data("copy_npu1/insts.bin");
    let (insts, pdi) = (data("copy_npu2/insts.bin"), data("copy_npu2/design.pdi"));
    let mut other_abi = Elf::copy_npu2();
    other_abi.0[8] = 1;
    let mut empty_pdi = Elf::copy_npu2();
    empty_pdi.put_header(".pdi.1", 0, 20, 0);
    let with = |change: fn(&mut Kernel<'_>)| {
        let mut kernel = Kernel::of_pdi("k", &insts, &pdi, 32, 8);
        change(&mut kernel);
        vec![kernel]
    };
    for (arch, kernels, reason) in [
        (
            Arch::Aie2p,
            with(|kernel| kernel.columns = 0),
            "declares 0 columns; the agent has 8",
        ),
        (
            Arch::Aie2p,
            with(|kernel| kernel.columns = 9),
            "declares 9 columns; the agent has 8",
        ),
        (
            Arch::Aie2,
            with(|kernel| kernel.columns = 5),
            "declares 5 columns; the agent has 4",
        ),
        (
            Arch::Aie2p,
            with(|kernel| kernel.pdi = &[]),
            "has no PDI to configure the array with",
        ),
        (
            Arch::Aie2p,
            with(|kernel| kernel.insts = &kernel.insts[..9]),
            "no multiple of 4",
        ),
        (
            Arch::Aie2p,
            vec![Kernel::of_pdi("k", &npu1, &pdi, 32, 4)],
            "is for device generation 3, aie2p is generation 4",
        ),
        (
            Arch::Aie2,
            Kernel::of_elf(&elf, 0, None)
                .unwrap()
                .into_iter()
                .map(|kernel| Kernel {
                    columns: 4,
                    ..kernel
                })
                .collect(),
            "no full-ELF format for arch aie2",
        ),
        (
            Arch::Aie2p,
            Kernel::of_elf(&elf, 48, None).unwrap(),
            "kernarg size mismatch",
        ),
        (
            Arch::Aie2p,
            Kernel::of_elf(&other_abi.0, 0, None).unwrap(),
            "unexpected patch scheme for PDI symbol",
        ),
        (
            Arch::Aie2p,
            Kernel::of_elf(&empty_pdi.0, 0, None).unwrap(),
            "its PDI in the full ELF has 0 bytes",
        ),
    ] {
        let error = section(arch, &kernels, Unloadable::Refuse).unwrap_err();
        assert!(matches!(error, PackFault::Unloadable(_)));
        let text = error.to_string();
        assert!(
            text.contains(reason) && text.contains("--allow-unloadable"),
            "{reason}: {text}"
        );
        let (_, refused) = section(arch, &kernels, Unloadable::Allow).unwrap();
        assert_eq!(refused.len(), 1, "{reason}");
    }
}

#[test]
fn what_no_packer_takes_is_refused_even_if_the_user_insists() {
    let insts = [0; 4];
    let kernel = |name| Kernel::of_pdi(name, &insts, b"pdi", 0, 1);
    let refuse =
        |kernels: &[Kernel<'_>]| section(Arch::Aie2, kernels, Unloadable::Allow).unwrap_err();
    assert!(matches!(refuse(&[]), PackFault::NoKernels));
    assert!(matches!(refuse(&[kernel("a\0b")]), PackFault::NulInName(_)));
    let duplicate = refuse(&[kernel("a"), kernel("b"), kernel("a")]);
    assert_eq!(duplicate.to_string(), "duplicate kernel name(s): a");
    let empty = Kernel::of_pdi("a", &[], b"pdi", 0, 1);
    assert!(matches!(refuse(&[empty]), PackFault::NoInsts(_)));
}

#[test]
fn columns_that_are_given_are_checked_against_what_is_recorded() {
    let (elf, xclbin) = (
        data("copy_npu2_4col/aie.elf"),
        data("copy_npu1/design.xclbin"),
    );
    let mut without_note = Elf(elf.clone());
    without_note.rename(".note.xrt.configuration");
    let contradiction = |given, recorded| Err(InputFault::Contradiction { given, recorded });
    let columns = |kernels: Result<Vec<Kernel<'_>>, InputFault>| Ok(kernels?[0].columns);
    assert_eq!(columns(Kernel::of_elf(&elf, 0, None)), Ok(4));
    assert_eq!(columns(Kernel::of_elf(&elf, 0, Some(4))), Ok(4));
    assert_eq!(
        columns(Kernel::of_elf(&elf, 0, Some(8))),
        contradiction(8, 4)
    );
    assert_eq!(columns(Kernel::of_elf(&without_note.0, 0, Some(8))), Ok(8));
    assert_eq!(
        columns(Kernel::of_elf(&without_note.0, 0, None)),
        Err(InputFault::NoColumns)
    );
    let kernel = |columns| Kernel::of_xclbin("k", &xclbin, &[0; 4], 0, columns);
    assert_eq!(kernel(None).unwrap().columns, 4);
    assert_eq!(
        kernel(Some(1)).map(|kernel| kernel.columns),
        contradiction(1, 4)
    );
    assert_eq!(kernel(None).unwrap().kind, KernelKind::PdiInsts);
}

#[test]
fn both_grammars_say_the_same_and_keep_the_order() {
    let long = [
        ("--kernel", "a:i:p:32:4".to_owned()),
        ("--kernel-name", "elf".to_owned()),
        ("--kernel-insts", "/a:b/i".to_owned()),
        ("--kernel-xclbin", "x".to_owned()),
        ("--kernel-elf", "e".to_owned()),
        ("--kernel-kernarg", "48".to_owned()),
        ("--kernel", "elf:f".to_owned()),
        ("--kernel", "n:i:16:2".to_owned()),
    ];
    let specs = specs(&long);
    let again: Vec<_> = specs.iter().flat_map(Spec::to_options).collect();
    assert_eq!(Spec::from_options(again.clone()).unwrap(), specs);
    let text: Vec<_> = (again.iter())
        .map(|(option, value)| format!("{}={}", option.flag(), value.display()))
        .collect();
    assert_eq!(
        text.join(" "),
        "--kernel-name=a --kernel-insts=i --kernel-pdi=p --kernel-kernarg=32 --kernel-cols=4 \
         --kernel-name=elf --kernel-xclbin=x --kernel-insts=/a:b/i --kernel-kernarg=0 \
         --kernel-elf=e --kernel-kernarg=48 \
         --kernel-elf=f --kernel-kernarg=0 \
         --kernel-name=n --kernel-insts=i --kernel-kernarg=16 --kernel-cols=2"
    );
}

#[test]
fn a_command_line_that_says_nothing_sensible_is_refused() {
    use KernelOption as O;
    let refused = |options: &[(O, &str)]| {
        let options = options
            .iter()
            .map(|(option, value)| (*option, (*value).into()));
        Spec::from_options(options).unwrap_err().to_string()
    };
    for (spec, expected) in [
        ("a:i:32", "expected NAME:INSTS"),
        ("a:b:c:d:e:f", "expected NAME:INSTS"),
        ("elf", "expected NAME:INSTS"),
        ("elf:a:1:2:3", "expected NAME:INSTS"),
        ("xclbin:a:b:c", "expected NAME:INSTS"),
        ("", "expected NAME:INSTS"),
        ("a:i:p:x:4", "'x' is no number"),
        ("a:i:p:-1:4", "'-1' is no number"),
        ("a:i:4294967296:4", "'4294967296' is no number"),
        (":i:p:32:4", "the name is empty"),
        ("a::p:32:4", "the instruction stream is empty"),
        ("a:i::32:4", "the PDI is empty"),
        ("elf::32", "the path is empty"),
        ("xclbin:k::i:32", "the xclbin is empty"),
    ] {
        let text = refused(&[(O::Kernel, spec)]);
        assert!(text.contains(expected), "{spec}: {text}");
    }
    for (options, expected) in [
        (&[][..], "no kernels given"),
        (&[(O::Insts, "i")], "--kernel-insts must follow"),
        // Nothing is inherited from a kernel in the other grammar.
        (
            &[(O::Kernel, "elf:e"), (O::Columns, "4")],
            "--kernel-cols must follow",
        ),
        (
            &[(O::Name, "a"), (O::Columns, "4")],
            "requires --kernel-insts",
        ),
        (
            &[(O::Elf, "e"), (O::Pdi, "p")],
            "self-contained and cannot be combined with --kernel-pdi",
        ),
        (
            &[(O::Elf, "e"), (O::Kernarg, "1"), (O::Kernarg, "1")],
            "--kernel-kernarg given twice",
        ),
        (
            &[
                (O::Name, "a"),
                (O::Insts, "i"),
                (O::Pdi, "p"),
                (O::Xclbin, "x"),
            ],
            "not both",
        ),
        (
            &[(O::Name, "a"), (O::Insts, "i"), (O::Name, "b")],
            "'b' requires --kernel-insts",
        ),
    ] {
        let text = refused(options);
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// What aircc and aiecc make of a sequence that configures a device and runs one of its sequences:
/// both are groups of the ELF, and the second has nothing to configure the array with.
#[test]
fn what_another_kernel_runs_is_left_out() {
    for (elf, entry, parts) in [
        (
            "linalg_twice/npu2.elf",
            "main:twice",
            &["twice_0:twice_0_sequence"][..],
        ),
        // Buffer descriptors and arguments have other numbers where the sequences are run.
        (
            "configure_npu2/aie.elf",
            "main:both",
            &["first:copy_i32", "second:copy2"],
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let hsaco = directory.path().join("out.hsaco");
        let option = (KernelOption::Elf, path(elf).into_os_string());
        let specs = Spec::from_options([option]).unwrap();
        let packed = pack(&hsaco, Arch::Aie2p, &specs, Unloadable::Refuse).unwrap();
        assert_eq!(packed.kernels, [entry], "{elf}");
        assert_eq!(packed.parts, parts, "{elf}");
        let verdict = super::files::verdict_of(
            &super::files::judged(&std::fs::read(&hsaco).unwrap()),
            super::files::rocr(Arch::Aie2p),
        );
        assert_eq!(verdict, super::files::ACCEPTS, "{elf}");
        // As aie-hsaco packs it, which ROCR then refuses.
        let packed = pack(&hsaco, Arch::Aie2p, &specs, Unloadable::Allow).unwrap();
        let refused: Vec<_> = packed.refused.iter().map(|it| &*it.kernel).collect();
        assert_eq!((packed.parts, refused), (vec![], parts.to_vec()), "{elf}");
        assert_eq!(packed.kernels.len(), parts.len() + 1, "{elf}");
    }
}

/// A kernel that forgot its configuration is not a part of one that looks like it.
#[test]
fn a_kernel_without_a_configuration_is_no_part_of_one_with() {
    let mut elf = Elf::two_kernels();
    // Its relocation belongs to no section then.
    elf.put(".dynsym", 4 * 16 + 12, 0);
    let parsed = FullElf::parse(&elf.0, Arch::Aie2p).unwrap();
    let sites: Vec<_> = parsed.kernels.iter().map(|it| it.pdis.len()).collect();
    assert_eq!((sites, parsed.parts()), (vec![1, 0], vec![]));
    // Other operations than those of the kernel with a configuration.
    let mut elf = Elf(data("linalg_twice/npu2.elf"));
    elf.put(".ctrltext.1", 16 + 4 * 12, 0x80)
        .put(".ctrltext.1", 16 + 4 * 13, 48);
    let parsed = FullElf::parse(&elf.0, Arch::Aie2p).unwrap();
    assert_eq!((parsed.kernels.len(), parsed.parts()), (2, vec![]));
}
