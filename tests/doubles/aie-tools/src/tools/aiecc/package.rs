//! Packing: xclbins through xclbinutil, full ELFs through aiebu-asm.

use std::fs;
use std::path::{Path, PathBuf};

use super::cores::Configured;
use super::{Compilation, Output};
use crate::axlf::uuid_text;
use crate::design::{Device, Target, stream};
use crate::json::{Json, number, object, text};
use crate::mlir::Module;
use crate::run::{Result, failure, random_uuid};
use crate::stream::Generation;

fn list(items: impl IntoIterator<Item = Json>) -> Json {
    Json::Array(items.into_iter().collect())
}

fn memory_topology() -> Json {
    let memory = |size: &str, tag: &str| {
        object([
            ("m_type", text("MEM_DRAM")),
            ("m_used", text("1")),
            ("m_sizeKB", text(size)),
            ("m_tag", text(tag)),
            ("m_base_address", text("0x4000000")),
        ])
    };
    let memories = list([memory("0x10000", "HOST"), memory("0xc000", "SRAM")]);
    object([(
        "mem_topology",
        object([("m_count", text("2")), ("m_mem_data", memories)]),
    )])
}

fn argument(name: &str, memory: Option<&str>, of: &str, offset: u64) -> Json {
    let qualifier = if memory.is_some() { "GLOBAL" } else { "SCALAR" };
    let mut members = vec![
        ("name".to_owned(), text(name)),
        ("address-qualifier".to_owned(), text(qualifier)),
    ];
    members.extend(memory.map(|memory| ("memory-connection".to_owned(), text(memory))));
    members.push(("type".to_owned(), text(of)));
    members.push(("offset".to_owned(), text(format!("0x{offset:02X}"))));
    Json::Object(members)
}

