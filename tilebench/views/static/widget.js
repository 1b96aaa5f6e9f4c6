// The anywidget: the board of the model's report, its last pin mirrored to the trait `sel`.
import { h, busOf, cleaned } from "./kit.js";
import { draw } from "./board.js";

/** The report in the model: JSON, deflated. @param {DataView|ArrayBuffer|Uint8Array} packed */
export async function inflate(packed) {
  const stream = new Blob([/** @type {any} */ (packed)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/**
 * How a view asks the kernel for something; null where the host has no messages.
 * @param {any} model @returns {{send: (message: any) => void, listen: (fn: (message: any) => void) => () => void}|null}
 */
function link(model) {
  if (typeof model.send !== "function") return null;
  return {
    send: (message) => model.send(message),
    listen(fn) {
      const heard = (message) => fn(message);
      model.on("msg:custom", heard);
      return () => model.off("msg:custom", heard);
    },
  };
}

/** @param {{model: any, el: HTMLElement}} context */
async function render({ model, el }) {
  el.classList.add("tilebench");
  const report = await inflate(model.get("payload"));
  if (report.version > 1) {
    el.append(h("p", {}, `this report has version ${report.version}: update tilebench to see it`));
    return () => {};
  }
  const act = busOf(report.id);
  const state = { report, views: model.get("views"), state: model.get("state"), link: link(model) };
  const end = draw(el, state, act);
  let told = "{}";
  const off = act.watch((now) => {
    const sel = now.pins[now.pins.length - 1] ?? {};
    const text = JSON.stringify(sel);
    if (text === told) return;
    told = text;
    model.set("sel", sel);
    model.save_changes();
  });
  const heard = () => {
    const sel = cleaned(model.get("sel")), text = JSON.stringify(sel);
    if (text === told) return;
    told = text;
    if (text === "{}") act.clear(); else act.pin(sel);
  };
  model.on("change:sel", heard);
  return () => { model.off("change:sel", heard); off(); end(); };
}

export default { render };
