/**
 * One tile cell in its editor: asks the kernel about the text as it is typed, knows the reports of the cell's last run, and
 * stands on the selection bus of their kernels.
 */
import { type Diagnostic, setDiagnostics } from '@codemirror/lint';
import { type Extension, Facet, StateEffect, StateField, type Text } from '@codemirror/state';
import { type EditorView, type PluginValue, ViewPlugin, type ViewUpdate } from '@codemirror/view';
import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutputAreaModel } from '@jupyterlab/outputarea';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';

import { busOf, lit } from '../../tilebench/views/static/kit.js';
import { LineMap } from './lines';
import type { IDiagnosis, IDiagnostic, LintClient } from './lint';
import { type IFacts, type IFinding, type IReport, reportsIn } from './report';

/** How long the typing has to pause before the kernel is asked. */
const PAUSE_MS = 300;

/** What a tile cell needs of its surroundings. */
export interface ITileServices {
  readonly model: ICodeCellModel;
  readonly trans: TranslationBundle;
  /** Whether the cell's language is Python, as far as is known. */
  isPython(): boolean;
  readonly languageChanged: ISignal<unknown, unknown>;
  /** The client of the kernel of the cell's notebook, null when it is in none. */
  client(): LintClient | null;
}

/** Lines of the editor that are lit: by pins, and by what the mouse is on in some view. */
export interface ILitLines {
  pinned: ReadonlySet<number>;
  hovered: ReadonlySet<number>;
}

const NONE: ILitLines = { pinned: new Set(), hovered: new Set() };

const setLit = StateEffect.define<ILitLines>();

/** The lit lines of a tile cell's editor. */
export const litLines = StateField.define<ILitLines>({
  create: () => NONE,
  update: (value, transaction) => {
    for (const effect of transaction.effects) {
      if (effect.is(setLit)) {
        value = effect.value;
      }
    }
    return value;
  }
});

/** What surrounds the cell of this editor. */
export const tileServices = Facet.define<ITileServices, ITileServices | null>({
  combine: values => values[0] ?? null
});

type Act = ReturnType<typeof busOf>;

export class TileCell implements PluginValue {
  constructor(private readonly view: EditorView) {
    const services = view.state.facet(tileServices);
    if (!services) {
      throw new Error('a tile cell stands in an editor that says what surrounds it');
    }
    this.services = services;
    this.outputs = services.model.outputs;
    this.outputs.changed.connect(this.outputsChanged, this);
    this.schedule(0);
    queueMicrotask(() => this.readOutputs());
  }

  update(update: ViewUpdate): void {
    if (update.docChanged) {
      this.map = null;
      this.schedule(PAUSE_MS);
      queueMicrotask(() => this.light());
    }
  }

  destroy(): void {
    clearTimeout(this.timer);
    clearTimeout(this.reading);
    this.isGone = true;
    this.outputs.changed.disconnect(this.outputsChanged, this);
    this.asked?.refreshed.disconnect(this.refresh, this);
    this.end();
  }

  /** What is known of buffers and ops: of the text as typed where the kernel could say, else of the last run. */
  get facts(): IFacts | null {
    return this.diagnosis?.buffers.length ? this.diagnosis : this.report;
  }

  /** The report of the cell's last run. */
  get report(): IReport | null {
    return this.reports[this.reports.length - 1] ?? null;
  }

  /** The line in the facts that a line of the editor is; 0 for none. */
  factsLine(line: number): number {
    return this.facts === this.report ? (this.lines?.toReport.get(line) ?? 0) : line;
  }

  /** Pin a line of the editor on the bus, or take its pin away; false when there is no report with that line. */
  pin(line: number, add = false): boolean {
    const known = this.lines?.toReport.get(line);
    if (known === undefined || !this.act) {
      return false;
    }
    this.act.pin({ line: known }, add);
    return true;
  }

  /** Show on the bus that the mouse is on a line of the editor, or (null) on none. */
  hover(line: number | null): void {
    const known = line === null ? undefined : this.lines?.toReport.get(line);
    this.act?.hover(known === undefined ? null : { line: known });
  }

  private get lines(): LineMap | null {
    if (!this.map && this.report) {
      this.map = new LineMap(this.report.source, this.report.first_line, this.view.state.doc.toString());
    }
    return this.map;
  }

