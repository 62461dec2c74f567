"""What a record says of the machine's state, read from a folder that stands for /sys."""

import os

import pytest
from fake_sysfs import CPU, GPU, ZONE, put, rockchip

from common.machine import state, sysfs


@pytest.fixture
def tree(tmp_path):
    return rockchip(tmp_path / "sys")


def test_a_rockchip_board(tree):
    now = state.now(tree)
    assert now == {
        "clocks_hz": {"cpu policy0": 1.2e9, "gpu ff9a0000.gpu": 2e8},
        "temperatures_c": {"thermal_zone0 gpu-thermal": 47.5},
        "power_w": {"ina3221 VDD_GPU": 1.5},
        "energy_j": {},
    }
    assert state.environment(tree)["governors"] == {
        "policy0": "schedutil", "ff9a0000.gpu": "simple_ondemand",
    }
    assert state.line(now) == (
        "cpu policy0 1200 MHz, gpu ff9a0000.gpu 200 MHz, thermal_zone0 gpu-thermal 48 degrees, "
        "ina3221 VDD_GPU 1.5 W"
    )


def test_a_machine_that_shows_nothing(tmp_path):
    now = state.now(tmp_path)
    assert now == {"clocks_hz": {}, "temperatures_c": {}, "power_w": {}, "energy_j": {}}
    assert state.moved([now, now]) == []
    assert "reports no clocks" in state.line(now)
    assert state.environment(tmp_path)["governors"] == {}


def test_an_odroid_xu3_with_its_old_kernel(tmp_path):
    put(tmp_path, "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", 1400000)
    put(tmp_path, "devices/system/cpu/cpu0/cpufreq/scaling_governor", "interactive")
    (tmp_path / "devices/system/cpu/cpu1").mkdir()
    (tmp_path / "devices/system/cpu/cpu1/cpufreq").symlink_to("../cpu0/cpufreq")
    put(tmp_path, "devices/11800000.mali/clock", 600)
    for lock in ("dvfs_min_lock", "dvfs_max_lock"):
        put(tmp_path, f"devices/11800000.mali/{lock}", 0)
    (tmp_path / "class/misc/mali0").mkdir(parents=True)
    (tmp_path / "class/misc/mali0/device").symlink_to("../../../devices/11800000.mali")
    put(tmp_path, f"{ZONE}/temp", 58)
    for address, watts in (("0040", "1.250"), ("0044", "0.310"), ("0045", "0.090")):
        put(tmp_path, f"bus/i2c/drivers/INA231/4-{address}/sensor_W", watts)
        put(tmp_path, f"bus/i2c/drivers/INA231/4-{address}/enable", int(address != "0045"))
    now = state.now(tmp_path)
    assert now["clocks_hz"] == {"cpu cpu0": 1.4e9, "gpu 11800000.mali": 6e8}
    assert now["temperatures_c"] == {"thermal_zone0": 58}
    assert now["power_w"] == {"INA231 A15": 1.25, "INA231 GPU": 0.31}  # the A7's is off
    assert [s.name for s in sysfs.sensors(tmp_path)] == ["INA231 A15", "INA231 GPU", "INA231 A7"]
    assert state.environment(tmp_path)["governors"] == {"cpu0": "interactive"}


@pytest.mark.parametrize(("shown", "hz"), [("600", 6e8), ("600000000", 6e8), ("177 MHz", 1.77e8)])
def test_the_units_of_malis_old_drivers(tmp_path, shown, hz):
    put(tmp_path, "devices/mali.0.mali/clock", shown)
    assert state.now(tmp_path)["clocks_hz"] == {"gpu mali.0.mali": hz}


def test_one_gpu_has_one_clock_whatever_leads_to_it(tree):
    put(tree, "class/misc/mali0/device/name", "mali")
    folder = tree / "class/misc/mali0/device/devfreq"
    folder.mkdir()
    (folder / "ff9a0000.gpu").symlink_to(tree / GPU)
    assert list(state.now(tree)["clocks_hz"]) == ["cpu policy0", "gpu ff9a0000.gpu"]


def test_the_memorys_clock_is_no_gpus(tree):
    put(tree, "class/devfreq/dmc/cur_freq", 856000000)
    assert state.now(tree)["clocks_hz"]["bus dmc"] == 8.56e8


