"""The device functions of sm_90a but for warpgroup products: mbarriers, bulk tensor copies, proxy fences,
stmatrix, setmaxnreg. Each is one PTX instruction.

Sources: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "Async proxy", "stmatrix", "setmaxnreg".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tilebench.backends.cuda.prelude import Piece

SM90 = 90
_PIECES: dict[str, Piece] = {}


def _piece(name: str, text: str, needs: str = "shared_address") -> None:
    _PIECES[name] = Piece(name, ((SM90, text),), tuple(needs.split()))


def _instruction(name: str, signature: str, instruction: str, inputs: str = "", needs: str = "") -> None:
    """A function of one instruction that has no result."""
    _piece(
        name,
        f'DEVICE void {name}({signature}) {{\n  asm volatile("{instruction};" :: {inputs} : "memory");\n}}',
        needs,
    )


_piece("tensor_map", "struct __align__(64) TensorMap { unsigned long long words[16]; };", "")

# ------------------------------------------------------------------ mbarriers

_instruction(
    "mbarrier_init",
    "void* barrier, unsigned arrivals",
    "mbarrier.init.shared::cta.b64 [%0], %1",
    '"r"(shared_address(barrier)), "r"(arrivals)',
    "shared_address",
)
_instruction("mbarrier_init_fence", "", "fence.mbarrier_init.release.cluster")
_instruction(
    "mbarrier_arrive",
    "void* barrier",
    "mbarrier.arrive.shared::cta.b64 _, [%0]",
    '"r"(shared_address(barrier))',
    "shared_address",
)
_instruction(
    "mbarrier_expect",
    "void* barrier, unsigned bytes",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1",
    '"r"(shared_address(barrier)), "r"(bytes)',
    "shared_address",
)
# The loop is in the asm: the compiler may copy a branch in C++, and copies of a wait make the text grow.
_piece(
    "mbarrier_wait",
    r"""
DEVICE void mbarrier_wait(const void* barrier, unsigned parity) {
  asm volatile("{\n.reg .pred done;\nwait_again:\n"
    "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
    "@done bra.uni wait_over;\nbra.uni wait_again;\nwait_over:\n}"
    :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}""",
)

# ------------------------------------------------------------------ bulk copies

_instruction("bulk_commit", "", "cp.async.bulk.commit_group")
_instruction("fence_proxy_async", "", "fence.proxy.async.shared::cta")
for _way in ("", ".read"):
    _name = "bulk_wait" + _way.replace(".", "_")
    _piece(
        _name,
        f"template <int N> DEVICE void {_name}() {{\n"
        f'  asm volatile("cp.async.bulk.wait_group{_way} %0;" :: "n"(N) : "memory");\n}}',
        "",
    )


@cache
def bulk_load_piece(rank: int) -> Piece:
    """`bulk_load_<rank>d(destination, &map, barrier, c0, ...)`: a box of a tensor, innermost first."""
    name = f"bulk_load_{rank}d"
    parameters, slots, inputs = _coordinates(rank, 3)
    text = (
        f"DEVICE void {name}(void* d, const void* map, void* barrier, {parameters}) {{\n"
        f'  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.'
        f'mbarrier::complete_tx::bytes "\n    "[%0], [%1, {slots}], [%2];"\n'
        f'    :: "r"(shared_address(d)), "l"(map), "r"(shared_address(barrier)), {inputs} : "memory");\n}}'
    )
    return Piece(name, ((SM90, text),), ("shared_address",))


@cache
def bulk_store_piece(rank: int) -> Piece:
    """`bulk_store_<rank>d(&map, source, c0, ...)`."""
    name = f"bulk_store_{rank}d"
    return Piece(name, ((SM90, _outward(name, "cp", "", rank, "map")),), ("shared_address",))


@cache
def bulk_add_piece(rank: int) -> Piece:
    """`tma_store_add(&descriptor, source, c0, ...)`: a bulk reduction; the number of coordinates tells ranks
    apart."""
    text = _outward("tma_store_add", "cp.reduce", "add.", rank, "descriptor")
    return Piece(f"tma_store_add_{rank}d", ((SM90, text),), ("shared_address",))


def _outward(name: str, verb: str, way: str, rank: int, map_: str) -> str:
    parameters, slots, inputs = _coordinates(rank, 2)
    return (
        f"DEVICE void {name}(const void* {map_}, const void* s, {parameters}) {{\n"
        f'  asm volatile("{verb}.async.bulk.tensor.{rank}d.global.shared::cta.{way}tile.bulk_group "\n'
        f'    "[%0, {slots}], [%1];" :: "l"({map_}), "r"(shared_address(s)), {inputs} : "memory");\n}}'
    )


def _coordinates(rank: int, first_slot: int) -> tuple[str, str, str]:
    """(parameters, PTX operand, asm inputs) of a box's coordinates."""
    names = [f"c{i}" for i in range(rank)]
    slots = ", ".join(f"%{first_slot + i}" for i in range(rank))
    inputs = ", ".join(f'"r"({name})' for name in names)
    return ", ".join(f"int {name}" for name in names), "{" + slots + "}", inputs


# ------------------------------------------------------------------ stmatrix, setmaxnreg


@cache
def stmatrix_piece(matrices: int, transpose: bool) -> Piece:
    """`stmatrix_x<matrices>[_trans](destination, registers)`."""
    name = f"stmatrix_x{matrices}" + ("_trans" if transpose else "")
    slots = ", ".join(f"%{1 + i}" for i in range(matrices))
    inputs = ", ".join(f'"r"(r[{i}])' for i in range(matrices))
    way = ".trans" if transpose else ""
    text = (
        f"DEVICE void {name}(void* d, const void* s) {{\n  const unsigned* r = (const unsigned*)s;\n"
        f'  asm volatile("stmatrix.sync.aligned.m8n8.x{matrices}{way}.shared.b16 [%0], {{{slots}}};"\n'
        f'    :: "r"(shared_address(d)), {inputs} : "memory");\n}}'
    )
    return Piece(name, ((SM90, text),), ("shared_address",))


for _name, _way in (("give_registers", "dec"), ("take_registers", "inc")):
    _piece(
        _name,
        f"template <int N> DEVICE void {_name}() {{\n"
        f'  asm volatile("setmaxnreg.{_way}.sync.aligned.u32 %0;" :: "n"(N));\n}}',
        "",
    )

HOPPER_PIECES: Mapping[str, Piece] = MappingProxyType(_PIECES)
"""The pieces of this file that do not depend on a shape, by name."""
