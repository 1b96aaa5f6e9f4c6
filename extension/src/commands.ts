/** Commands of the palette and cards of the launcher: a new tile notebook, pinning a line, the next diagnostic. */
import { nextDiagnostic } from '@codemirror/lint';
import type { EditorView } from '@codemirror/view';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { tileIcon } from './icon';
import { tileCellOf } from './tilecell';

/** The category of the palette and of the launcher. */
export const CATEGORY = 'Tilebench';

/** A kernel to start from: every row of X times its largest element. */
const FIRST_CELL = `%%tile --show layout code
@T.prim_func
def scale(X: T.Tensor((64, 512), "float16"), Y: T.Tensor((64, 512), "float16")):
    with T.Kernel(16, threads=128) as bx:
        x = T.alloc_fragment((4, 512), "float32")
        m = T.alloc_fragment((4,), "float32")
        T.copy(X[bx * 4, 0], x)
        T.reduce_max(x, m, dim=1)
        for i, j in T.Parallel(4, 512):
            x[i, j] = x[i, j] * m[i]
        T.copy(x, Y[bx * 4, 0])`;

function code(source: string, id: string): object {
  return { cell_type: 'code', execution_count: null, id, metadata: {}, outputs: [], source };
}

/** The contents of a new notebook, for this kernel. */
export function newNotebook(kernelspec: { name: string; display_name: string }): object {
  return {
    cells: [code('%load_ext tilebench', 'load'), code(FIRST_CELL, 'first')],
    metadata: { kernelspec: { ...kernelspec, language: 'python' }, language_info: { name: 'python' } },
    nbformat: 4,
    nbformat_minor: 5
  };
}

/** The server's Python kernel: its default one, else any. */
export async function pythonKernel(app: JupyterFrontEnd): Promise<{ name: string; display_name: string }> {
  const { kernelspecs } = app.serviceManager;
  await kernelspecs.ready;
  const all = Object.values(kernelspecs.specs?.kernelspecs ?? {});
  const wanted = [kernelspecs.specs?.default, 'python3'];
  const python = all.filter(spec => spec?.language === 'python');
  const spec = python.find(s => wanted.includes(s?.name)) ?? python[0];
  return { name: spec?.name ?? 'python3', display_name: spec?.display_name ?? 'Python 3' };
}

export const commands: JupyterFrontEndPlugin<void> = {
  id: 'tilebench:commands',
  description: 'Palette commands and launcher cards.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILauncher, IDefaultFileBrowser, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    browser: IDefaultFileBrowser | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('tilebench');

    const activeView = (): EditorView | null =>
      (notebooks.activeCell?.editor as CodeMirrorEditor | null | undefined)?.editor ?? null;
    const activeTile = () => {
      const view = activeView();
      return view && tileCellOf(view);
    };

    app.commands.addCommand('tilebench:new-notebook', {
      label: args => (args['isPalette'] ? trans.__('New Tile Notebook') : trans.__('Tile Notebook')),
      caption: trans.__('A notebook with a first %%tile cell'),
      icon: args => (args['isPalette'] ? undefined : tileIcon),
      execute: async args => {
        const { contents } = app.serviceManager;
        const kernel = await pythonKernel(app);
        const folder = typeof args['cwd'] === 'string' ? args['cwd'] : (browser?.model.path ?? '');
        const { path } = await contents.newUntitled({ path: folder, type: 'notebook' });
        await contents.save(path, { type: 'notebook', format: 'json', content: newNotebook(kernel) });
        return app.commands.execute('docmanager:open', { path, factory: 'Notebook' });
      }
    });

    app.commands.addCommand('tilebench:pin-line', {
      label: trans.__('Pin This Line of the Tile Cell'),
      caption: trans.__('Show in all views what the line of the cursor became'),
      isEnabled: () => Boolean(activeTile()?.report),
      execute: () => {
        const view = activeView();
        if (view) {
          activeTile()?.pin(view.state.doc.lineAt(view.state.selection.main.head).number);
        }
      }
    });

    app.commands.addCommand('tilebench:next-diagnostic', {
      label: trans.__('Next Diagnostic of the Tile Cell'),
      isEnabled: () => Boolean(activeTile()),
      execute: () => {
        const view = activeView();
        if (view) {
          nextDiagnostic(view);
        }
      }
    });

    for (const command of ['tilebench:new-notebook', 'tilebench:pin-line', 'tilebench:next-diagnostic']) {
      palette?.addItem({ command, category: CATEGORY, args: { isPalette: true } });
    }
    launcher?.add({ command: 'tilebench:new-notebook', category: CATEGORY, rank: 1 });
    notebooks.activeCellChanged.connect(() => {
      app.commands.notifyCommandChanged('tilebench:pin-line');
      app.commands.notifyCommandChanged('tilebench:next-diagnostic');
    });
  }
};