impl Compilation<'_> {
    fn option(&self, name: &str, default: &str) -> String {
        self.asked.options.get(name).unwrap_or(default).to_owned()
    }

    fn kernels(&self, device: &Device) -> Json {
        let arity = device
            .sequences
            .iter()
            .map(|s| s.arguments.len())
            .max()
            .unwrap_or(0);
        let mut arguments = vec![
            argument("opcode", None, "uint64_t", 0),
            argument("instr", Some("SRAM"), "char *", 8),
            argument("ninstr", None, "uint32_t", 0x10),
        ];
        // The first dialect has five, whatever there is.
        let declared = match self.asked.dialect {
            1 => 5,
            _ => arity.max(5),
        };
        for index in 0..declared as u64 {
            arguments.push(argument(
                &format!("bo{index}"),
                Some("HOST"),
                "void*",
                0x14 + 8 * index,
            ));
        }
        let instance = object([("name", text(self.option("xclbin-instance-name", "MLIRAIE")))]);
        let data = object([
            ("subtype", text("DPU")),
            ("functional", text("0")),
            (
                "dpu_kernel_id",
                text(self.option("xclbin-kernel-id", "0x901")),
            ),
        ]);
        let kernel = object([
            ("name", text(self.option("xclbin-kernel-name", "MLIR_AIE"))),
            ("type", text("dpu")),
            ("extended-data", data),
            ("arguments", list(arguments)),
            ("instances", list([instance])),
        ]);
        object([("ps-kernels", object([("kernels", list([kernel]))]))])
    }

    fn partition(&self, device: &Device, pdi: &Path) -> Json {
        let group = object([
            (
                "dpu_kernel_ids",
                list([text(self.option("xclbin-kernel-id", "0x901"))]),
            ),
            ("name", text("DPU")),
            ("pdi_id", text("0x01")),
            ("pre_cdo_groups", list([text("0xC1")])),
            ("type", text("PRIMARY")),
        ]);
        let pdi = object([
            ("cdo_groups", list([group])),
            ("file_name", text(pdi.display().to_string())),
            ("uuid", text(uuid_text(&random_uuid()))),
        ]);
        let starts = device
            .part
            .start_columns()
            .into_iter()
            .map(|c| number(u64::from(c)));
        let partition = object([
            ("column_width", number(u64::from(device.part.columns))),
            ("start_columns", list(starts)),
        ]);
        object([(
            "aie_partition",
            object([
                ("PDIs", list([pdi])),
                ("inference_fingerprint", text("23423")),
                ("name", text("QoS")),
                ("operations_per_cycle", text("2048")),
                ("partition", partition),
                ("pre_post_fingerprint", text("12345")),
            ]),
        )])
    }

    fn json(&self, name: String, json: &Json) -> String {
        let path = self.tmpdir.join(name);
        self.run
            .write(&path, format!("{}\n", json.pretty(2)).as_bytes());
        path.display().to_string()
    }

    /// The xclbinutil to run: the option, the variable, beside this program, PATH.
    fn xclbinutil(&self) -> Option<PathBuf> {
        let variable = std::env::var("AIE_XCLBINUTIL").ok();
        let named = self
            .asked
            .options
            .get("xclbinutil-path")
            .map(str::to_owned)
            .or(variable);
        match named.filter(|n| !n.is_empty()) {
            Some(path) if path.contains('/') => Some(PathBuf::from(path)),
            Some(name) => self.run.on_path(&name),
            None => self.run.beside_or_on_path("xclbinutil"),
        }
    }

    /// The xclbins.
    pub fn pack(&mut self, devices: &[Device], configured: &[Configured]) -> Result {
        let Some(request) = self.asked.request(Output::Xclbin).cloned() else {
            return Ok(());
        };
        let mut paths = Vec::new();
        for device in devices {
            let name = &device.name;
            self.progress(request.edge, name);
            let path = self.output(&request.name, name, "");
            self.unique(&mut paths, &path, request.edge)?;
            let Some(of_device) = configured.iter().find(|c| c.device == *name) else {
                continue;
            };
            let topology = self.json(format!("{name}_mem_topology.json"), &memory_topology());
            let kernels = self.json(format!("{name}_kernels.json"), &self.kernels(device));
            let partition = self.partition(device, &of_device.pdi);
            let partition = self.json(format!("{name}_aie_partition.json"), &partition);
            let Some(tool) = self.xclbinutil() else {
                if self.asked.dialect > 1 {
                    return Err(self.tool_missing(request.edge, name, "xclbinutil"));
                }
                // The first dialect says so to those who asked for it, and ends well.
                if self.asked.options.flag("verbose") {
                    self.run
                        .say("xclbinutil not found, xclbin generation skipped");
                }
                continue;
            };
            let packed = self.tmpdir.join(format!("{name}.packed.xclbin"));
            let _ = fs::remove_file(&packed);
            let mut arguments = Vec::new();
            match self.asked.options.get("xclbin-input") {
                Some(input) => arguments.extend(["--input".to_owned(), input.to_owned()]),
                None => arguments.extend([
                    "--add-replace-section".to_owned(),
                    format!("MEM_TOPOLOGY:JSON:{topology}"),
                ]),
            }
            arguments.extend(["--add-kernel".to_owned(), kernels]);
            arguments.extend([
                "--add-replace-section".to_owned(),
                format!("AIE_PARTITION:JSON:{partition}"),
            ]);
            arguments.extend(["--force", "--quiet", "--output"].map(str::to_owned));
            arguments.push(packed.display().to_string());
            self.tool(request.edge, name, &tool, &arguments)?;
            // A tool that ends well and leaves nothing is not noticed.
            if let Ok(bytes) = fs::read(&packed) {
                self.run.deliver("xclbin", &path, &bytes);
            }
        }
        Ok(())
    }

    /// The full ELF of all devices and sequences.
    pub fn full_elf(
        &mut self,
        module: &Module<'_>,
        devices: &[Device],
        configured: &[Configured],
    ) -> Result {
        let Some(request) = self.asked.request(Output::FullElf).cloned() else {
            return Ok(());
        };
        if devices
            .iter()
            .any(|device| device.part.generation == Generation::Npu1)
        {
            let text = "error: full ELF generation is not supported for npu1 devices".to_owned();
            return Err(self.edge_failed(request.edge, "", Some(text)));
        }
        if devices.is_empty() {
            return Ok(());
        }
        self.progress(request.edge, "");
        let pdis = list(configured.iter().zip(1..).map(|(configured, id)| {
            object([
                ("PDI_file", text(configured.pdi.display().to_string())),
                ("id", number(id)),
            ])
        }));
        // In the first dialect an explicit name for instructions moves them from where the
        // configuration says they are.
        let moved = self.asked.dialect == 1 && self.asked.options.get("npu-insts-name").is_some();
        let mut kernels = Vec::new();
        for device in devices {
            let sequences = self.sequences(device);
            let mut instances = Vec::new();
            for sequence in &sequences {
                let stream = stream(module, device, sequence, Target::FullElf(devices));
                let stream = stream.map_err(|wrong| {
                    self.step_refused(module, &wrong, request.edge, &device.name)
                })?;
                let path = self
                    .tmpdir
                    .join(format!("{}_{}.bin", device.name, sequence.name));
                if moved {
                    let _ = fs::remove_file(&path);
                } else {
                    self.run.write(&path, &stream.bytes());
                }
                instances.push(object([
                    ("TXN_ctrl_code_file", text(path.display().to_string())),
                    ("id", text(&sequence.name)),
                ]));
            }
            let arity = sequences
                .iter()
                .map(|s| s.arguments.len())
                .max()
                .unwrap_or(0);
            let arguments = (0..arity.max(3)).map(|index| {
                object([
                    ("name", text(format!("arg_{index}"))),
                    ("offset", text(format!("0x{:x}", 8 * index))),
                    ("type", text("char *")),
                ])
            });
            if !instances.is_empty() {
                kernels.push(object([
                    ("PDIs", pdis.clone()),
                    ("arguments", list(arguments)),
                    ("instance", list(instances)),
                    ("name", text(&device.name)),
                ]));
            }
        }
        if kernels.is_empty() {
            // The real one ends well with this.
            let path = self.output(&request.name, "main", "");
            self.run.deliver("elf", &path, b"");
            return Ok(());
        }
        let config = object([("xrt-kernels", list(kernels))]);
        let config = self.json("full_elf_config.json".to_owned(), &config);
        let Some(tool) = self.run.beside_or_on_path("aiebu-asm") else {
            return Err(match self.asked.dialect {
                1 => failure("Error: Could not find aiebu-asm"),
                _ => self.tool_missing(request.edge, "", "aiebu-asm"),
            });
        };
        let made = self.tmpdir.join("full.elf");
        let _ = fs::remove_file(&made);
        let arguments = ["-t", "aie2_config", "-j", &config, "-o"].map(str::to_owned);
        let mut arguments = arguments.to_vec();
        arguments.push(made.display().to_string());
        self.tool(request.edge, "", &tool, &arguments)?;
        if let Ok(bytes) = fs::read(&made) {
            let path = self.output(&request.name, "main", "");
            self.run.deliver("elf", &path, &bytes);
        }
        Ok(())
    }
}
