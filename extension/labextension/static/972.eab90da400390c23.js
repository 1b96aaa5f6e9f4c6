"use strict";(self.rspackChunktilebench=self.rspackChunktilebench||[]).push([[972],{14(e,t,n){var r=n(15),i=n.n(r),a=n(16),o=(n.n(a))()(i());o.push([e.id,`/* Colours come from the page's theme (JupyterLab, VS Code, marimo), with fallbacks for a plain page. */
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
}
body[data-theme="dark"] .tilebench { --tb-ink: #e6edf3; --tb-quiet: #a9b4c0; --tb-back: #0d1117; --tb-panel: #161b22; --tb-line: #3d444d; }
@media (prefers-color-scheme: dark) {
  body:not([data-jp-theme-light]):not([data-theme]):not(.vscode-light) .tilebench {
    --tb-ink: #e6edf3; --tb-quiet: #a9b4c0; --tb-back: #0d1117; --tb-panel: #161b22; --tb-line: #3d444d;
    --tb-accent: #79b8ff; --tb-good: #56d364; --tb-bad: #ff8b84; --tb-warn: #e3b341; --tb-hover: #1e3a5f; --tb-pinned: #4d3f00; --tb-new: #12361f;
  }
}
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
.tilebench .tb-goto { width: 170px; }
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
.tilebench .tb-table th, .tilebench .tb-table td { border: 1px solid var(--tb-line); padding: 2px 7px; text-align: left; vertical-align: top; overflow-wrap: break-word; background: transparent; }
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
.tilebench .tb-wide svg { min-width: 720px; }
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
.tilebench .tb-code { display: grid; grid-template-columns: repeat(auto-fit, minmax(260px, 1fr)); gap: 8px; }
.tilebench .tb-pane { min-width: 0; }
.tilebench .tb-lines { font-family: var(--tb-mono); font-size: 12px; line-height: 1.4; height: 380px; overflow: auto; border: 1px solid var(--tb-line); margin-top: 4px; position: relative; }
.tilebench .tb-line { display: flex; white-space: pre; width: max-content; min-width: 100%; }
.tilebench .tb-no { flex: 0 0 42px; text-align: right; padding-right: 8px; color: var(--tb-quiet); user-select: none; }
.tilebench .tb-linked { cursor: pointer; }
.tilebench .tb-linked .tb-no { border-right: 3px solid var(--tb-line); margin-right: 5px; }
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
`,""]),n.d(t,{},{A:o})},17(e,t,n){var r=n(15),i=n.n(r),a=n(16),o=(n.n(a))()(i());o.push([e.id,`.tilebench-report {
  padding: 4px 0;
}
`,""]),n.d(t,{},{A:o})},16(e){e.exports=function(e){var t=[];return t.toString=function(){return this.map(function(t){var n="",r=void 0!==t[5];return t[4]&&(n+="@supports (".concat(t[4],") {")),t[2]&&(n+="@media ".concat(t[2]," {")),r&&(n+="@layer".concat(t[5].length>0?" ".concat(t[5]):""," {")),n+=e(t),r&&(n+="}"),t[2]&&(n+="}"),t[4]&&(n+="}"),n}).join("")},t.i=function(e,n,r,i,a){"string"==typeof e&&(e=[[null,e,void 0]]);var o={};if(r)for(var b=0;b<this.length;b++){var l=this[b][0];null!=l&&(o[l]=!0)}for(var c=0;c<e.length;c++){var p=[].concat(e[c]);r&&o[p[0]]||(void 0!==a&&(void 0===p[5]||(p[1]="@layer".concat(p[5].length>0?" ".concat(p[5]):""," {").concat(p[1],"}")),p[5]=a),n&&(p[2]&&(p[1]="@media ".concat(p[2]," {").concat(p[1],"}")),p[2]=n),i&&(p[4]?(p[1]="@supports (".concat(p[4],") {").concat(p[1],"}"),p[4]=i):p[4]="".concat(i)),t.push(p))}},t}},15(e){e.exports=function(e){return e[1]}},8(e){var t=[];function n(e){for(var n=-1,r=0;r<t.length;r++)if(t[r].identifier===e){n=r;break}return n}function r(e,r){for(var i={},a=[],o=0;o<e.length;o++){var b=e[o],l=r.base?b[0]+r.base:b[0],c=i[l]||0,p="".concat(l," ").concat(c);i[l]=c+1;var d=n(p),s={css:b[1],media:b[2],sourceMap:b[3],supports:b[4],layer:b[5]};if(-1!==d)t[d].references++,t[d].updater(s);else{var h=function(e,t){var n=t.domAPI(t);return n.update(e),function(t){t?(t.css!==e.css||t.media!==e.media||t.sourceMap!==e.sourceMap||t.supports!==e.supports||t.layer!==e.layer)&&n.update(e=t):n.remove()}}(s,r);r.byIndex=o,t.splice(o,0,{identifier:p,updater:h,references:1})}a.push(p)}return a}e.exports=function(e,i){var a=r(e=e||[],i=i||{});return function(e){e=e||[];for(var o=0;o<a.length;o++){var b=n(a[o]);t[b].references--}for(var l=r(e,i),c=0;c<a.length;c++){var p=n(a[c]);0===t[p].references&&(t[p].updater(),t.splice(p,1))}a=l}}},10(e){var t={};e.exports=function(e,n){var r=function(e){if(void 0===t[e]){var n=document.querySelector(e);if(window.HTMLIFrameElement&&n instanceof window.HTMLIFrameElement)try{n=n.contentDocument.head}catch(e){n=null}t[e]=n}return t[e]}(e);if(!r)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");r.appendChild(n)}},12(e){e.exports=function(e){var t=document.createElement("style");return e.setAttributes(t,e.attributes),e.insert(t,e.options),t}},11(e,t,n){e.exports=function(e){var t=n.nc;t&&e.setAttribute("nonce",t)}},9(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var t=e.insertStyleElement(e);return{update:function(n){var r,i,a;r="",n.supports&&(r+="@supports (".concat(n.supports,") {")),n.media&&(r+="@media ".concat(n.media," {")),(i=void 0!==n.layer)&&(r+="@layer".concat(n.layer.length>0?" ".concat(n.layer):""," {")),r+=n.css,i&&(r+="}"),n.media&&(r+="}"),n.supports&&(r+="}"),(a=n.sourceMap)&&"u">typeof btoa&&(r+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),e.styleTagTransform(r,t,e.options)},remove:function(){var e;null===(e=t).parentNode||e.parentNode.removeChild(e)}}}},13(e){e.exports=function(e,t){if(t.styleSheet)t.styleSheet.cssText=e;else{for(;t.firstChild;)t.removeChild(t.firstChild);t.appendChild(document.createTextNode(e))}}},7(e,t,n){var r=n(8),i=n.n(r),a=n(9),o=n.n(a),b=n(10),l=n.n(b),c=n(11),p=n.n(c),d=n(12),s=n.n(d),h=n(13),f=n.n(h),u=n(14),v={};v.styleTagTransform=f(),v.setAttributes=p(),v.insert=l().bind(null,"head"),v.domAPI=o(),v.insertStyleElement=s(),i()(u.A,v),u.A&&u.A.locals&&u.A.locals;var x=n(17),g={};g.styleTagTransform=f(),g.setAttributes=p(),g.insert=l().bind(null,"head"),g.domAPI=o(),g.insertStyleElement=s(),i()(x.A,g),x.A&&x.A.locals&&x.A.locals}}]);