  private schedule(wait: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.examine(), wait);
  }

  private async examine(): Promise<void> {
    const client = this.services.client();
    if (client !== this.asked) {
      this.asked?.refreshed.disconnect(this.refresh, this);
      client?.refreshed.connect(this.refresh, this);
      this.asked = client;
    }
    const { doc } = this.view.state;
    const found = (await client?.ask(this.services.model.id, doc.toString())) ?? null;
    if (this.isGone || !this.view.state.doc.eq(doc)) {
      return; // a newer text is on its way
    }
    this.diagnosis = found;
    this.showDiagnostics();
  }

  private refresh(): void {
    this.schedule(0);
  }

  private showDiagnostics(): void {
    const { state } = this.view;
    const found = (this.diagnosis?.diagnostics ?? []).map(d => marked(state.doc, d));
    if (this.report && this.lines?.isSame) {
      for (const finding of this.report.findings) {
        const line = this.lines.toText.get(finding.spans[0]?.line ?? 0);
        if (line !== undefined && finding.severity !== 'info') {
          found.push(marked(state.doc, wholeLine(state.doc, line, finding)));
        }
      }
    }
    found.sort((a, b) => a.from - b.from);
    this.view.dispatch(setDiagnostics(state, found));
  }

  private outputsChanged(): void {
    clearTimeout(this.reading);
    this.reading = window.setTimeout(() => this.readOutputs(), 0);
  }

  private readOutputs(): void {
    if (this.isGone || this.outputs.isDisposed) {
      return;
    }
    this.reports = reportsIn(this.outputs);
    this.map = null;
    this.end();
    this.act = null;
    const id = this.report?.id;
    if (id !== undefined) {
      this.act = busOf(id);
      this.end = this.act.watch(() => this.light());
    }
    this.light();
    this.showDiagnostics();
  }

  /** Take what is lit on the bus over into the editor. */
  private light(): void {
    if (this.isGone) {
      return;
    }
    const now = this.act?.now();
    const linesOf = (selections: { line?: number; op?: string }[]): Set<number> => {
      const found = new Set<number>();
      for (const { line, op } of selections) {
        const own = line ?? this.report?.ops.find(o => o.id === op)?.span?.line;
        const there = own === undefined ? undefined : this.lines?.toText.get(own);
        if (there !== undefined) {
          found.add(there);
        }
      }
      return found;
    };
    const next: ILitLines = now
      ? { pinned: linesOf(now.pins), hovered: now.hover ? linesOf(lit({ hover: now.hover, pins: [] })) : new Set() }
      : NONE;
    const old = this.view.state.field(litLines, false) ?? NONE;
    if (!same(next.pinned, old.pinned) || !same(next.hovered, old.hovered)) {
      this.view.dispatch({ effects: setLit.of(next) });
    }
  }

  private readonly services: ITileServices;
  private readonly outputs: IOutputAreaModel; // kept: a model that is gone no longer knows its outputs
  private timer = 0;
  private reading = 0;
  private isGone = false;
  private asked: LintClient | null = null;
  private diagnosis: IDiagnosis | null = null;
  private reports: IReport[] = [];
  private map: LineMap | null = null;
  private act: Act | null = null;
  private end: () => void = () => undefined;
}

const plugin = ViewPlugin.fromClass(TileCell);

/** The tile cell of an editor, null when its cell is no tile cell. */
export function tileCellOf(view: EditorView): TileCell | null {
  return view.plugin(plugin);
}

/** Makes an editor that of a tile cell. */
export function tileCell(services: ITileServices): Extension {
  return [tileServices.of(services), litLines, plugin];
}

function same(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  return a.size === b.size && [...a].every(x => b.has(x));
}

/** A finding of the last run, as a diagnostic of its whole line. */
function wholeLine(doc: Text, number: number, finding: IFinding): IDiagnostic {
  const { text } = doc.line(Math.min(number, doc.lines));
  return {
    line: number,
    column: text.length - text.trimStart().length,
    end_line: number,
    end_column: text.trimEnd().length,
    severity: finding.severity,
    code: finding.code,
    text: finding.text,
    why: '',
    fix: finding.hint
  };
}

/** A diagnostic as the editor wants it; places outside of the text are moved into it. */
function marked(doc: Text, found: IDiagnostic): Diagnostic {
  const position = (number: number, column: number): number => {
    const line = doc.line(Math.max(1, Math.min(number, doc.lines)));
    return Math.min(line.from + column, line.to);
  };
  const from = position(found.line, found.column);
  return {
    from,
    to: Math.max(from, position(found.end_line, found.end_column)),
    severity: found.severity,
    source: found.code,
    message: found.text,
    renderMessage: () => {
      const node = document.createElement('div');
      node.className = 'tb-diagnostic';
      for (const [kind, text] of Object.entries({ what: found.text, why: found.why, fix: found.fix })) {
        if (text) {
          const part = document.createElement('p');
          part.className = `tb-diagnostic-${kind}`;
          part.textContent = kind === 'what' ? text : `${kind}: ${text}`;
          node.append(part);
        }
      }
      return node;
    }
  };
}
