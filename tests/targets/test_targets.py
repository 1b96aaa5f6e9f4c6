from __future__ import annotations

from collections.abc import Callable

import pytest

from tilebench.errors import TargetError
from tilebench.targets import ARCHES, DEVICES, Target, arch_of, find_device, occupancy, parse
from tilebench.targets.cpu import VECTOR_BYTES, VECTOR_REGISTERS, CpuFacts


@pytest.mark.parametrize(
    ("written", "kind", "arch"),
    [
        ("auto", "auto", None),
        ("interp", "interp", None),
        ("cpu", "cpu", None),
        ("cuda", "cuda", None),
        ("emu", "emu", "sm_90"),
        ("emu:sm_80", "emu", "sm_80"),
        ("cuda:sm_90a", "cuda", "sm_90a"),
        ("cuda:120", "cuda", "sm_120"),
        ("cuda -arch=sm_89", "cuda", "sm_89"),
        ({"kind": "cuda", "arch": "sm_90"}, "cuda", "sm_90"),
        ({"kind": "cpu"}, "cpu", None),
        (Target("cuda", "sm_86"), "cuda", "sm_86"),
    ],
)
def test_target_grammar(written: object, kind: str, arch: str | None) -> None:
    target = parse(written)  # type: ignore[arg-type]
    assert (target.kind, target.arch) == (kind, arch)
    assert parse(str(target)) == target


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("cdua", "did you mean cuda?"),
        ("cuda:sm_91", "the nearest to sm_91 is sm_90"),
        ("cuda:sm_75", "the oldest is sm_80"),
        ("cuda:sm_", "known architectures are sm_80"),
        ("cpu:sm_80", "cpu takes no architecture"),
        ("cuda:", "at most :sm_XX"),
        ("cuda -keys=gpu", "at most :sm_XX"),
        ({"kind": "cuda", "host": "llvm"}, "not host"),
        ({}, "the kinds are"),
        (None, "a target is a string"),
    ],
)
def test_unknown_targets_are_refused_with_the_legal_values(written: object, says: str) -> None:
    with pytest.raises(TargetError, match="TB501") as caught:
        parse(written)  # type: ignore[arg-type]
    assert says in caught.value.why
    assert "emu:sm_XX" in caught.value.fix
    assert "90a" in caught.value.fix


