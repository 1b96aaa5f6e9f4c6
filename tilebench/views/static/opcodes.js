// What opcodes of PTX and SASS do, in a few words, and which kind of work they are. From the PTX ISA and from the instruction set
// reference of the CUDA binary utilities, in our own words.

/** kind -> name shown; the order of the mix. */
export const KINDS = {
  tensor: "tensor cores", copy: "asynchronous copies", shared: "shared memory", global: "global memory", spill: "local memory", math: "floating point",
  special: "special functions", convert: "conversions", integer: "integers and addresses", compare: "compares and selects", move: "moves and constants", lane: "between lanes", sync: "barriers and waits", control: "control", other: "other",
};

const TABLE = {
  tensor: {
    HMMA: "multiplies and adds a tile of 16-bit or tf32 numbers on the tensor cores, one warp", IMMA: "the same for 8-bit integers", QMMA: "the same for 8-bit floats", DMMA: "the same for doubles",
    HGMMA: "multiply-add of a warpgroup on the tensor cores, operands in shared memory, runs on its own", IGMMA: "warpgroup multiply-add of integers", QGMMA: "warpgroup multiply-add of 8-bit floats",
    mma: "multiplies and adds a tile on the tensor cores, one warp", wgmma: "warpgroup multiply-add on the tensor cores, runs on its own until waited for", WARPGROUP: "orders a warpgroup's registers with its multiply-adds",
  },
  copy: {
    LDGSTS: "copies from global to shared memory without registers, runs on its own", LDGDEPBAR: "closes a group of such copies", DEPBAR: "waits until few enough groups are under way", cp: "asynchronous copies: a piece, closing a group, or waiting for groups",
    UTMALDG: "bulk copy of a tile from global to shared memory by the copy engine", UTMASTG: "bulk copy of a tile from shared to global memory", UBLKCP: "bulk copy of a run of bytes", SYNCS: "arrives at or waits for a memory barrier object", mbarrier: "arrives at or waits for a memory barrier object", UTMACMDFLUSH: "ends a group of bulk stores",
  },
  shared: { LDS: "loads from shared memory", STS: "stores to shared memory", LDSM: "loads 8x8 matrices from shared memory, spread over the warp as the tensor cores want them", STSM: "stores such matrices", ATOMS: "atomic update in shared memory", ldmatrix: "loads 8x8 matrices from shared memory, spread over the warp as the tensor cores want them", stmatrix: "stores such matrices" },
  global: { LDG: "loads from global memory", STG: "stores to global memory", ATOMG: "atomic update in global memory, gives the old value", ATOM: "atomic update, gives the old value", RED: "atomic update without a result", REDG: "atomic update of global memory without a result", LD: "loads from any memory", ST: "stores to any memory", CCTL: "tells the caches something", ld: "loads: global, shared, local, parameters by its qualifier", st: "stores: global, shared or local by its qualifier", atom: "atomic update, gives the old value", red: "atomic update without a result", prefetch: "brings a line into a cache" },
  spill: { LDL: "loads from local memory: a register that was spilled, or an array with a run-time index", STL: "stores to local memory: a register is spilled, or an array with a run-time index" },
  math: {
    FADD: "adds floats", FMUL: "multiplies floats", FFMA: "multiplies and adds floats, rounded once", HADD2: "adds two pairs of halves", HMUL2: "multiplies two pairs of halves", HFMA2: "multiplies and adds two pairs of halves", DADD: "adds doubles", DMUL: "multiplies doubles", DFMA: "multiplies and adds doubles", FMNMX: "smaller or larger of two floats", FMNMX3: "smallest or largest of three floats", HMNMX2: "smaller or larger of two pairs of halves",
    add: "adds", sub: "subtracts", mul: "multiplies (with .lo, .hi, .wide: integers)", fma: "multiplies and adds, rounded once", mad: "multiplies and adds (integers: an address)", div: "divides; a subroutine for floats that are not .approx", neg: "changes the sign", abs: "drops the sign", max: "the larger", min: "the smaller",
  },
  special: { MUFU: "one of the special functions: 1/x, 1/sqrt, 2^x, log2, sine, tanh", ex2: "2 to the power", lg2: "logarithm to base 2", rcp: "1 / x", rsqrt: "1 / square root", sqrt: "square root", sin: "sine", cos: "cosine", tanh: "hyperbolic tangent" },
  convert: { F2F: "converts between floats", F2FP: "converts and packs two floats", F2I: "float to integer", I2F: "integer to float", I2FP: "integer to float", F2IP: "floats to packed integers", cvt: "converts between types" },
  integer: {
    IADD3: "adds three integers", VIADD: "adds two integers", IMAD: "multiplies and adds integers; often an address or a move", LEA: "shifts and adds: an address", LOP3: "any logic function of three", SHF: "shifts a pair of registers", SHL: "shifts left", SHR: "shifts right", PRMT: "picks bytes of two registers", IABS: "absolute value", BREV: "reverses bits", FLO: "finds the leading one", POPC: "counts ones", VIMNMX: "smaller or larger of two integers", IMNMX: "smaller or larger of two integers", BMSK: "makes a mask of bits", SGXT: "extends a sign", IADD: "adds integers",
    UIADD3: "adds, once for the warp", ULEA: "shifts and adds, once for the warp", ULOP3: "logic, once for the warp", USHF: "shifts, once for the warp", UIMAD: "multiplies and adds, once for the warp", UPRMT: "picks bytes, once for the warp",
    and: "bits in both", or: "bits in either", xor: "bits in one", not: "turns all bits", shl: "shifts left", shr: "shifts right", shf: "shifts a pair of registers", lop3: "any logic function of three", prmt: "picks bytes of two registers", bfi: "puts a field of bits in", bfe: "takes a field of bits out", popc: "counts ones", clz: "counts leading zeros", rem: "remainder", cvta: "turns an address of one memory into a generic one",
  },
  compare: { FSETP: "compares floats into a predicate", ISETP: "compares integers into a predicate", DSETP: "compares doubles into a predicate", HSETP2: "compares pairs of halves", FSEL: "picks one of two floats by a predicate", SEL: "picks one of two by a predicate", PLOP3: "logic of predicates", UISETP: "compares, once for the warp", USEL: "picks, once for the warp", FSET: "compares floats into a number", P2R: "predicates into a register", R2P: "a register into predicates", setp: "compares into a predicate", selp: "picks one of two by a predicate", set: "compares into a number" },
  move: { MOV: "copies a register or a constant", UMOV: "copies, once for the warp", S2R: "reads a special register: thread or block index", S2UR: "reads a special register, once for the warp", CS2R: "reads a special register, or zero into a pair of registers", LDC: "loads a constant or a parameter", ULDC: "loads a constant, once for the warp", LDCU: "loads a constant, once for the warp", R2UR: "from a register of a thread to one of the warp", mov: "copies a register, a constant or a special register", VOTEU: "vote of the warp into a warp's register" },
  lane: { SHFL: "exchanges registers between lanes of a warp", shfl: "exchanges registers between lanes of a warp", VOTE: "one bit from every lane", vote: "one bit from every lane", MATCH: "lanes with the same value", REDUX: "reduces over the warp", redux: "reduces over the warp", activemask: "which lanes run", elect: "picks one lane", ELECT: "picks one lane" },
  sync: { BAR: "barrier of the block", bar: "barrier of the block", barrier: "barrier of the block", MEMBAR: "orders memory accesses", membar: "orders memory accesses", fence: "orders memory accesses", FENCE: "orders memory accesses", ERRBAR: "orders errors", WARPSYNC: "brings the lanes of a warp together", NANOSLEEP: "waits a little", UCGABAR_ARV: "arrives at the cluster's barrier", UCGABAR_WAIT: "waits at the cluster's barrier", USETMAXREG: "gives registers to or takes them from a warpgroup", setmaxnreg: "gives registers to or takes them from a warpgroup" },
  control: { BRA: "branch", bra: "branch", EXIT: "ends the thread", ret: "ends the function", RET: "ends the function", CALL: "calls a function", BSSY: "marks where divergent lanes meet again", BSYNC: "divergent lanes meet again", BREAK: "a lane leaves such a region", NOP: "does nothing: fills up the end of the code", BRX: "branch by a table", exit: "ends the thread", trap: "stops the kernel", BPT: "stops for a debugger" },
};

