"use strict";(self.rspackChunktilebench=self.rspackChunktilebench||[]).push([[49],{27(t,e,i){var n=i(28),r=i.n(n),a=i(29),b=(i.n(a))()(r());b.push([t.id,`/* Colours come from the page's theme (JupyterLab, VS Code, marimo), with fallbacks for a plain page. */
.tilebench {
  --tb-ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, #1b1f24));
  --tb-quiet: var(--jp-ui-font-color2, var(--vscode-descriptionForeground, #57606a));
  --tb-back: var(--jp-layout-color1, var(--vscode-editor-background, #ffffff));
  --tb-panel: var(--jp-layout-color2, var(--vscode-sideBar-background, #f3f5f7));
  --tb-line: var(--jp-border-color1, var(--vscode-panel-border, #c9d1d9));
  --tb-accent: #0550ae;
  --tb-good: #176f33;
  --tb-bad: #b3001b;
  --tb-warn: #7d5200;
  --tb-hover: #dbeafe;
  --tb-pinned: #fff1b8;
  --tb-new: #dcf5e0;
  --tb-at: #cfe3ff;
  --tb-changed: #a03d00;
  --tb-mono: var(--jp-code-font-family, ui-monospace, SFMono-Regular, Menlo, monospace);
  color: var(--tb-ink);
  background: var(--tb-back);
  font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif);
}
body[data-jp-theme-light="false"] .tilebench, body[data-theme="dark"] .tilebench, body.vscode-dark .tilebench, .dark .tilebench {
  --tb-accent: #79b8ff;
  --tb-good: #56d364;
  --tb-bad: #ff8b84;
  --tb-warn: #e3b341;
  --tb-hover: #1e3a5f;
  --tb-pinned: #4d3f00;
  --tb-new: #12361f;
  --tb-at: #173a63;
  --tb-changed: #ffa657;
}
body[data-theme="dark"] .tilebench { --tb-ink: #e6edf3; --tb-quiet: #a9b4c0; --tb-back: #0d1117; --tb-panel: #161b22; --tb-line: #3d444d; }
@media (prefers-color-scheme: dark) {
  body:not([data-jp-theme-light]):not([data-theme]):not(.vscode-light) .tilebench {
    --tb-ink: #e6edf3; --tb-quiet: #a9b4c0; --tb-back: #0d1117; --tb-panel: #161b22; --tb-line: #3d444d;
    --tb-accent: #79b8ff; --tb-good: #56d364; --tb-bad: #ff8b84; --tb-warn: #e3b341; --tb-hover: #1e3a5f; --tb-pinned: #4d3f00; --tb-new: #12361f; --tb-at: #173a63; --tb-changed: #ffa657;
  }
}
/* JupyterLab's second colour is too faint on its second background */
body[data-jp-theme-light] .tilebench { --tb-quiet: color-mix(in srgb, var(--jp-ui-font-color1) 78%, var(--jp-layout-color1)); }
.tilebench, .tilebench * { box-sizing: border-box; }
.tilebench .tb-board { border: 1px solid var(--tb-line); border-radius: 4px; padding: 8px 12px; overflow: hidden; }
.tilebench p { margin: 4px 0; }
.tilebench .tb-verdict { font-size: 14px; overflow-wrap: anywhere; }
.tilebench [data-verdict="pass"] { color: var(--tb-good); }
.tilebench [data-verdict="fail"] { color: var(--tb-bad); }
.tilebench [data-verdict="unchecked"] { color: var(--tb-quiet); }
.tilebench .tb-tabs { display: flex; flex-wrap: wrap; gap: 2px; border-bottom: 1px solid var(--tb-line); margin: 6px 0; }
.tilebench .tb-tab { font: inherit; color: var(--tb-ink); background: transparent; border: 1px solid transparent; border-bottom: 2px solid transparent; padding: 4px 10px; cursor: pointer; }
.tilebench .tb-tab[aria-selected="true"] { border-bottom-color: var(--tb-accent); font-weight: 600; }
.tilebench .tb-tab.tb-touched::after { content: " ●"; color: var(--tb-accent); font-size: 8px; vertical-align: super; }
.tilebench :focus-visible { outline: 2px solid var(--tb-accent); outline-offset: 1px; }
.tilebench .tb-tools { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center; margin: 4px 0; }
.tilebench .tb-choice { display: inline-flex; gap: 5px; align-items: center; color: var(--tb-quiet); }
.tilebench select, .tilebench input, .tilebench .tb-button { font: inherit; font-size: 12px; color: var(--tb-ink); background: var(--tb-panel); border: 1px solid var(--tb-line); border-radius: 3px; padding: 1px 6px; max-width: 260px; }
.tilebench input::placeholder { color: var(--tb-quiet); opacity: 1; }
.tilebench .tb-button { cursor: pointer; white-space: nowrap; }
.tilebench .tb-goto { width: 164px; }
.tilebench .tb-status { word-break: normal; font-family: var(--tb-mono); font-size: 12px; min-height: 1.9em; overflow-wrap: anywhere; background: var(--tb-panel); padding: 3px 6px; border-radius: 3px; }
.tilebench .tb-grid { position: relative; line-height: 0; touch-action: none; max-width: 100%; }
.tilebench .tb-canvas { position: absolute; left: 0; top: 0; }
.tilebench .tb-over { cursor: crosshair; }
.tilebench .tb-stage { width: 100%; }
.tilebench .tb-two { display: grid; grid-template-columns: minmax(0, 460px) minmax(260px, 1fr); gap: 14px; align-items: start; margin-top: 6px; }
@media (max-width: 760px) { .tilebench .tb-two { grid-template-columns: minmax(0, 1fr); } }
.tilebench .tb-side { min-width: 0; overflow-x: auto; }
.tilebench .tb-legend, .tilebench .tb-why, .tilebench .tb-hint, .tilebench .tb-head { color: var(--tb-quiet); font-size: 12px; overflow-wrap: anywhere; }
.tilebench .tb-legend { display: flex; flex-wrap: wrap; gap: 2px 10px; margin: 6px 0; }
.tilebench .tb-swatch { display: inline-flex; align-items: center; gap: 4px; }
.tilebench .tb-swatch i { width: 12px; height: 12px; border: 1px solid #0006; display: inline-block; }
.tilebench .tb-formula { word-break: normal; font-family: var(--tb-mono); font-size: 12px; white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0; padding: 4px 6px; color: var(--tb-ink); background: var(--tb-panel); border-radius: 3px; }
.tilebench .tb-table { border-collapse: collapse; font-size: 12px; margin: 6px 0; color: var(--tb-ink); }
.tilebench .tb-table caption { text-align: left; color: var(--tb-quiet); padding: 2px 0; }
.tilebench .tb-table th, .tilebench .tb-table td { border: 1px solid var(--tb-line); padding: 2px 7px; text-align: left; vertical-align: baseline; overflow-wrap: break-word; background: transparent; }
.tilebench .tb-table .tb-num { text-align: right; font-variant-numeric: tabular-nums; }
.tilebench .tb-table td.tb-num, .tilebench .tb-pairs td:first-child { white-space: nowrap; }
.tilebench .tb-table .tb-prose { min-width: 200px; }
.tilebench .tb-table .tb-hint { overflow-wrap: break-word; }
.tilebench .tb-grid:focus-visible { outline-offset: -2px; }
.tilebench .tb-panel { overflow-x: auto; }
.tilebench .tb-foot { display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: center; border-top: 1px solid var(--tb-line); margin-top: 8px; padding-top: 6px; color: var(--tb-quiet); font-size: 12px; }
.tilebench .tb-pins { flex: 1 1 200px; overflow-wrap: anywhere; }
.tilebench .tb-badge { font-weight: 600; color: var(--tb-good); }
.tilebench .tb-badge[data-bad="true"] { color: var(--tb-bad); }
.tilebench .tb-map-row { display: grid; grid-template-columns: minmax(180px, 280px) 1fr; gap: 8px; align-items: center; margin: 2px 0; }
.tilebench .tb-map-name { font: inherit; font-size: 12px; text-align: left; color: var(--tb-ink); background: none; border: 0; padding: 0; cursor: pointer; }
.tilebench .tb-map-track { position: relative; height: 14px; background: var(--tb-panel); border: 1px solid var(--tb-line); }
.tilebench .tb-map-bar { position: absolute; top: 0; bottom: 0; background: #8ecae6; border: 1px solid #1b1f24; min-width: 2px; }
.tilebench .tb-warps { display: grid; gap: 2px; max-width: 520px; }
.tilebench .tb-warp { font: inherit; color: #000000; border: 2px solid #24292f; padding: 8px; display: flex; flex-direction: column; align-items: center; cursor: pointer; }
.tilebench .tb-warp.tb-lit { border-color: #b3001b; box-shadow: inset 0 0 0 2px #b3001b; }
.tilebench .tb-svg { width: 100%; height: auto; display: block; }
.tilebench .tb-roof { max-width: 720px; }
.tilebench .tb-hist { max-width: 460px; }
.tilebench .tb-wide { overflow-x: auto; }
.tilebench .tb-wide svg { min-width: 560px; }
.tilebench .tb-label { fill: var(--tb-quiet); font-size: 11px; }
.tilebench .tb-strong { fill: var(--tb-ink); font-size: 12px; font-weight: 600; }
.tilebench .tb-inbar { fill: #000000; font-size: 11px; pointer-events: none; }
.tilebench .tb-rule { stroke: var(--tb-line); stroke-width: 1; opacity: 0.7; }
.tilebench .tb-bar { stroke: #1b1f24; stroke-width: 0.7; cursor: pointer; }
.tilebench .tb-bar.tb-lit { stroke: var(--tb-bad); stroke-width: 3; }
.tilebench .tb-arrow { fill: none; stroke: var(--tb-quiet); stroke-width: 1; opacity: 0.45; pointer-events: none; }
.tilebench .tb-arrow.tb-lit { stroke: var(--tb-bad); stroke-width: 2; opacity: 1; }
.tilebench .tb-ceiling { stroke: var(--tb-ink); stroke-width: 1.5; }
.tilebench .tb-slope { stroke: var(--tb-accent); stroke-width: 1.5; }
.tilebench .tb-path { fill: none; stroke: var(--tb-quiet); stroke-dasharray: 4 3; }
.tilebench .tb-point { stroke: var(--tb-bad); stroke-width: 2; }
.tilebench .tb-measured { fill: var(--tb-bad); }
.tilebench .tb-predicted { fill: var(--tb-back); }
.tilebench .tb-column { fill: var(--tb-accent); }
.tilebench .tb-figure { margin: 6px 0; }
.tilebench .tb-figure figcaption { color: var(--tb-quiet); font-size: 12px; }
.tilebench .tb-code { display: flex; flex-wrap: wrap; gap: 8px; }
.tilebench .tb-pane { flex: 1 1 260px; min-width: 0; }
.tilebench .tb-lines { font-family: var(--tb-mono); font-size: 12px; line-height: 1.4; height: 380px; overflow: auto; border: 1px solid var(--tb-line); margin-top: 4px; position: relative; }
.tilebench .tb-line { display: flex; white-space: pre; width: max-content; min-width: 100%; }
.tilebench .tb-no { flex: 0 0 42px; text-align: right; padding-right: 8px; color: var(--tb-quiet); user-select: none; }
.tilebench .tb-linked { cursor: pointer; }
.tilebench .tb-line.tb-pinned { background: var(--tb-pinned); }
.tilebench .tb-line.tb-hover { background: var(--tb-hover); }
.tilebench .tb-line.tb-pinned .tb-no { border-right-color: var(--tb-warn); color: var(--tb-ink); }
.tilebench .tb-line.tb-new { background: var(--tb-new); }
.tilebench .tb-split { display: grid; grid-template-columns: 150px 1fr; gap: 8px; }
.tilebench .tb-split > * { min-width: 0; }
.tilebench .tb-item { display: flex; justify-content: space-between; padding: 2px 6px; cursor: pointer; border-left: 3px solid transparent; }
.tilebench .tb-item small { color: var(--tb-quiet); }
.tilebench .tb-item.tb-lit { border-left-color: var(--tb-accent); background: var(--tb-panel); font-weight: 600; }
.tilebench .tb-findings { list-style: none; padding: 0; margin: 6px 0; }
.tilebench .tb-findings li { margin: 6px 0; padding-left: 8px; border-left: 3px solid var(--tb-line); overflow-wrap: anywhere; }
.tilebench .tb-findings [data-severity="error"] { border-left-color: var(--tb-bad); }
.tilebench [data-severity="error"] > b { color: var(--tb-bad); }
.tilebench .tb-findings [data-severity="warning"] { border-left-color: var(--tb-warn); }
.tilebench [data-severity="warning"] > b { color: var(--tb-warn); }
@media (prefers-reduced-motion: reduce) { .tilebench * { transition: none !important; animation: none !important; scroll-behavior: auto !important; } }
/* layout, shared memory, code, passes, warps */
.tilebench [hidden] { display: none !important; }
.tilebench .tb-two.tb-even { grid-template-columns: minmax(0, min(624px, 60%)) minmax(260px, 1fr); }
.tilebench .tb-two.tb-stack { grid-template-columns: minmax(0, 1fr); }
@media (max-width: 760px) { .tilebench .tb-two.tb-even { grid-template-columns: minmax(0, 1fr); } }
.tilebench .tb-key-line { background: transparent !important; border: 0 !important; border-right: 2.5px solid var(--tb-ink) !important; width: 6px !important; }
.tilebench .tb-key-corner { background: linear-gradient(225deg, #24292f 40%, #d2d2ff 41%) !important; }
.tilebench .tb-chain { margin: 2px 0 6px; padding-left: 22px; color: var(--tb-ink); font-size: 12px; }
.tilebench .tb-chain li { margin: 3px 0; }
.tilebench .tb-holders, .tilebench .tb-bases { font-size: 12px; margin: 4px 0; }
.tilebench summary { cursor: pointer; }
.tilebench .tb-bits { border-collapse: collapse; font: 11px var(--tb-mono); margin: 4px 0; }
.tilebench .tb-bits th, .tilebench .tb-bits td { width: 22px; text-align: center; padding: 0; border: 1px solid var(--tb-line); font-weight: normal; color: var(--tb-quiet); background: transparent; }
.tilebench .tb-bits .tb-on { background: var(--tb-accent); color: var(--tb-back); font-weight: 700; }
.tilebench .tb-bit { font: inherit; color: var(--tb-ink); background: none; border: 0; padding: 1px 2px; cursor: pointer; }
.tilebench .tb-mma { display: grid; gap: 8px 18px; }
.tilebench .tb-mma-b { grid-area: 1 / 2; }
.tilebench .tb-mma-a { grid-area: 2 / 1; }
.tilebench .tb-mma-c { grid-area: 2 / 2; }
.tilebench input[type="range"] { padding: 0; width: 92px; accent-color: var(--tb-accent); vertical-align: middle; }
.tilebench .tb-axes { pointer-events: none; color: var(--tb-quiet); }
/* timeline, roofline, difference card, what-if */
.tilebench .tb-time { touch-action: pan-y; user-select: none; }
.tilebench .tb-time .tb-label, .tilebench .tb-time .tb-inbar { font-size: 12px; }
.tilebench .tb-band { opacity: 0.22; }
.tilebench .tb-cut { fill: var(--tb-back); opacity: 0.92; stroke: var(--tb-line); stroke-dasharray: 3 3; }
.tilebench .tb-gutter { fill: var(--tb-back); }
.tilebench .tb-time .tb-under { font-size: 11px; }
.tilebench .tb-real { stroke-width: 1.1; }
.tilebench .tb-waiting { fill: var(--tb-back); fill-opacity: 0.35; stroke: var(--tb-quiet); stroke-dasharray: 3 2; }
.tilebench .tb-inwait { pointer-events: none; }
.tilebench .tb-swatch i.tb-hollow { background: transparent; border: 1px dashed var(--tb-quiet); }
.tilebench .tb-swatch i.tb-flat { height: 6px; margin-top: 6px; background: #c4cbd2; }
.tilebench .tb-bar.tb-cursor { stroke: var(--tb-ink); stroke-width: 2.5; stroke-dasharray: none; }
.tilebench .tb-tall { max-height: 320px; overflow: auto; }
.tilebench .tb-tall .tb-table th, .tilebench .tb-tall .tb-table td { padding: 2px 5px; }
.tilebench .tb-two.tb-wider { grid-template-columns: minmax(0, min(620px, 58%)) minmax(250px, 1fr); }
.tilebench .tb-faint { opacity: 0.65; stroke-dasharray: 6 3; }
.tilebench .tb-along { fill: var(--tb-accent); }
.tilebench .tb-point { cursor: pointer; }
.tilebench .tb-point.tb-lit { stroke: var(--tb-ink); stroke-width: 3.5; }
.tilebench .tb-levels { border: 1px solid var(--tb-line); border-radius: 3px; margin: 6px 0; padding: 2px 8px; font-size: 12px; color: var(--tb-quiet); }
.tilebench .tb-levels label { display: inline-flex; align-items: center; margin-right: 10px; white-space: nowrap; }
.tilebench .tb-levels input { width: auto; }
.tilebench .tb-busy-row { display: grid; grid-template-columns: 108px 1fr 104px; gap: 6px; align-items: center; font-size: 12px; margin: 2px 0; }
.tilebench .tb-meter { height: 10px; background: var(--tb-panel); border: 1px solid var(--tb-line); display: block; min-width: 20px; }
.tilebench .tb-meter i { display: block; height: 100%; background: var(--tb-accent); }
.tilebench .tb-meter i.tb-limiting { background: var(--tb-bad); }
.tilebench .tb-figure-text { text-align: right; white-space: nowrap; }
@media (max-width: 760px) { .tilebench .tb-two.tb-wider { grid-template-columns: minmax(0, 1fr); } }
.tilebench h4 { font-size: 12px; margin: 8px 0 2px; color: var(--tb-quiet); font-weight: 600; }
.tilebench .tb-cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 8px; align-items: start; }
.tilebench .tb-card { border: 1px solid var(--tb-line); border-radius: 4px; padding: 2px 8px 6px; min-width: 0; overflow-x: auto; }
.tilebench .tb-card p { margin: 2px 0; font-size: 12px; overflow-wrap: anywhere; }
.tilebench .tb-deltas { width: 100%; }
.tilebench .tb-deltas th, .tilebench .tb-deltas td { border: 0; border-bottom: 1px solid var(--tb-line); font-weight: 400; overflow-wrap: anywhere; }
.tilebench .tb-deltas th { color: var(--tb-quiet); min-width: 104px; overflow-wrap: normal; }
.tilebench .tb-deltas td b { font-weight: 600; }
.tilebench .tb-deltas .tb-change { white-space: nowrap; text-align: right; }
.tilebench tr[data-verdict="better"] .tb-change { color: var(--tb-good); font-weight: 600; }
.tilebench tr[data-verdict="worse"] .tb-change { color: var(--tb-bad); font-weight: 600; }
.tilebench .tb-visually-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.tilebench .tb-moved { image-rendering: pixelated; border: 1px solid var(--tb-line); display: block; max-width: 100%; }
.tilebench .tb-difference { height: auto; max-height: 360px; }
.tilebench .tb-difference .tb-no { flex-basis: 22px; text-align: center; padding-right: 4px; }
.tilebench .tb-line.tb-added { background: var(--tb-new); }
.tilebench .tb-line.tb-removed { background: var(--tb-gone); }
.tilebench .tb-line.tb-hunk { color: var(--tb-quiet); background: var(--tb-panel); }
.tilebench .tb-findings li.tb-lit { background: var(--tb-pinned); }
.tilebench .tb-findings li.tb-cursor { outline: 2px solid var(--tb-accent); }
.tilebench { --tb-gone: #ffe3e1; }
body[data-jp-theme-light="false"] .tilebench, body[data-theme="dark"] .tilebench, body.vscode-dark .tilebench, .dark .tilebench { --tb-gone: #4a1e1c; }
@media (prefers-color-scheme: dark) { body:not([data-jp-theme-light]):not([data-theme]):not(.vscode-light) .tilebench { --tb-gone: #4a1e1c; } }
.tilebench .tb-copy { stroke: #1b1f24; stroke-width: 0.8; stroke-dasharray: 3 3; pointer-events: none; }
.tilebench .tb-tick { stroke: var(--tb-quiet); stroke-width: 1; }
.tilebench .tb-now { stroke: var(--tb-bad); stroke-width: 2; pointer-events: none; }
.tilebench .tb-ways td { text-align: center; padding: 0 4px; }
.tilebench .tb-ways th { font-weight: normal; text-align: left; white-space: nowrap; }
.tilebench .tb-way { font: inherit; color: var(--tb-ink); background: none; border: 0; padding: 2px 6px; cursor: pointer; text-decoration: underline dotted; }
.tilebench .tb-way-bad { color: var(--tb-bad); font-weight: 700; }
.tilebench .tb-picked { outline: 2px solid var(--tb-accent); outline-offset: -2px; }
.tilebench .tb-sliders { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 270px), 1fr)); gap: 10px 18px; min-width: 0; }
.tilebench .tb-two.tb-sliding { grid-template-columns: minmax(0, 1fr) minmax(280px, 400px); grid-template-rows: auto 1fr; }
.tilebench .tb-sliding > .tb-side { grid-row: span 2; }
.tilebench .tb-sliding > :last-child { min-width: 0; }
.tilebench .tb-swatch i.tb-key-bar { border: 0; width: 8px; background: var(--tb-accent); }
.tilebench .tb-slider { min-width: 0; }
.tilebench .tb-slider-head { display: flex; justify-content: space-between; gap: 8px; font-size: 12px; }
.tilebench .tb-slider-name { font-family: var(--tb-mono); font-weight: 600; }
.tilebench .tb-value { color: var(--tb-quiet); }
.tilebench input.tb-range { width: 100%; max-width: none; margin: 2px 0; padding: 0; accent-color: var(--tb-accent); background: transparent; border: 0; cursor: pointer; }
.tilebench .tb-marks { display: flex; justify-content: space-between; gap: 2px; align-items: flex-end; }
.tilebench .tb-mark { font: inherit; font-size: 11px; line-height: 1.3; color: var(--tb-ink); background: transparent; border: 1px solid transparent; border-radius: 3px; padding: 1px 3px; cursor: pointer; display: inline-flex; flex-direction: column; align-items: center; justify-content: flex-end; min-width: 22px; min-height: 40px; }
.tilebench .tb-mark-bar { display: block; width: 10px; background: var(--tb-accent); opacity: 0.75; }
.tilebench .tb-mark[aria-pressed="true"] { border-color: var(--tb-accent); font-weight: 700; background: var(--tb-panel); }
.tilebench .tb-mark[data-base="true"] span { text-decoration: underline; text-underline-offset: 2px; }
.tilebench .tb-mark[aria-disabled="true"] { color: var(--tb-quiet); cursor: not-allowed; }
.tilebench .tb-mark[aria-disabled="true"] span { text-decoration: line-through; }
.tilebench .tb-state { font-size: 12px; font-weight: 600; border: 1px solid var(--tb-line); border-radius: 9px; padding: 0 8px; background: var(--tb-panel); }
.tilebench .tb-state[data-state="compiled"], .tilebench .tb-state[data-state="kept"] { color: var(--tb-good); }
.tilebench .tb-state[data-state="illegal"], .tilebench .tb-illegal { color: var(--tb-bad); }
.tilebench .tb-state[data-state="predicted"] { color: var(--tb-accent); }
.tilebench .tb-state[data-state="busy"] { color: var(--tb-warn); }
.tilebench .tb-button:disabled { color: var(--tb-quiet); cursor: default; border-style: dashed; }
.tilebench .tb-docks { display: grid; gap: 12px; grid-template-columns: minmax(0, 1fr); }
.tilebench .tb-docks.tb-docked { grid-template-columns: repeat(2, minmax(0, 1fr)); }
.tilebench .tb-docks.tb-docked .tb-two { grid-template-columns: minmax(0, 1fr); }
.tilebench .tb-docked > .tb-panel + .tb-panel { border-left: 1px solid var(--tb-line); padding-left: 12px; }
.tilebench .tb-bar-row { display: flex; align-items: flex-end; gap: 8px; border-bottom: 1px solid var(--tb-line); margin: 6px 0; }
.tilebench .tb-bar-row .tb-tabs { flex: 1 1 auto; border-bottom: 0; margin: 0; }
@media (max-width: 760px) { .tilebench .tb-two.tb-sliding, .tilebench .tb-docks.tb-docked { grid-template-columns: minmax(0, 1fr); } .tilebench .tb-docked > .tb-panel + .tb-panel { border-left: 0; padding-left: 0; border-top: 1px solid var(--tb-line); } }
.tilebench .tb-lines .tb-no { border-right: 3px solid transparent; margin-right: 5px; }
.tilebench .tb-lines .tb-linked .tb-no { border-right-color: var(--tb-line); }
.tilebench .tb-lines .tb-line.tb-pinned .tb-no { border-right-color: var(--tb-warn); }
.tilebench .tb-pane select { max-width: 156px; }
/* as tall as its longest sentence: a line more would push what is pointed at away */
.tilebench .tb-roomy { height: 3.5em; min-height: 3.5em; overflow-y: auto; }
.tilebench .tb-pane .tb-tools { min-height: 24px; gap: 4px 8px; }
.tilebench .tb-live { flex: 0 0 30px; align-self: center; height: 7px; margin-right: 8px; background: var(--tb-panel); border: 1px solid var(--tb-line); position: relative; }
.tilebench .tb-live i { position: absolute; left: 0; top: 0; bottom: 0; background: var(--tb-accent); }
.tilebench .tb-spill { color: var(--tb-bad); border: 1px solid var(--tb-bad); border-radius: 3px; font-size: 10px; line-height: 13px; align-self: center; padding: 0 3px; margin-right: 6px; }
.tilebench .tb-fold { align-items: center; color: var(--tb-quiet); }
.tilebench .tb-fold .tb-button { border: 0; background: none; color: var(--tb-quiet); text-decoration: underline dotted; padding: 0; }
.tilebench .tb-mix { font-size: 12px; margin: 4px 0; }
.tilebench .tb-mix th { font-weight: normal; white-space: nowrap; }
.tilebench .tb-mixbar { width: 110px; }
.tilebench .tb-mixbar i { display: block; height: 9px; background: var(--tb-accent); }
.tilebench .tb-op { font: 11px var(--tb-mono); color: var(--tb-ink); background: none; border: 0; padding: 1px 5px; cursor: pointer; text-decoration: underline dotted; }
.tilebench .tb-line.tb-gone .tb-text { color: var(--tb-quiet); text-decoration: line-through; }
.tilebench .tb-sign { flex: 0 0 16px; color: var(--tb-quiet); user-select: none; }
.tilebench .tb-edit { box-shadow: inset 3px 0 var(--tb-warn); }
.tilebench .tb-nowrap { white-space: nowrap; }
.tilebench .tb-edit ins { background: var(--tb-new); color: var(--tb-good); text-decoration: underline; }
.tilebench .tb-edit del { color: var(--tb-bad); text-decoration: line-through; }
.tilebench .tb-button:disabled { color: var(--tb-quiet); cursor: default; }
.tilebench .tb-item small { text-align: right; }
.tilebench .tb-two.tb-blocks { grid-template-columns: minmax(0, 300px) minmax(0, 1fr); }
@media (max-width: 760px) { .tilebench .tb-two.tb-blocks { grid-template-columns: minmax(0, 1fr); } }
.tilebench .tb-tensors { display: flex; flex-wrap: wrap; gap: 6px 22px; align-items: flex-start; }
.tilebench .tb-tensors .tb-figure { max-width: 200px; margin: 0; }
.tilebench .tb-tensors .tb-legend { margin: 2px 0; }
.tilebench .tb-tensors .tb-below { flex-basis: 100%; }
.tilebench .tb-swatch i.tb-key-part { background: #ffd166; }
.tilebench .tb-swatch i.tb-key-now { background: #b3001b; }
.tilebench .tb-products { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 4px 24px; max-width: 1240px; }
.tilebench .tb-sheet { fill: var(--tb-panel); stroke: var(--tb-quiet); stroke-width: 1; }
.tilebench .tb-part { fill: #ffd166; stroke: #1b1f24; stroke-width: 1; }
.tilebench .tb-step { fill: #b3001b; stroke: #ffffff; stroke-width: 1; }
.tilebench .tb-product { display: grid; grid-template-columns: 74px minmax(0, 520px); gap: 4px 6px; align-items: stretch; max-width: 620px; }
.tilebench .tb-product > div { display: flex; flex-direction: column; }
.tilebench .tb-product > .tb-warps { display: grid; }
.tilebench .tb-corner { color: var(--tb-quiet); font-size: 12px; align-self: end; display: flex; flex-direction: column; }
.tilebench .tb-band-a, .tilebench .tb-band-b { display: grid; gap: 2px; flex: 1; }
.tilebench .tb-band-a i, .tilebench .tb-band-b i { display: block; border: 1px solid var(--tb-line); background: var(--tb-panel); min-height: 16px; }
.tilebench .tb-band-b i { height: 26px; }
.tilebench .tb-product .tb-legend { margin: 0 0 2px; }
/* a narrow cell or side panel in a wide window: one column, nothing cut */
.tilebench .tb-panel { container-type: inline-size; }
@container (max-width: 720px) { .tilebench .tb-two, .tilebench .tb-two.tb-even, .tilebench .tb-two.tb-wider, .tilebench .tb-two.tb-sliding { grid-template-columns: minmax(0, 1fr); } }
@container (max-width: 960px) { .tilebench .tb-two.tb-late { grid-template-columns: minmax(0, 1fr); } }
.tilebench .tb-claims .tb-button { margin-right: 6px; }
.tilebench .tb-parts { display: grid; grid-template-columns: 84px minmax(0, 1fr); gap: 2px 12px; margin: 4px 0 6px 18px; }
.tilebench .tb-parts dt { color: var(--tb-quiet); }
.tilebench .tb-parts dd { margin: 0; }
.tilebench .tb-hints p { margin: 4px 0; max-width: 80ch; }
@container (max-width: 640px) { .tilebench .tb-roomy { height: 6.6em; min-height: 6.6em; } }
@container (max-width: 420px) { .tilebench .tb-roomy { height: 9.6em; min-height: 9.6em; } }
`,""]),i.d(e,{},{A:b})},30(t,e,i){var n=i(28),r=i.n(n),a=i(29),b=(i.n(a))()(r());b.push([t.id,`/* Time travel: everything is below .tb-step. */
.tilebench .tb-step { outline-offset: -2px; }
.tilebench .tb-step .tb-status { height: 5.2em; box-sizing: border-box; overflow-y: auto; } /* fixed: what lies below must not move under the pointer */
.tilebench .tb-step .tb-nav { gap: 4px; }
.tilebench .tb-step .tb-nav .tb-button { min-width: 34px; padding: 2px 8px; }
.tilebench .tb-step .tb-run { display: inline-flex; flex-wrap: wrap; gap: 4px; align-items: center; margin-left: 12px; padding-left: 12px; border-left: 1px solid var(--tb-line); }
.tilebench .tb-step .tb-run select { max-width: 230px; }
.tilebench .tb-step .tb-track { position: relative; margin-top: 4px; }
.tilebench .tb-step .tb-iters { display: flex; gap: 1px; height: 18px; }
.tilebench .tb-step .tb-iter { flex: 1 1 0; min-width: 0; overflow: hidden; white-space: nowrap; font: inherit; font-size: 11px; line-height: 1; padding: 0; color: var(--tb-ink); background: var(--tb-panel); border: 1px solid var(--tb-line); cursor: pointer; }
.tilebench .tb-step .tb-iter.tb-outside { background: transparent; border-style: dashed; }
.tilebench .tb-step .tb-iter.tb-lit { background: var(--tb-accent); color: var(--tb-back); border-color: var(--tb-accent); font-weight: 600; }
.tilebench .tb-step .tb-ticks { display: block; width: 100%; height: 10px; }
.tilebench .tb-step .tb-tick { fill: var(--tb-quiet); opacity: 0.6; }
.tilebench .tb-step .tb-tick-inf { fill: var(--tb-warn); opacity: 1; }
.tilebench .tb-step .tb-tick-bad { fill: var(--tb-bad); opacity: 1; }
.tilebench .tb-step .tb-tick-here { fill: var(--tb-accent); }
.tilebench .tb-step input.tb-scrub { width: 100%; max-width: none; margin: 0; padding: 0; border: 0; background: none; accent-color: var(--tb-accent); }
.tilebench .tb-step .tb-stopped { color: var(--tb-bad); }
.tilebench .tb-step .tb-pair { display: grid; grid-template-columns: minmax(0, 1.35fr) minmax(300px, 1fr); gap: 10px; align-items: start; }
.tilebench .tb-step .tb-listing { height: 268px; }
.tilebench .tb-step .tb-listing .tb-no { flex-basis: 34px; position: relative; }
.tilebench .tb-step .tb-line.tb-at, .tilebench .tb-step .tb-line.tb-at.tb-pinned { background: var(--tb-at); font-weight: 600; }
.tilebench .tb-step .tb-line.tb-at .tb-no { border-right-color: var(--tb-accent); color: var(--tb-ink); }
.tilebench .tb-step .tb-line.tb-at:not(.tb-within) .tb-no::before { content: "▶"; color: var(--tb-accent); position: absolute; left: 2px; }
.tilebench .tb-step .tb-read { height: 292px; overflow-y: auto; }
.tilebench .tb-step .tb-watch { margin: 0; }
.tilebench .tb-step .tb-watch caption { padding: 0 0 2px; }
.tilebench .tb-step .tb-watch th, .tilebench .tb-step .tb-watch td { padding: 1px 6px; font-family: var(--tb-mono); white-space: nowrap; }
.tilebench .tb-step .tb-watch th { font-weight: 400; }
.tilebench .tb-step .tb-watch td, .tilebench .tb-step .tb-watch tbody th { vertical-align: middle; }
.tilebench .tb-step .tb-watch td:nth-child(2), .tilebench .tb-step .tb-watch td:nth-child(3) { min-width: 62px; text-align: right; }
.tilebench .tb-step .tb-watch tr.tb-new { background: var(--tb-new); }
.tilebench .tb-step .tb-watch .tb-button { padding: 0 4px; margin-left: 4px; min-width: 0; }
.tilebench .tb-step .tb-spark { display: block; }
.tilebench .tb-step .tb-curve { fill: none; stroke: var(--tb-quiet); stroke-width: 1.4; }
.tilebench .tb-step .tb-now { stroke: var(--tb-accent); stroke-width: 1; }
.tilebench .tb-step .tb-dot { fill: var(--tb-accent); }
.tilebench .tb-step .tb-add { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 4px 0; }
.tilebench .tb-step .tb-add .tb-goto { width: 230px; }
.tilebench .tb-step .tb-who { margin: 4px 0; font-size: 12px; }
.tilebench .tb-step .tb-who div { font-family: var(--tb-mono); margin: 2px 0; }
.tilebench .tb-step .tb-main, .tilebench .tb-step .tb-rest { display: flex; flex-wrap: wrap; gap: 12px; align-items: flex-end; margin: 8px 0; }
.tilebench .tb-step .tb-tiles { display: flex; flex-wrap: wrap; gap: 0 28px; align-items: flex-end; }
.tilebench .tb-step .tb-rest { flex: 1 1 220px; min-width: 0; }
.tilebench .tb-step .tb-piece { margin: 0; min-width: 0; max-width: 100%; }
.tilebench .tb-step .tb-piece figcaption { font-size: 12px; white-space: nowrap; line-height: 18px; }
.tilebench .tb-step .tb-piece figcaption small { color: var(--tb-quiet); }
.tilebench .tb-step .tb-piece-name { font: inherit; font-family: var(--tb-mono); font-weight: 600; color: var(--tb-ink); background: none; border: 0; padding: 0; cursor: pointer; }
.tilebench .tb-step .tb-cells { position: relative; line-height: 0; border: 1px solid var(--tb-line); box-sizing: content-box; }
.tilebench .tb-step .tb-cells:focus-visible { outline: 2px solid var(--tb-accent); outline-offset: 2px; }
.tilebench .tb-step .tb-writes .tb-cells { border-color: var(--tb-changed); box-shadow: 0 0 0 2px var(--tb-changed); }
.tilebench .tb-step .tb-reads .tb-cells { border-color: var(--tb-quiet); box-shadow: 0 0 0 1px var(--tb-quiet); }
.tilebench .tb-step .tb-piece-foot { display: flex; gap: 6px; align-items: center; height: 20px; font-size: 11px; color: var(--tb-quiet); white-space: nowrap; margin-top: 3px; }
.tilebench .tb-step .tb-bar-scale { flex: 0 0 36px; height: 8px; border: 1px solid var(--tb-line); }
.tilebench .tb-step .tb-did { color: var(--tb-quiet); font-weight: 600; }
.tilebench .tb-step .tb-writes .tb-did { color: var(--tb-changed); }
.tilebench .tb-step .tb-strip figcaption { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; margin: 0 auto 4px; line-height: 20px; width: 20px; max-height: 110px; overflow: hidden; text-overflow: ellipsis; }
.tilebench .tb-step .tb-strip .tb-piece-name { writing-mode: vertical-rl; text-align: left; }
.tilebench .tb-step .tb-foot-strip { text-align: center; height: 20px; margin-top: 3px; font-size: 11px; line-height: 20px; }
.tilebench .tb-step .tb-listing { margin-top: 0; }
.tilebench .tb-step .tb-swatch i { border-color: var(--tb-quiet); }
.tilebench .tb-step { container-type: inline-size; }
@container (max-width: 720px) {
  .tilebench .tb-step .tb-pair { grid-template-columns: minmax(0, 1fr); }
  .tilebench .tb-step .tb-status { height: 8.4em; }
  .tilebench .tb-step .tb-listing { height: 180px; }
  .tilebench .tb-step .tb-read { height: auto; max-height: 240px; }
  .tilebench .tb-step .tb-run { margin-left: 0; padding-left: 0; border-left: 0; }
}
`,""]),i.d(e,{},{A:b})},31(t,e,i){var n=i(28),r=i.n(n),a=i(29),b=(i.n(a))()(r());b.push([t.id,`/* Colours of the editor's marks; those of the views are in board.css. Each is legible on the editor's background. */
:root {
  --tb-lint-error: #c4001f;
  --tb-lint-warning: #8a5a00;
  --tb-lint-info: #0550ae;
  --tb-line-pin: #fff1b8;
  --tb-line-hover: #dbeafe;
  --tb-mark: #0550ae;
}

[data-jp-theme-light='false'] {
  --tb-lint-error: #ff8b84;
  --tb-lint-warning: #e3b341;
  --tb-lint-info: #79b8ff;
  --tb-line-pin: #4d3f00;
  --tb-line-hover: #1e3a5f;
  --tb-mark: #79b8ff;
}

.tilebench-report {
  padding: 4px 0;
}

.tb-tile-cell .tb-head-line {
  background: var(--jp-layout-color2);
}

.tb-tile-cell .tb-magic,
.tb-tile-cell .tb-magic * {
  color: var(--tb-mark) !important;
  font-weight: 700;
}

.tb-tile-cell .tb-option,
.tb-tile-cell .tb-option * {
  color: var(--tb-mark) !important;
  font-weight: 400;
}

.tb-tile-cell .tb-name {
  text-decoration: none;
}

.tb-tile-cell .tb-name,
.tb-tile-cell .tb-name * {
  color: var(--tb-mark) !important;
}

.tb-tile-cell .cm-line.tb-line-pinned {
  background: var(--tb-line-pin);
  box-shadow: inset 3px 0 0 var(--tb-lint-warning);
}

.tb-tile-cell .cm-line.tb-line-hovered {
  background: var(--tb-line-hover);
}

.tb-tile-cell .tb-gutter {
  width: 15px;
  cursor: pointer;
  font-size: 10px;
  text-align: center;
}

.tb-tile-cell .tb-gutter .cm-gutterElement:not([class*='tb-gutter-']):hover::after {
  content: '◇';
  color: var(--jp-ui-font-color2);
}

.tb-gutter-error {
  color: var(--tb-lint-error);
}

.tb-gutter-warning {
  color: var(--tb-lint-warning);
}

.tb-gutter-info,
.tb-gutter-pin {
  color: var(--tb-mark);
}

.tb-tile-cell .cm-lintRange-error,
.tb-tile-cell .cm-lintRange-warning {
  background-image: none;
  text-decoration: underline wavy var(--tb-lint-error) 1px;
  text-underline-offset: 3px;
  text-decoration-skip-ink: none;
}

.tb-tile-cell .cm-lintRange-warning {
  text-decoration-color: var(--tb-lint-warning);
}

.cm-tooltip .tb-diagnostic p {
  margin: 0 0 3px;
}

.cm-tooltip .tb-diagnostic-why,
.cm-tooltip .tb-diagnostic-fix {
  color: var(--jp-ui-font-color2);
}

.cm-tooltip.tb-card,
.cm-tooltip:has(.tb-diagnostic, .tb-card) {
  max-width: 620px;
  color: var(--jp-ui-font-color1);
  background: var(--jp-layout-color1);
  border: 1px solid var(--jp-border-color1);
  font-family: var(--jp-ui-font-family);
  font-size: 13px;
  z-index: 10;
}

.tb-card {
  padding: 6px 10px;
}

.tb-card-layout {
  display: flex;
  gap: 10px;
  align-items: flex-start;
}

.tb-thumbnail {
  flex: none;
  image-rendering: pixelated;
  border: 1px solid var(--jp-border-color1);
}

/*
 * JupyterLab's shell sets a width for all side panels by an id of its own: this is wider, so it needs to be more specific.
 * Notebook (its body has data-notebook) gives a panel the width that it has, and would cut off what is wider.
 */
body:not([data-notebook]) #tilebench-board#tilebench-board {
  min-width: 400px;
}

.tilebench-side {
  overflow: auto;
  background: var(--jp-layout-color1);
}

.tilebench-side .tilebench .tb-code {
  grid-template-columns: minmax(0, 1fr);
}

.tilebench-side-empty {
  padding: 12px;
  color: var(--jp-ui-font-color1);
}

.tb-tutorials {
  display: grid;
  gap: 6px;
  max-width: 560px;
}

/* The shell gives the buttons of its dialogs one line, centred: these have three. */
.jp-Dialog .tb-tutorials button.tb-tutorial {
  display: grid;
  gap: 2px;
  height: auto;
  min-height: 0;
  margin: 0;
  padding: 8px 12px;
  font: inherit;
  line-height: 1.4;
  letter-spacing: normal;
  text-align: left;
  white-space: normal;
  color: var(--jp-ui-font-color1);
  background: var(--jp-layout-color1);
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  cursor: pointer;
}

.jp-Dialog .tb-tutorials button.tb-tutorial:hover,
.jp-Dialog .tb-tutorials button.tb-tutorial:focus-visible {
  background: var(--tb-line-hover);
  outline: 2px solid var(--tb-mark);
}

.tb-tutorials small,
.tb-tutorials p {
  margin: 0;
  color: var(--jp-ui-font-color1);
  opacity: 0.8;
}
`,""]),i.d(e,{},{A:b})},29(t){t.exports=function(t){var e=[];return e.toString=function(){return this.map(function(e){var i="",n=void 0!==e[5];return e[4]&&(i+="@supports (".concat(e[4],") {")),e[2]&&(i+="@media ".concat(e[2]," {")),n&&(i+="@layer".concat(e[5].length>0?" ".concat(e[5]):""," {")),i+=t(e),n&&(i+="}"),e[2]&&(i+="}"),e[4]&&(i+="}"),i}).join("")},e.i=function(t,i,n,r,a){"string"==typeof t&&(t=[[null,t,void 0]]);var b={};if(n)for(var o=0;o<this.length;o++){var l=this[o][0];null!=l&&(b[l]=!0)}for(var c=0;c<t.length;c++){var p=[].concat(t[c]);n&&b[p[0]]||(void 0!==a&&(void 0===p[5]||(p[1]="@layer".concat(p[5].length>0?" ".concat(p[5]):""," {").concat(p[1],"}")),p[5]=a),i&&(p[2]&&(p[1]="@media ".concat(p[2]," {").concat(p[1],"}")),p[2]=i),r&&(p[4]?(p[1]="@supports (".concat(p[4],") {").concat(p[1],"}"),p[4]=r):p[4]="".concat(r)),e.push(p))}},e}},28(t){t.exports=function(t){return t[1]}},21(t){var e=[];function i(t){for(var i=-1,n=0;n<e.length;n++)if(e[n].identifier===t){i=n;break}return i}function n(t,n){for(var r={},a=[],b=0;b<t.length;b++){var o=t[b],l=n.base?o[0]+n.base:o[0],c=r[l]||0,p="".concat(l," ").concat(c);r[l]=c+1;var d=i(p),s={css:o[1],media:o[2],sourceMap:o[3],supports:o[4],layer:o[5]};if(-1!==d)e[d].references++,e[d].updater(s);else{var h=function(t,e){var i=e.domAPI(e);return i.update(t),function(e){e?(e.css!==t.css||e.media!==t.media||e.sourceMap!==t.sourceMap||e.supports!==t.supports||e.layer!==t.layer)&&i.update(t=e):i.remove()}}(s,n);n.byIndex=b,e.splice(b,0,{identifier:p,updater:h,references:1})}a.push(p)}return a}t.exports=function(t,r){var a=n(t=t||[],r=r||{});return function(t){t=t||[];for(var b=0;b<a.length;b++){var o=i(a[b]);e[o].references--}for(var l=n(t,r),c=0;c<a.length;c++){var p=i(a[c]);0===e[p].references&&(e[p].updater(),e.splice(p,1))}a=l}}},23(t){var e={};t.exports=function(t,i){var n=function(t){if(void 0===e[t]){var i=document.querySelector(t);if(window.HTMLIFrameElement&&i instanceof window.HTMLIFrameElement)try{i=i.contentDocument.head}catch(t){i=null}e[t]=i}return e[t]}(t);if(!n)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");n.appendChild(i)}},25(t){t.exports=function(t){var e=document.createElement("style");return t.setAttributes(e,t.attributes),t.insert(e,t.options),e}},24(t,e,i){t.exports=function(t){var e=i.nc;e&&t.setAttribute("nonce",e)}},22(t){t.exports=function(t){if("u"<typeof document)return{update:function(){},remove:function(){}};var e=t.insertStyleElement(t);return{update:function(i){var n,r,a;n="",i.supports&&(n+="@supports (".concat(i.supports,") {")),i.media&&(n+="@media ".concat(i.media," {")),(r=void 0!==i.layer)&&(n+="@layer".concat(i.layer.length>0?" ".concat(i.layer):""," {")),n+=i.css,r&&(n+="}"),i.media&&(n+="}"),i.supports&&(n+="}"),(a=i.sourceMap)&&"u">typeof btoa&&(n+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),t.styleTagTransform(n,e,t.options)},remove:function(){var t;null===(t=e).parentNode||t.parentNode.removeChild(t)}}}},26(t){t.exports=function(t,e){if(e.styleSheet)e.styleSheet.cssText=t;else{for(;e.firstChild;)e.removeChild(e.firstChild);e.appendChild(document.createTextNode(t))}}},20(t,e,i){var n=i(21),r=i.n(n),a=i(22),b=i.n(a),o=i(23),l=i.n(o),c=i(24),p=i.n(c),d=i(25),s=i.n(d),h=i(26),x=i.n(h),g=i(27),m={};m.styleTagTransform=x(),m.setAttributes=p(),m.insert=l().bind(null,"head"),m.domAPI=b(),m.insertStyleElement=s(),r()(g.A,m),g.A&&g.A.locals&&g.A.locals;var f=i(30),u={};u.styleTagTransform=x(),u.setAttributes=p(),u.insert=l().bind(null,"head"),u.domAPI=b(),u.insertStyleElement=s(),r()(f.A,u),f.A&&f.A.locals&&f.A.locals;var v=i(31),w={};w.styleTagTransform=x(),w.setAttributes=p(),w.insert=l().bind(null,"head"),w.domAPI=b(),w.insertStyleElement=s(),r()(v.A,w),v.A&&v.A.locals&&v.A.locals}}]);