/** The side panel: the board of the active cell, large, while its editor stays in view. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { IOutputAreaModel } from '@jupyterlab/outputarea';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';

import { tileIcon } from './icon';
import { BoardWidget } from './mime';
import { type IReport, reportsIn } from './report';

/** Follows the active cell: shows its last report, and keeps it while cells without one are active. */
export class BoardPanel extends Panel {
  constructor(
    private readonly notebooks: INotebookTracker,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.id = 'tilebench-board';
    this.title.icon = tileIcon;
    this.title.caption = trans.__('Tile board: the report of the active cell');
    this.addClass('tilebench-side');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Tile board'));
    notebooks.activeCellChanged.connect(this.follow, this);
    notebooks.currentChanged.connect(this.follow, this);
    this.say();
  }

  override dispose(): void {
    this.watch(null);
    super.dispose();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.follow();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.follow();
  }

  private follow(): void {
    const cell = this.notebooks.activeCell;
    this.watch(cell?.model.type === 'code' ? (cell as CodeCell) : null);
    this.look();
    if (!this.shown) {
      // a notebook that is being opened makes its first cell active before it has the others
      void this.notebooks.currentWidget?.revealed.then(() => this.soon());
    }
  }

  private watch(cell: CodeCell | null): void {
    if (this.cell === cell) {
      return;
    }
    this.outputs?.changed.disconnect(this.soon, this);
    this.cell = cell;
    this.outputs = cell?.model.outputs ?? null; // kept: a model that is gone no longer knows its outputs
    this.outputs?.changed.connect(this.soon, this);
  }

  private soon(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.look(), 50);
  }

  private look(): void {
    if (this.isDisposed || !this.isVisible) {
      return;
    }
    const reports = this.outputs && !this.outputs.isDisposed ? reportsIn(this.outputs) : [];
    const report = reports[reports.length - 1] ?? (this.shown ? undefined : this.nearest());
    if (!report) {
      if (!this.notebooks.currentWidget) {
        this.shown = null;
        this.say();
      }
      return;
    }
    if (report === this.shown) {
      return;
    }
    this.shown = report;
    this.put(new BoardWidget({ report, views: [] }));
  }

  /** The report nearest to the active cell, those above it first: a page that was opened again has one to show. */
  private nearest(): IReport | undefined {
    const notebook = this.notebooks.currentWidget?.content;
    const at = notebook?.activeCellIndex ?? 0;
    const far = (k: number) => (k <= at ? at - k : k + 10_000);
    return (notebook?.widgets ?? [])
      .map((cell, k) => ({ cell, k }))
      .sort((a, b) => far(a.k) - far(b.k))
      .flatMap(({ cell }) => (cell.model.type === 'code' ? reportsIn((cell as CodeCell).model.outputs).slice(-1) : []))[0];
  }

  private say(): void {
    const note = new Widget();
    note.addClass('tilebench-side-empty');
    note.node.textContent = this.trans.__('Run a %%tile cell: its report is shown here, and follows the active cell.');
    this.put(note);
  }

  private put(widget: Widget): void {
    for (const old of [...this.widgets]) {
      old.dispose();
    }
    this.addWidget(widget);
  }

  private cell: CodeCell | null = null;
  private outputs: IOutputAreaModel | null = null;
  private shown: IReport | null = null;
  private timer = 0;
}

export const board: JupyterFrontEndPlugin<void> = {
  id: 'tilebench:board',
  description: 'A side panel with the board of the active tile cell.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILayoutRestorer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('tilebench');
    let panel: BoardPanel | null = null;
    const add = (): BoardPanel => {
      if (!panel) {
        panel = new BoardPanel(notebooks, trans);
        app.shell.add(panel, 'right', { rank: 650 });
        restorer?.add(panel, 'tilebench-board');
      }
      return panel;
    };
    // JupyterLab restores its layout from panels that are there early; Notebook has notebooks on some pages only.
    if (restorer) {
      add();
    } else {
      notebooks.widgetAdded.connect(add);
    }
    app.commands.addCommand('tilebench:show-board', {
      label: trans.__('Show Tile Board'),
      caption: trans.__('The report of the active cell in a side panel'),
      icon: tileIcon,
      execute: () => {
        app.shell.activateById(add().id);
      }
    });
    palette?.addItem({ command: 'tilebench:show-board', category: 'Tilebench' });
  }
};
