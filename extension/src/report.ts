/** The part of a report that the editor reads, and where a cell keeps its reports. Field names are those of report/. */
import type { IOutputAreaModel } from '@jupyterlab/outputarea';

/** The MIME type of a saved report: report.REPORT_MIME. */
export const REPORT_MIME = 'application/vnd.tilebench.report+json';

/** The newest report.REPORT_VERSION that the views bundled here can draw. */
export const REPORT_VERSION = 1;

/** A place in the cell: lines from 1, columns from 0 in characters, end exclusive. */
export interface ISpan {
  line: number;
  column: number;
  end_line: number;
  end_column: number;
}

export interface IBufferInfo {
  name: string;
  shape: number[];
  dtype: string;
  scope: string;
  bytes: number;
  span: ISpan | null;
  offset: number | null;
  versions: number;
}

/** Passed on to the views as it is; see LayoutInfo in views/static/math.js. */
export interface ILayoutInfo {
  buffer: string;
  kind: 'fragment' | 'shared';
  shape: number[];
  threads: number;
  registers: number;
  replication: number;
  formula: string;
  reason: string;
}

export interface IOpInfo {
  id: string;
  name: string;
  text: string;
  span: ISpan | null;
  instruction: string;
  reason: string;
  reads: string[];
  writes: string[];
}

export interface IFinding {
  kind: string;
  severity: 'error' | 'warning' | 'info';
  text: string;
  spans: ISpan[];
  hint: string;
  code: string;
}

/** What hovers need: of a saved report, or of what the kernel found while the cell was typed. */
export interface IFacts {
  params: IBufferInfo[];
  buffers: IBufferInfo[];
  layouts: ILayoutInfo[];
  ops: IOpInfo[];
}

export interface IReport extends IFacts {
  id: string;
  name: string;
  version: number;
  target: string;
  source: string;
  first_line: number;
  verdict: string;
  ok: boolean | null;
  findings: IFinding[];
}

/** What is under REPORT_MIME in an output. */
export interface IPayload {
  version: number;
  view: string;
  report: IReport;
}

/** The payload when it is one that the views can draw, else null. */
export function payloadOf(data: unknown): IPayload | null {
  if (typeof data !== 'object' || data === null) {
    return null;
  }
  const { version, report } = data as Partial<IPayload>;
  if (typeof version !== 'number' || version > REPORT_VERSION) {
    return null;
  }
  if (typeof report !== 'object' || report === null || typeof report.id !== 'string') {
    return null;
  }
  return data as IPayload;
}

/** The reports among a cell's outputs, in order. */
export function reportsIn(outputs: IOutputAreaModel): IReport[] {
  const found: IReport[] = [];
  for (let k = 0; k < outputs.length; k++) {
    const payload = payloadOf(outputs.get(k).data[REPORT_MIME]);
    if (payload) {
      found.push(payload.report);
    }
  }
  return found;
}
