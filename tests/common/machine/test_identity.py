"""Which board a record is of, by files that look like those of boards."""

import pytest
from fake_sysfs import put

from common.machine import identity


def test_a_board_with_a_device_tree(tmp_path):
    put(tmp_path, "proc/device-tree/model", "Hardkernel Odroid XU4\0")
    put(tmp_path, "proc/device-tree/compatible", "hardkernel,odroid-xu4\0samsung,exynos5422\0")
    put(tmp_path, "proc/device-tree/serial-number", "0123456789abcdef\0")
    put(tmp_path, "proc/meminfo", "MemTotal:        2039844 kB\nMemFree:  1 kB")
    put(tmp_path, "etc/os-release", 'NAME="x"\nPRETTY_NAME="Ubuntu 20.04.6 LTS"\nID=ubuntu')
    driver = tmp_path / "sys/bus/platform/drivers/mali"
    put(driver, "module/parameters", "")
    device = tmp_path / "sys/class/misc/mali0/device"
    device.mkdir(parents=True)
    (device / "driver").symlink_to(driver)
    put(tmp_path, "sys/module/module/version", "r26p0 (UK version 11.31)")
    found = identity.board(tmp_path)
    specimen = found.pop("specimen")
    assert found == {
        "model": "Hardkernel Odroid XU4", "soc": "hardkernel,odroid-xu4 samsung,exynos5422",
        "os": "Ubuntu 20.04.6 LTS", "gpu_driver": "module r26p0 (UK version 11.31)",
        "memory_bytes": 2039844 * 1024,
    }
    assert len(specimen) == 16
    assert "0123456789abcdef"[:8] not in specimen


@pytest.mark.parametrize(
    ("driver", "said", "firmware"),
    [
        ("panthor", "[drm] Firmware git sha: 814b47b551159067b67a37c4e9adda458ad9d852\n"
         "[drm] CSF FW using interface v1.1.0, Features 0x0", "v1.1.0 814b47b551159067"),
        ("mali", "Loading Mali firmware 0x3060000\nMali firmware git_sha: e212cd7645850aa3",
         "0x3060000 e212cd7645850aa3"),
        ("panthor", "nothing of it", None),
        ("panthor", None, None),  # this user may not read it
        ("panfrost", "[drm] CSF FW using interface v1.1.0, ", None),
    ],
)
def test_the_firmware_of_a_gpu_is_what_the_kernel_says(tmp_path, driver, said, firmware):
    (node := tmp_path / "sys/class/drm/renderD128/device").mkdir(parents=True)
    (folder := tmp_path / f"sys/bus/platform/drivers/{driver}").mkdir(parents=True)
    (node / "driver").symlink_to(folder)
    if said:
        lines = said.splitlines()
        put(tmp_path, "dev/kmsg", "\n".join(f"6,1,2,-;{driver} f.gpu: {line}" for line in lines))
    found = identity.board(tmp_path).get("gpu_firmware")
    assert found == firmware or found.startswith(firmware)


def test_a_pc(tmp_path):
    put(tmp_path, "sys/class/dmi/id/sys_vendor", "A Vendor")
    put(tmp_path, "sys/class/dmi/id/product_name", "A Product")
    put(tmp_path, "proc/cpuinfo", "processor : 0\nmodel name\t: A CPU\n\nprocessor : 1")
    put(tmp_path, "etc/machine-id", "f" * 32)
    (node := tmp_path / "sys/class/drm/renderD128/device").mkdir(parents=True)
    (driver := tmp_path / "sys/bus/pci/drivers/panfrost").mkdir(parents=True)
    (node / "driver").symlink_to(driver)
    found = identity.board(tmp_path)
    assert (found["model"], found["cpu"]) == ("A Vendor A Product", "A CPU")
    assert found["gpu_driver"] == "panfrost"
    assert identity.gpu_drivers(tmp_path) == {"renderD128": "panfrost"}
    assert len(found["specimen"]) == 16
    put(tmp_path, "etc/machine-id", "e" * 32)
    identity.board.cache_clear()
    assert identity.board(tmp_path)["specimen"] != found["specimen"]


def test_a_machine_that_tells_nothing(tmp_path):
    assert identity.board(tmp_path) == {}
