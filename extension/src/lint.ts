/** The front end of tilebench/notebook/linter.py: one comm for each kernel, at most one question at a time for each cell. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IFacts } from './report';

const TARGET = 'tilebench.lint';

/** A Diagnostic of notebook/diagnose.py: lines from 1, columns from 0 in UTF-16 units. */
export interface IDiagnostic {
  line: number;
  column: number;
  end_line: number;
  end_column: number;
  severity: 'error' | 'warning' | 'info';
  code: string;
  text: string;
  why: string;
  fix: string;
}

export interface IDiagnosis extends IFacts {
  id: number;
  diagnostics: IDiagnostic[];
  note: string;
}

type Answer = (found: IDiagnosis | null) => void;

interface IQuestion {
  id: number;
  text: string;
  answer: Answer;
}

/** Asks the kernel of one notebook. Where the kernel has not loaded tilebench every answer is null, until `retry`. */
export class LintClient implements IDisposable {
  constructor(private readonly context: ISessionContext) {
    context.kernelChanged.connect(this.kernelChanged, this);
    context.statusChanged.connect(this.statusChanged, this);
  }

  /** Emitted when answers may differ from those given before: the kernel has changed, or has perhaps loaded tilebench. */
  get refreshed(): ISignal<this, void> {
    return this._refreshed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    if (this.comm && !this.comm.isDisposed && !this.context.session?.kernel?.isDisposed) {
      this.comm.close();
    }
    this.forget();
    Signal.clearData(this);
  }

  /** What the kernel finds in the text; null when it cannot say, or when a newer text of the same cell has come. */
  ask(cell: string, text: string): Promise<IDiagnosis | null> {
    const comm = this.open();
    if (comm === null) {
      return Promise.resolve(null);
    }
    return new Promise(answer => {
      this.waiting.get(cell)?.answer(null);
      this.waiting.set(cell, { id: ++this.serial, text, answer });
      if (!this.asked.has(cell)) {
        this.send(comm, cell);
      }
    });
  }

  /** Try again: a cell has run, so the kernel may know tilebench by now, and other values of the names in a cell. */
  retry(): void {
    this.absent = false;
    this.tries++;
    this._refreshed.emit();
  }

  private send(comm: Kernel.IComm, cell: string): void {
    const question = this.waiting.get(cell);
    if (!question) {
      return;
    }
    this.waiting.delete(cell);
    this.asked.set(cell, question);
    comm.send({ id: question.id, cell, text: question.text });
  }

  private open(): Kernel.IComm | null {
    const kernel = this.context.session?.kernel;
    if (this._isDisposed || this.absent || !kernel || kernel.status === 'dead' || !kernel.handleComms) {
      return null;
    }
    if (this.comm && !this.comm.isDisposed) {
      return this.comm;
    }
    const tries = this.tries;
    const comm = kernel.createComm(TARGET);
    comm.onMsg = message => this.heard(comm, message);
    comm.onClose = () => {
      if (this.comm === comm) {
        // The kernel had no such target: tilebench was not loaded when it answered. A cell may have run since.
        this.absent = tries === this.tries;
        this.forget();
        if (!this.absent) {
          this._refreshed.emit();
        }
      }
    };
    this.comm = comm;
    comm.open();
    return comm;
  }

  private heard(comm: Kernel.IComm, message: KernelMessage.ICommMsgMsg): void {
    const found = message.content.data as JSONObject as unknown as IDiagnosis;
    for (const [cell, question] of this.asked) {
      if (question.id === found.id) {
        this.asked.delete(cell);
        question.answer(found);
        this.send(comm, cell);
      }
    }
  }

  private statusChanged(_: ISessionContext, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead' || status === 'terminating') {
      this.forget();
      this.absent = true; // a kernel that starts anew has not loaded tilebench before a cell has run
      this._refreshed.emit();
    }
  }

  private kernelChanged(): void {
    this.forget();
    this.absent = false;
    this._refreshed.emit();
  }

  private forget(): void {
    this.comm = null; // disposed by the connection: doing it here would make a late answer an error
    for (const question of [...this.asked.values(), ...this.waiting.values()]) {
      question.answer(null);
    }
    this.asked.clear();
    this.waiting.clear();
  }

  private comm: Kernel.IComm | null = null;
  private absent = false;
  private tries = 0;
  private serial = 0;
  private readonly waiting = new Map<string, IQuestion>();
  private readonly asked = new Map<string, IQuestion>();
  private readonly _refreshed = new Signal<this, void>(this);
  private _isDisposed = false;
}