def test_features_follow_the_architecture() -> None:
    def has(feature: str) -> list[str]:
        return [a for a in ARCHES if parse(f"cuda:{a}").supports(feature)]  # type: ignore[arg-type]

    assert has("cp_async") == has("ldmatrix") == has("bf16_mma") == has("tf32_mma") == list(ARCHES)
    assert has("fp8_mma") == ["sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]
    assert has("tma") == ["sm_90", "sm_90a", "sm_100", "sm_120"]
    assert has("wgmma") == ["sm_90a"]
    assert not parse("cpu").supports("cp_async")
    assert not parse("cuda").supports("cp_async")
    assert parse("emu").is_gpu
    assert not parse("interp").is_gpu
    assert parse("cuda").with_arch("sm_80").capability == 80
    assert parse("cpu").capability == 0


def test_shared_memory_limits_are_those_of_the_programming_guide() -> None:
    kib = {a: (f.shared_per_block // 1024, f.shared_per_sm // 1024) for a, f in ARCHES.items()}
    assert kib == {
        "sm_80": (163, 164), "sm_86": (99, 100), "sm_89": (99, 100), "sm_90": (227, 228),
        "sm_90a": (227, 228), "sm_100": (227, 228), "sm_120": (99, 100),
    }  # fmt: skip
    assert ARCHES["sm_90"].shared_per_block == 232448
    assert [f.threads_per_sm for f in ARCHES.values()] == [2048, 1536, 1536, 2048, 2048, 2048, 1536]


@pytest.mark.parametrize(
    ("major", "minor", "arch"),
    [
        (8, 0, "sm_80"),
        (8, 6, "sm_86"),
        (8, 7, "sm_86"),
        (8, 9, "sm_89"),
        (9, 0, "sm_90a"),
        (10, 3, "sm_100"),
        (12, 1, "sm_120"),
    ],
)
def test_architecture_of_a_device(major: int, minor: int, arch: str) -> None:
    assert arch_of(major, minor) == arch


@pytest.mark.parametrize(("major", "minor"), [(7, 5), (11, 0), (13, 0)])
def test_devices_without_an_architecture_are_refused(major: int, minor: int) -> None:
    with pytest.raises(TargetError, match="TB502"):
        arch_of(major, minor)


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "limiter"),
    [
        ("sm_90", 128, 32, 0, 16, "registers"),
        ("sm_90", 1024, 16, 0, 2, "warps"),
        ("sm_90", 32, 16, 0, 32, "blocks"),
        ("sm_90", 384, 168, 1024, 1, "registers"),
        ("sm_80", 256, 32, 48 * 1024, 3, "shared memory"),  # (48 + 1) KiB each of 164
        ("sm_90", 128, 32, 227 * 1024, 1, "shared memory"),
        ("sm_86", 128, 255, 0, 2, "registers"),
        ("sm_80", 96, 40, 0, 16, "registers"),  # 1280 registers a warp: 51, of which 48 are used by fours
    ],
)
def test_occupancy(arch: str, threads: int, registers: int, shared: int, blocks: int, limiter: str) -> None:
    found = occupancy(arch, threads, registers, shared)
    assert found.blocks == blocks
    assert found.warps == blocks * -(-threads // 32)
    assert found.fraction == found.warps / ARCHES[arch].warps_per_sm
    assert limiter in found.limiter


def test_occupancy_zero_names_what_is_too_large() -> None:
    assert (
        occupancy("sm_86", 128, 32, 120_000).limiter
        == "117.2 KiB of shared memory per block; at most 99 KiB on sm_86"
    )
    assert occupancy("sm_86", 128, 300, 0).blocks == 0
    assert "2048 threads" in occupancy("sm_86", 2048, 32, 0).limiter
    assert occupancy("sm_90", 1024, 128, 0).blocks == 0  # 1024 x 128 registers are two register files


def test_devices_are_found_by_whole_names() -> None:
    assert find_device("NVIDIA H200").name == "H200 SXM"  # type: ignore[union-attr]
    assert find_device("NVIDIA A100-SXM4-80GB").memory_gb_s == 2039  # type: ignore[union-attr]
    assert find_device("rtx 4090").sm_count == 128  # type: ignore[union-attr]
    for other in (
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3080 Ti",
        "NVIDIA H100 NVL",
        "Radeon",
    ):
        assert find_device(other) is None
    names = [n for d in DEVICES for n in (d.name, *d.driver_names)]
    assert len(names) == len(set(names)) + sum(d.name in d.driver_names for d in DEVICES)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_device_rates_hang_together(device: object) -> None:
    from tilebench.targets import Device

    assert isinstance(device, Device)
    assert device.arch in ARCHES
    # Published rates are SMs x clock x a power of two per clock, up to rounding and separate tensor clocks.
    per_clock = device.f16_tflops * 1e6 / (device.sm_count * device.boost_mhz)
    assert min(abs(per_clock / n - 1) for n in (512, 1024, 2048, 4096, 8192)) < 0.06
    assert device.tensor_tflops("bfloat16") == device.f16_tflops >= device.tensor_tflops("tfloat32") > 0
    assert (device.tensor_tflops("float8_e4m3") > 0) == ("fp8_mma" in ARCHES[device.arch].features)
    assert device.tensor_tflops("float64") == 0
    assert 20 < device.ridge_flops_per_byte < 450


def test_cpu_tiles_fit_the_register_file() -> None:
    for isa, lanes_bytes in VECTOR_BYTES.items():
        facts = CpuFacts("any", isa, 2)
        rows, columns = facts.gemm_tile
        assert facts.f32_lanes == lanes_bytes // 4
        assert rows * columns // facts.f32_lanes < VECTOR_REGISTERS[isa]


def test_target_errors_in_full(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(TargetError) as caught:
        parse("cuda:sm_91")
    golden("errors/TB501.txt", str(caught.value))
    with pytest.raises(TargetError) as caught:
        arch_of(7, 5)
    golden("errors/TB502.txt", str(caught.value))