/** @type {Map<string, [string, string]>} */
const KNOWN = new Map(Object.entries(TABLE).flatMap(([kind, ops]) => Object.entries(ops).map(([op, text]) => /** @type {[string, [string, string]]} */ ([op, [kind, text]]))));

/** The opcode of a line of PTX or SASS: "HMMA.16816.F32" or "cp.async.cg". @param {string} line */
export function opcodeOf(line) {
  const text = line.trim().replace(/^[0-9a-f]{4,}\s+/, "").replace(/^@!?U?%?[pP]\w+\s+/, "");
  return /^[A-Za-z_][\w.:]*/.exec(text.replace(/^[.$({)}/].*/, ""))?.[0].replace(/:$/, "") ?? "";
}

/** [kind, words] of an opcode with or without qualifiers; ["other", ""] when it is not in the table. @param {string} opcode */
export function about(opcode) {
  const head = opcode.split(".")[0];
  if (/^(ld|st)$/.test(head) && opcode.includes(".shared")) return ["shared", head === "ld" ? "loads from shared memory" : "stores to shared memory"];
  if (/^(ld|st)$/.test(head) && opcode.includes(".local")) return ["spill", head === "ld" ? "loads from local memory: a spilled register or an array" : "stores to local memory: a spilled register or an array"];
  if (head === "ld" && opcode.includes(".param")) return ["move", "reads a parameter"];
  return KNOWN.get(head) ?? ["other", ""];
}

/** Whether a line moves a register to or from local memory. @param {string} line */
export function isSpill(line) {
  return about(opcodeOf(line))[0] === "spill";
}

/** Counts by kind, with the opcodes of each, the most frequent kind first. @param {Record<string, number>} mix */
export function byKind(mix) {
  const found = new Map();
  for (const [op, n] of Object.entries(mix)) {
    const kind = about(op)[0];
    if (!found.has(kind)) found.set(kind, { kind, count: 0, ops: [] });
    const one = found.get(kind);
    one.count += n;
    one.ops.push([op, n]);
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}
