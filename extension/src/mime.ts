/**
 * Saved reports stay interactive: a renderer of REPORT_MIME that draws the same board as the live widget, from the data in
 * the output. Where the widget itself is alive in the kernel it is shown instead, since that one also answers to Python.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { DisposableDelegate } from '@lumino/disposable';
import type { Message } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';

import { draw } from '../../tilebench/views/static/board.js';
import { payloadOf, REPORT_MIME } from './report';

const WIDGET_MIME = 'application/vnd.jupyter.widget-view+json';

/** How long an output waits for its live widget before it draws the board itself. */
const PATIENCE_MS = 250;

/** Gives the live widget of an output once the kernel is known to have it, null when there is none. */
type Live = (model: IRenderMime.IMimeModel) => Promise<IRenderMime.IRenderer | null>;

/** A board drawn into a node of its own from the payload of an output. */
export class BoardWidget extends Widget {
  constructor(private readonly payload: { report: unknown; views: string[] }) {
    super();
    this.addClass('tilebench');
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.end?.();
      this.end = null;
    }
    super.dispose();
  }

  /** Drawn on first attachment, when there is a width to draw for; kept when the output scrolls out of the page. */
  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.end ??= draw(this.node, { ...this.payload });
  }

  private end: (() => void) | null = null;
}

/** The output of one report. */
export class ReportRenderer extends Panel implements IRenderMime.IRenderer {
  constructor(
    private readonly trans: TranslationBundle,
    private readonly live: Live = () => Promise.resolve(null)
  ) {
    super();
    this.addClass('tilebench-report');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const id = liveId(model);
    if (id !== null && id === this.shown && this.widgets[0]?.isDisposed === false) {
      return; // what is saved has changed, and the live view knows it already
    }
    const turn = ++this.turn;
    const current = () => !this.isDisposed && turn === this.turn;
    const live = this.live(model);
    const soon = await Promise.race([live, new Promise<null>(done => setTimeout(done, PATIENCE_MS, null))]);
    if (!current()) {
      return;
    }
    this.put(soon ?? this.board(model));
    this.shown = soon ? id : null;
    if (!soon) {
      void live.then(late => {
        if (late && current()) {
          this.put(late);
          this.shown = id;
        }
      });
    }
  }

  private put(widget: Widget): void {
    for (const old of [...this.widgets]) {
      old.dispose();
    }
    this.addWidget(widget);
  }

  private board(model: IRenderMime.IMimeModel): Widget {
    const payload = payloadOf(model.data[REPORT_MIME]);
    if (payload) {
      return new BoardWidget({ report: payload.report, views: payload.view === 'board' ? [] : [payload.view] });
    }
    const note = new Widget({ node: document.createElement('p') });
    note.node.textContent = this.trans.__('A newer tilebench saved this report: update tilebench to see it here.');
    return note;
  }

  private turn = 0;
  private shown: string | null = null;
}

/** The widget that an output says is its live form, null when there is none. */
function liveId(model: IRenderMime.IMimeModel): string | null {
  const view = model.data[WIDGET_MIME] as { model_id?: unknown } | undefined;
  return typeof view?.model_id === 'string' ? view.model_id : null;
}

/** The live widgets of a notebook, through the renderer that ipywidgets registered for it. */
function liveIn(panel: NotebookPanel): Live {
  return async model => {
    const id = liveId(model);
    const kernel = panel.sessionContext.session?.kernel;
    const { rendermime } = panel.content;
    if (!kernel || id === null || !model.trusted || !rendermime.getFactory(WIDGET_MIME)) {
      return null;
    }
    if (!kernel.hasComm(id)) {
      // After a reload of the page ipywidgets learns of the kernel's widgets a little later.
      const reply = await kernel.requestCommInfo({ target_name: 'jupyter.widget' });
      if (reply.content.status !== 'ok' || !(id in reply.content.comms)) {
        return null;
      }
    }
    const renderer = rendermime.createRenderer(WIDGET_MIME);
    await renderer.renderModel(model);
    return renderer;
  };
}

/** Registers the renderer everywhere, and in notebooks before that of the live widgets, to which it then hands over. */
export const mime: JupyterFrontEndPlugin<void> = {
  id: 'tilebench:mime',
  description: 'Shows saved tilebench reports as interactive boards, with no kernel.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, rendermime: IRenderMimeRegistry, translator: ITranslator | null) => {
    const trans = (translator ?? nullTranslator).load('tilebench');
    const factory = (live?: Live): IRenderMime.IRendererFactory => ({
      safe: true, // what comes from the report enters the page as text only
      mimeTypes: [REPORT_MIME],
      createRenderer: () => new ReportRenderer(trans, live)
    });
    rendermime.addFactory(factory(), 40);
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel) => {
        panel.content.rendermime.addFactory(factory(liveIn(panel)), -20);
        return new DisposableDelegate(() => undefined);
      }
    });
  }
};
