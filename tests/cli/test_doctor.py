"""ork doctor on trees of files as boards have them: what is found, what is advised, and the exit status. Nodes are plain files
here, as nothing opens them."""

import os
import pathlib
import subprocess
import unittest

from support import COMMAND, TIMEOUT, ProgramTest, environment

OPI5 = b"xunlong,orangepi-5\0rockchip,rk3588s\0"
GROUPS = "root:x:0:\nvideo:x:44:\nrender:x:105:pi\n"


class Tree:
    """A folder that looks like the root of a system."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        self.root.mkdir(parents=True)

    def write(self, path, content="", mode=0o644):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content)
        target.chmod(mode)
        return self

    def board(self, kernel, compatible=OPI5, model=b"Orange Pi 5\0"):
        self.write("proc/device-tree/compatible", compatible).write("proc/device-tree/model", model)
        self.write("proc/sys/kernel/osrelease", kernel + "\n").write("etc/group", GROUPS)
        self.write("proc/meminfo", "MemTotal:       16252928 kB\nMemFree: 1 kB\n")
        self.write("proc/self/limits", "Limit  Soft  Hard  Units\nMax open files            1024                 524288               files\n")
        return self.iommu().governors("performance")

    def governors(self, name):
        for policy, cpus, top in (("0", "0 1 2 3", "1800000"), ("4", "4 5", "2400000"), ("6", "6 7", "2400000")):
            folder = f"sys/devices/system/cpu/cpufreq/policy{policy}/"
            self.write(folder + "scaling_governor", "ondemand\n" if policy == "0" else name + "\n")
            self.write(folder + "cpuinfo_max_freq", top + "\n").write(folder + "related_cpus", cpus + "\n")
        return self

    def devfreq(self, name, now, top, governor):
        folder = f"sys/class/devfreq/{name}/"
        return self.write(folder + "cur_freq", f"{now}\n").write(folder + "max_freq", f"{top}\n").write(folder + "governor", governor + "\n")

    def iommu(self):
        return self.write("sys/kernel/iommu_groups/0/devices/fdab0000.npu/uevent")

    def drm(self, name, driver, mode=0o666):
        self.write(f"sys/class/drm/{name}/device/uevent", f"DRIVER={driver}\nOF_NAME=npu\n")
        return self.write(f"dev/dri/{name}", mode=mode)

    def accel(self, name, uevent, mode=0o666):
        self.write(f"sys/class/accel/{name}/device/uevent", uevent)
        return self.write(f"dev/accel/{name}", mode=mode)

    def process(self, number, name, *targets):
        self.write(f"proc/{number}/comm", name + "\n")
        (self.root / f"proc/{number}/fd").mkdir(parents=True)
        for i, target in enumerate(targets):
            (self.root / f"proc/{number}/fd/{i}").symlink_to(target)
        return self


class Doctor(ProgramTest):
    def tree(self, name):
        return Tree(self.folder / name)

    def survey(self, tree, code=0):
        report = self.json("doctor", "--root", tree.root, code=code)
        self.assertEqual(set(report), {"ok", "npu_usable", "npu", "findings"})
        for finding in report["findings"]:
            self.assertEqual(set(finding), {"kind", "topic", "text", "advice"})
            self.assertIn(finding["kind"], ("good", "note", "bad"))
            self.assertTrue(finding["topic"] and finding["text"])
        bad = [finding for finding in report["findings"] if finding["kind"] == "bad"]
        self.assertEqual(report["ok"], not bad)
        self.assertEqual(code, 4 if bad else 0, bad)
        return report

    def finding(self, report, topic, kind):
        found = [finding for finding in report["findings"] if (finding["topic"], finding["kind"]) == (topic, kind)]
        self.assertTrue(found, f"no {kind} finding of '{topic}' in {report['findings']}")
        return found[0]

    def vendor(self, name):
        """Orange Pi 5, vendor kernel, everything as it should be."""
        tree = self.tree(name).board("6.1.115-vendor-rk35xx")
        tree.drm("card0", "rockchip-drm").drm("renderD128", "rockchip-drm").drm("card1", "RKNPU").drm("renderD129", "RKNPU")
        tree.write("sys/class/drm/card0-HDMI-A-1/device/uevent", "DRIVER=RKNPU\n")
        tree.write("sys/kernel/debug/rknpu/version", "RKNPU driver: v0.9.8\n")
        tree.devfreq("dmc", 2112000000, 2112000000, "performance").devfreq("fdab0000.npu", 1000000000, 1000000000, "performance")
        return tree

    def mainline(self, name):
        tree = self.tree(name).board("6.18.2-edge-rockchip64")
        return tree.accel("accel0", "MODALIAS=platform:rknn\n")

    def test_vendor_kernel(self):
        report = self.survey(self.vendor("vendor"))
        self.assertEqual((report["npu_usable"], report["npu"]), (True, "rknpu"))
        self.assertIn("/dev/dri/card1", self.finding(report, "npu node", "good")["text"])
        self.assertIn("Orange Pi 5, SoC rk3588, Linux 6.1.115", self.finding(report, "machine", "good")["text"])
        self.assertIn("0.9.8", self.finding(report, "driver", "good")["text"])
        self.assertIn("4 performance cores up to 2.40 GHz, 4 others", self.finding(report, "processor", "good")["text"])
        for topic in ("permission", "iommu", "governor", "memory clock", "npu clock", "other users", "open files"):
            self.finding(report, topic, "good")
        self.assertIn("15.5 GiB", self.finding(report, "memory", "note")["text"])

    def test_mainline_kernel(self):
        report = self.survey(self.mainline("mainline"))
        self.assertEqual((report["npu_usable"], report["npu"]), (True, "rocket"))
        self.assertIn("/dev/accel/accel0, driver rocket", self.finding(report, "npu node", "good")["text"])
        self.assertIn("200 MHz", self.finding(report, "npu clock", "note")["text"])

    def test_slow_clocks(self):
        tree = self.vendor("slow").governors("schedutil").devfreq("dmc", 528000000, 2112000000, "dmc_ondemand")
        tree.devfreq("fdab0000.npu", 300000000, 1000000000, "rknpu_ondemand")
        report = self.survey(tree)
        self.assertIn("'schedutil'", self.finding(report, "governor", "note")["text"])
        memory = self.finding(report, "memory clock", "note")
        self.assertIn("528 of 2112 MHz, governor 'dmc_ondemand'", memory["text"])
        self.assertIn("/sys/class/devfreq/dmc/governor", memory["advice"])
        self.assertIn("300 of 1000 MHz", self.finding(report, "npu clock", "note")["text"])

    def test_old_drivers(self):
        tree = self.vendor("old").write("sys/kernel/debug/rknpu/version", "RKNPU driver: v0.8.2\n")
        self.assertIn("0.8.2 is too old", self.finding(self.survey(tree, 4), "driver", "bad")["text"])
        tree.write("sys/kernel/debug/rknpu/version", "RKNPU driver: v0.9.3\n")
        self.assertIn("freeze", self.finding(self.survey(tree), "driver", "note")["text"])
        (tree.root / "sys/kernel/debug/rknpu/version").unlink()
        tree.write("proc/sys/kernel/osrelease", "5.10.160-rockchip\n")
        self.assertIn("0.9.8", self.finding(self.survey(tree), "driver", "note")["advice"])

    def test_other_users(self):
        tree = self.vendor("held").process(812, "rknn_server", "/dev/null", "/dev/dri/card1").process(90, "kwin", "/dev/dri/card0")
        tree.process(91, "probe", "/dev/dri/renderD129").write("usr/lib/librknnrt.so")
        report = self.survey(tree, 4)
        self.assertIn("process 812 (rknn_server)", self.finding(report, "other users", "bad")["text"])
        self.assertIn("process 91 (probe) has /dev/dri/renderD129 open", self.finding(report, "other users", "note")["text"])
        self.assertNotIn("kwin", str(report))
        self.assertIn("/usr/lib/librknnrt.so", self.finding(report, "vendor runtime", "note")["text"])

    def test_iommu_off(self):
        tree = self.vendor("no-iommu").write("proc/device-tree/iommu@fdab9000/status", b"disabled\0")
        report = self.survey(tree, 4)
        self.assertFalse(report["npu_usable"])
        self.assertIn("off in the device tree", self.finding(report, "iommu", "bad")["text"])
        tree = self.vendor("no-group")
        (tree.root / "sys/kernel/iommu_groups/0/devices/fdab0000.npu/uevent").unlink()
        (tree.root / "sys/kernel/iommu_groups/0/devices/fdab0000.npu").rmdir()
        self.finding(self.survey(tree, 4), "iommu", "bad")

    def test_misc_flavour(self):
        tree = self.tree("misc").board("6.1.99-rockchip").write("dev/rknpu", mode=0o666)
        self.assertIn("/dev/dma_heap", self.finding(self.survey(tree, 4), "memory heaps", "bad")["text"])
        report = self.survey(tree.write("dev/dma_heap/system", mode=0o666))
        self.assertEqual(report["npu"], "rknpu")

    def test_no_node(self):
        tree = self.tree("none").board("6.12.8")
        self.assertIn("6.18", self.finding(self.survey(tree, 4), "npu node", "bad")["advice"])
        tree.write("lib/modules/6.12.8/kernel/drivers/accel/rocket/rocket.ko.zst")
        self.assertIn("modprobe rocket", self.finding(self.survey(tree, 4), "npu node", "bad")["advice"])
        tree.write("sys/module/rocket/refcnt", "0\n")
        found = self.finding(self.survey(tree, 4), "npu node", "bad")
        self.assertIn("too late", found["text"])
        self.assertIn("vdd_npu_s0", found["advice"])
        tree.write("proc/device-tree/npu@fdab0000/status", b"disabled\0")
        self.assertIn("off in the device tree", self.finding(self.survey(tree, 4), "npu node", "bad")["text"])

    def test_node_without_dev(self):
        tree = self.mainline("container")
        (tree.root / "dev/accel/accel0").unlink()
        report = self.survey(tree, 4)
        self.assertFalse(report["npu_usable"])
        self.assertIn("container", self.finding(report, "npu node", "bad")["advice"])

    def test_node_of_another_driver(self):
        tree = self.tree("other").board("6.18.0").accel("accel0", "DRIVER=amdxdna\n")
        report = self.survey(tree, 4)
        self.assertIn("/dev/accel/accel0 belongs to the driver 'amdxdna'", self.finding(report, "npu node", "note")["text"])
        tree = self.mainline("both").accel("accel1", "DRIVER=intel_vpu\n")
        self.assertEqual(self.survey(tree)["npu"], "rocket")

    def test_another_soc(self):
        tree = self.tree("rk3576").board("6.1.99", b"friendlyarm,nanopi-m5\0rockchip,rk3576\0", b"NanoPi M5\0").drm("card1", "RKNPU")
        report = self.survey(tree, 4)
        self.assertIn("rk3576", self.finding(report, "soc", "bad")["text"])
        self.assertFalse(report["npu_usable"])
        report = self.survey(self.tree("pi").board("6.6.0", b"raspberrypi,5-model-b\0brcm,bcm2712\0", b"Raspberry Pi 5\0"))
        self.assertIn("CPU engine", self.finding(report, "npu node", "note")["text"])

    def test_no_permission(self):
        """As a user that the nodes are closed to. Root may open everything, so it becomes nobody for this."""
        tree = self.vendor("closed")
        for name in ("card1", "renderD129"):
            (tree.root / "dev/dri" / name).chmod(0o660)
            if os.geteuid() == 0:
                os.chown(tree.root / "dev/dri" / name, 0, 105)
        if os.geteuid() != 0:
            for name in ("card1", "renderD129"):
                (tree.root / "dev/dri" / name).chmod(0)
        os.chmod(self.folder, 0o755)

        def become_nobody():
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

        process = subprocess.run([*COMMAND, "doctor", "--root", str(tree.root)], capture_output=True, text=True,
                                 env=environment(self.folder), timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=False,
                                 preexec_fn=become_nobody, cwd="/")
        if process.returncode in (126, 127, 255) or "cannot open shared object" in process.stderr:
            self.skipTest("nobody may not run the program here")
        self.assertEqual(process.returncode, 4, process.stdout + process.stderr)
        self.assertRegex(process.stdout, r"(?m)^bad +permission +/dev/dri/card1 is closed to this user")
        self.assertIn("1 thing stands in the way", process.stdout)
        if os.geteuid() == 0:
            self.assertIn("group render", process.stdout)
            self.assertIn("sudo usermod -aG render $USER", process.stdout)

    def test_plain_machine(self):
        tree = self.tree("pc").write("sys/class/dmi/id/product_name", "ThinkPad\n").write("proc/sys/kernel/osrelease", "6.12.1\n")
        tree.drm("card0", "i915").drm("renderD128", "i915").write("sys/devices/system/cpu/online", "0-7\n")
        report = self.survey(tree)
        self.assertEqual((report["npu_usable"], report["npu"]), (False, None))
        self.assertIn("CPU engine", self.finding(report, "npu node", "note")["text"])
        text = self.ork("doctor", "--root", tree.root).stdout
        self.assertIn("Nothing is wrong", text)

    def test_this_machine(self):
        """Whatever it is: a report comes."""
        process = subprocess.run([*COMMAND, "doctor"], capture_output=True, text=True, env=environment(self.folder), timeout=TIMEOUT,
                                 stdin=subprocess.DEVNULL, check=False)
        self.assertIn(process.returncode, (0, 4), process.stderr)
        self.assertRegex(process.stdout, r"(?m)^good  machine ")

    def test_hostile_trees(self):
        """Files of any size and content, FIFOs where files are expected, names with control characters."""
        tree = self.tree("hostile").write("proc/device-tree/compatible", b"\0" * 5000 + b"rockchip,rk3588" * 400)
        tree.write("proc/device-tree/model", b"\x1b[31m\x07evil\n" * 500).write("proc/meminfo", "MemTotal:" + "9" * 4000)
        tree.write("sys/class/accel/accel0/device/uevent", b"DRIVER=" + b"\xff\x1b" * 40000)
        tree.write("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "x" * 100000)
        (tree.root / "etc").mkdir()
        os.mkfifo(tree.root / "etc/group")
        os.mkfifo(tree.root / "proc/cpuinfo")
        (tree.root / "proc/sys/kernel/osrelease").mkdir(parents=True)
        process = self.ork("doctor", "--root", tree.root)
        self.assertNotIn("\x1b", process.stdout)
        self.json("doctor", "--root", tree.root)
        empty = self.tree("empty")
        self.assertTrue(self.survey(empty)["ok"])

    def test_refusals(self):
        self.assertIn("nosuch", self.refused("doctor", "--root", "nosuch", code=3))
        self.refused("doctor", "something", code=2)


if __name__ == "__main__":
    unittest.main()