def test_what_cannot_be_read_is_left_out(tree):
    (tree / CPU / "scaling_cur_freq").unlink()
    (tree / CPU / "scaling_cur_freq").mkdir()
    put(tree, f"{ZONE}/temp", "")
    (tree / "class/hwmon/hwmon1/power1_input").write_bytes(b"\xff\xfe")
    now = state.now(tree)
    assert list(now["clocks_hz"]) == ["gpu ff9a0000.gpu"]
    assert now["temperatures_c"] == {}
    assert now["power_w"] == {}


def test_chips_of_one_kind_are_told_apart(tmp_path):
    for number, watts in ((0, 1), (1, 2)):
        for name, value in (("name", "ina226"), ("power1_input", watts * 10**6)):
            put(tmp_path, f"class/hwmon/hwmon{number}/{name}", value)
        put(tmp_path, f"class/hwmon/hwmon{number}/temp1_input", 40000 + number * 1000)
    now = state.now(tmp_path)
    assert now["power_w"] == {"ina226 power1 hwmon0": 1, "ina226 power1 hwmon1": 2}
    assert now["temperatures_c"] == {"ina226 temp1 hwmon0": 40, "ina226 temp1 hwmon1": 41}


def test_four_equal_chips_are_named_by_their_address_whatever_their_order(tmp_path):
    for number, address in ((0, "45"), (1, "40"), (2, "41"), (10, "44")):
        (tmp_path / f"devices/i2c/4-00{address}").mkdir(parents=True)
        folder = f"class/hwmon/hwmon{number}"
        put(tmp_path, f"{folder}/name", "ina231")
        put(tmp_path, f"{folder}/power1_input", int(address) * 10**6)
        (tmp_path / folder / "device").symlink_to(tmp_path / f"devices/i2c/4-00{address}")
    assert state.now(tmp_path)["power_w"] == {
        f"ina231 power1 4-00{address}": float(address) for address in ("40", "41", "44", "45")
    }


def test_sensors_of_one_chip_with_equal_labels_are_told_apart(tmp_path):
    put(tmp_path, "class/hwmon/hwmon1/name", "ina3221")
    for number in (1, 2, 3):
        put(tmp_path, f"class/hwmon/hwmon1/power{number}_label", "VDD" if number < 3 else "VDD_GPU")
        put(tmp_path, f"class/hwmon/hwmon1/power{number}_input", number * 10**6)
    assert state.now(tmp_path)["power_w"] == {
        "ina3221 VDD hwmon1 hwmon1/power1_input": 1,
        "ina3221 VDD hwmon1 hwmon1/power2_input": 2,
        "ina3221 VDD_GPU": 3,
    }


def test_equal_addresses_on_two_buses_are_told_apart(tmp_path):
    for bus in (3, 4):
        put(tmp_path, f"bus/i2c/drivers/INA231/{bus}-0044/sensor_W", bus)
    power = state.now(tmp_path)["power_w"]
    assert power == {"INA231 GPU 3-0044": 3, "INA231 GPU 4-0044": 4}


def test_rapl_counts_energy_and_shows_no_power(tmp_path):
    for name, value in (("name", "package-0"), ("energy_uj", 5), ("max_energy_range_uj", 1000)):
        put(tmp_path, f"class/powercap/intel-rapl:0/{name}", value)
    (sensor,) = sysfs.sensors(tmp_path)
    assert (sensor.name, sensor.counts, sensor.wraps) == ("intel-rapl:0 package-0", True, 1000)
    assert sensor.read() == pytest.approx(5e-6)
    now = state.now(tmp_path)
    assert now["power_w"] == {}
    assert now["energy_j"] == {"intel-rapl:0 package-0": pytest.approx(5e-6)}


@pytest.mark.parametrize("allowed", [True, False])
def test_a_counter_that_only_root_may_read_is_known_and_one_that_is_broken_is_not(
        tmp_path, monkeypatch, allowed):
    put(tmp_path, "class/powercap/intel-rapl:0/energy_uj", "")
    monkeypatch.setattr(os, "access", lambda path, mode: allowed)
    assert len(sysfs.sensors(tmp_path)) == (0 if allowed else 1)
    assert state.now(tmp_path)["energy_j"] == {}


