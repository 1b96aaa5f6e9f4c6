// Watched values and conditions: a small language over buffers, loop variables and numbers, read by hand (nothing of it is run as code).
//   m[3]   max(s)   l[0] > 100 and k == 2   nan(acc) > 0   changed(m)   acc[3, 17] / l[3]

const FUNCTIONS = {
  max: (v) => v.reduce((a, b) => (b > a || Number.isNaN(a) ? b : a), NaN),
  min: (v) => v.reduce((a, b) => (b < a || Number.isNaN(a) ? b : a), NaN),
  sum: (v) => v.reduce((a, b) => a + b, 0),
  mean: (v) => v.reduce((a, b) => a + b, 0) / v.length,
  absmax: (v) => v.reduce((a, b) => (Math.abs(b) > a || Number.isNaN(a) ? Math.abs(b) : a), NaN),
  nan: (v) => v.reduce((a, b) => a + Number(Number.isNaN(b)), 0),
  inf: (v) => v.reduce((a, b) => a + Number(b === Infinity || b === -Infinity), 0),
  any: (v) => Number(v.some((x) => x !== 0)),
  all: (v) => Number(v.every((x) => x !== 0)),
};
const SCALAR = { abs: Math.abs, sqrt: Math.sqrt, exp: Math.exp, exp2: (x) => 2 ** x, log: Math.log, log2: Math.log2 };
const LEVELS = [["or"], ["and"], ["<", "<=", ">", ">=", "==", "!="], ["+", "-"], ["*", "/"]];
const APPLY = {
  or: (a, b) => Number(Boolean(a) || Boolean(b)), and: (a, b) => Number(Boolean(a) && Boolean(b)),
  "<": (a, b) => Number(a < b), "<=": (a, b) => Number(a <= b), ">": (a, b) => Number(a > b), ">=": (a, b) => Number(a >= b),
  "==": (a, b) => Number(a === b), "!=": (a, b) => Number(a !== b), "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b,
};

/**
 * A compiled expression. names: buffers it reads; of(env) gives a number. Throws an Error that says what is wrong.
 * @param {string} text @param {(name: string) => {shape: number[]}|null} buffer what is known of a buffer
 * @param {(name: string) => boolean} variable whether a name is a loop variable
 * @returns {{names: string[], variables: string[], of: (env: Env) => number}}
 */
export function compile(text, buffer, variable) {
  const tokens = text.match(/\d+\.?\d*(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|<=|>=|==|!=|[-+*/<>()[\],]/g) ?? [];
  if (tokens.join("").length !== text.replace(/\s+/g, "").length) throw new Error(`cannot read ${text}`);
  const names = new Set(), variables = new Set();
  let at = 0;
  const take = (token) => { if (tokens[at] !== token) throw new Error(`expected ${token}${tokens[at] ? `, got ${tokens[at]}` : " at the end"}`); at++; };

  function binary(level) {
    if (level === LEVELS.length) return unary();
    if (level === 2 && tokens[at] === "not") { at++; const a = binary(2); return (env) => Number(!a(env)); }
    let left = binary(level + 1);
    while (LEVELS[level].includes(tokens[at])) {
      const op = tokens[at++], a = left, b = binary(level + 1);
      left = (env) => APPLY[op](a(env), b(env));
    }
    return left;
  }
  function unary() {
    if (tokens[at] === "-") { at++; const a = unary(); return (env) => -a(env); }
    return atom();
  }
  function list(end) {
    const out = [];
    while (tokens[at] !== end) { out.push(binary(0)); if (tokens[at] === ",") at++; else if (tokens[at] !== end) throw new Error(`expected , or ${end}`); }
    at++;
    return out;
  }
  function atom() {
    const token = tokens[at++];
    if (token === undefined) throw new Error("the expression ends too soon");
    if (token === "(") { const a = binary(0); take(")"); return a; }
    if (/^\d/.test(token)) { const x = Number(token); return () => x; }
    if (token === "inf") return () => Infinity;
    if (tokens[at] === "(") {
      at++;
      if (token === "changed" || token in FUNCTIONS) {
        const name = tokens[at++], info = buffer(name);
        if (!info) throw new Error(`${token}() takes a buffer, not ${name ?? "nothing"}`);
        names.add(name);
        take(")");
        return token === "changed" ? (env) => Number(env.changed(name)) : (env) => FUNCTIONS[token](env.values(name));
      }
      if (!(token in SCALAR)) throw new Error(`no function ${token}: there are ${[...Object.keys(FUNCTIONS), "changed", ...Object.keys(SCALAR)].join(", ")}`);
      const args = list(")");
      if (args.length !== 1) throw new Error(`${token}() takes one value`);
      return (env) => SCALAR[token](args[0](env));
    }
    const info = buffer(token);
    if (!info) {
      if (!variable(token)) throw new Error(`nothing here is called ${token}`);
      variables.add(token);
      return (env) => env.variable(token);
    }
    names.add(token);
    if (tokens[at] !== "[") {
      if (info.shape.length === 0) return (env) => env.values(token)[0];
      throw new Error(`${token} has ${info.shape.join(" × ")} elements: ${token}[${info.shape.map(() => "0").join(", ")}] or max(${token})`);
    }
    at++;
    const indices = list("]");
    if (indices.length !== info.shape.length) throw new Error(`${token} takes ${info.shape.length} indices`);
    return (env) => {
      let flat = 0;
      for (let d = 0; d < indices.length; d++) {
        const x = indices[d](env);
        if (!Number.isInteger(x) || x < 0 || x >= info.shape[d]) return NaN;
        flat = flat * info.shape[d] + x;
      }
      return env.values(token)[flat];
    };
  }

  if (!tokens.length) throw new Error("write an expression, such as max(s) or l[0] > 10");
  const of = binary(0);
  if (at < tokens.length) throw new Error(`${tokens[at]} is not expected there`);
  return { names: [...names], variables: [...variables], of };
}

/** @typedef {{values: (name: string) => Float64Array, changed: (name: string) => boolean, variable: (name: string) => number}} Env */

/** What an expression sees after a step. @param {any} m the opened trace @param {number} k @returns {Env} */
export function environment(m, k) {
  const index = (name) => m.byName.get(name);
  return {
    values: (name) => m.at(index(name), k).values,
    changed: (name) => m.steps[k].writes.some((w) => w.buffer === index(name)),
    variable: (name) => { const s = m.steps[k], d = m.sites[s.site].vars.indexOf(name); return d < 0 ? NaN : s.at[d]; },
  };
}

/** An expression after each step: computed again only where something that it reads has changed. @param {any} m @param {ReturnType<typeof compile>} e */
export function series(m, e) {
  const watched = new Set(e.names.map((n) => m.byName.get(n)));
  const out = new Float64Array(m.steps.length);
  let last = NaN;
  for (let k = 0; k < out.length; k++) {
    if (k === 0 || e.variables.length || m.steps[k].writes.some((w) => watched.has(w.buffer)) || (k > 0 && m.steps[k - 1].writes.some((w) => watched.has(w.buffer)))) last = e.of(environment(m, k));
    out[k] = last;
  }
  return out;
}

/** Compiles against an opened trace. @param {any} m @param {string} text */
export function compileFor(m, text) {
  const vars = new Set(m.sites.flatMap((s) => s.vars));
  return compile(text, (name) => (m.byName.has(name) ? m.buffers[m.byName.get(name)] : null), (name) => vars.has(name));
}