def test_without_a_list_of_frequencies_there_are_the_lowest_and_the_highest(tree):
    put(tree, f"{CPU}/scaling_available_frequencies", "")
    put(tree, f"{CPU}/cpuinfo_min_freq", 408000)
    put(tree, f"{CPU}/cpuinfo_max_freq", 1800000)
    clock = next(each for each in sysfs.clocks(tree) if each.kind == "cpu")
    assert clock.frequencies() == [4.08e8, 1.8e9]


def test_a_watch_looks_at_the_start_between_the_launches_and_at_the_end(tree):
    watch = state.Watch(tree)
    watch.look()
    put(tree, f"{GPU}/cur_freq", 800000000)
    for _ in range(100):  # much less than a tenth of a second
        watch.look()
    put(tree, f"{GPU}/cur_freq", 400000000)
    found = watch.end()
    states = found["before"], *found["during"], found["after"]
    seen = [each["clocks_hz"]["gpu ff9a0000.gpu"] for each in states]
    assert seen[0] == 2e8
    assert seen[1:] == [8e8] * (len(seen) - 2) + [4e8]
    assert 3 <= len(seen) < 20
    assert found["throttled"] == ["gpu ff9a0000.gpu ran at 200 MHz to 800 MHz"]


def states(tree, path, *values):
    seen = []
    for value in values:
        put(tree, path, value)
        seen.append(state.now(tree))
    return seen


def test_a_clock_that_moved(tree):
    seen = states(tree, f"{GPU}/cur_freq", 800000000, 400000000, 800000000)
    assert state.moved(seen) == ["gpu ff9a0000.gpu ran at 400 MHz to 800 MHz"]
    seen = states(tree, f"{CPU}/scaling_cur_freq", 1800000, 1790000)
    assert state.moved(seen[:1] + seen[1:]) == []


def test_a_temperature_that_moved(tree):
    assert state.moved(states(tree, f"{ZONE}/temp", 47000, 51000)) == []
    assert state.moved(states(tree, f"{ZONE}/temp", 47000, 83000)) == [
        "thermal_zone0 gpu-thermal went from 47 to 83 degrees"
    ]


def test_a_sensor_that_goes_away_is_no_change(tree):
    before = state.now(tree)
    (tree / ZONE / "temp").unlink()
    assert state.moved([before, state.now(tree)]) == []


def test_a_clock_that_never_could_be_read_did_not_move():
    now = {"clocks_hz": {"gpu mali": None}, "temperatures_c": {}}
    assert state.moved([now, now]) == []


def test_this_machines_own_sys_can_be_read():
    assert set(state.now()) == {"clocks_hz", "temperatures_c", "power_w", "energy_j"}
    assert state.environment()["cpus"] == os.cpu_count()


def test_what_drivers_and_libraries_are_told_is_kept(monkeypatch):
    monkeypatch.setenv("POCL_AFFINITY", "1")
    assert state.environment()["variables"]["POCL_AFFINITY"] == "1"
    kept = {"CL_X": "y", "OMP_NUM_THREADS": "1", "BLIS_NUM_THREADS": "2", "KMP_BLOCKTIME": "0",
            "DPCPP_CPU_CU_AFFINITY": "close"}
    assert state.settings(kept | {"OCL_ICD_VENDORS": "/home/me", "TOKEN": "x"}) == kept


def test_many_changes_are_one_line():
    assert state.told([]) is None
    assert state.told(["a", "b", "c"]) == "a, b, c"
    assert state.told(["a", "b", "c", "d", "e"]) == "a, b, c, and 2 more"


@pytest.mark.parametrize(
    ("text", "said"),
    [("999.00 1.00 1.00 3/400 77\n", True), ("0.10 1.00 1.00 3/400 77\n", False),
     ("999.00 1.00 1.00 1/400 77\n", False), ("", False)],
)
def test_others_make_a_machine_busy_and_an_earlier_run_does_not(tmp_path, text, said):
    (tmp_path / "loadavg").write_text(text)
    line = state.busy(tmp_path / "loadavg")
    assert bool(line) is said
    assert not said or line.startswith("This machine is busy (load 999.00 on ")
