/** Joins editors to the cells and kernels of the notebooks that they stand in. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ICodeCellModel } from '@jupyterlab/cells';
import { EditorExtensionRegistry, type IEditorExtensionFactory, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { tileEditor } from './editor';
import { LintClient } from './lint';

type Model = IEditorExtensionFactory.IOptions['model'];

/** Whether an editor's model is that of a code cell: other editors are left alone. */
function isCodeCell(model: Model): model is Model & ICodeCellModel {
  return (model as Partial<ICodeCellModel>).type === 'code' && 'outputs' in model;
}

/** Gives each editor of a code cell the extension that wakes up when its first line is `%%tile`. */
export const cells: JupyterFrontEndPlugin<void> = {
  id: 'tilebench:cells',
  description: 'Diagnostics, hovers, decorations and linked lines in %%tile cells.',
  autoStart: true,
  requires: [IEditorExtensionRegistry, INotebookTracker],
  optional: [ITranslator],
  activate: (
    _: JupyterFrontEnd,
    editors: IEditorExtensionRegistry,
    notebooks: INotebookTracker,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('tilebench');
    const clients = new WeakMap<NotebookPanel, LintClient>();

    const panelOf = (model: ICodeCellModel): NotebookPanel | undefined =>
      notebooks.find(panel => panel.content.widgets.some(cell => cell.model === model));

    const clientOf = (panel: NotebookPanel): LintClient => {
      let client = clients.get(panel);
      if (!client) {
        const made = new LintClient(panel.sessionContext);
        client = made;
        clients.set(panel, made);
        panel.disposed.connect(() => made.dispose());
      }
      return client;
    };

    // Once a cell has run the kernel may have loaded tilebench, and names in tile cells may have other values.
    NotebookActions.executed.connect((_sender, { notebook }) => {
      const panel = notebooks.find(p => p.content === notebook);
      const client = panel && clients.get(panel);
      client?.retry();
    });

    editors.addExtension({
      name: 'tilebench',
      factory: ({ model }) => {
        if (!isCodeCell(model)) {
          return null;
        }
        const extension = tileEditor(
          {
            model,
            trans,
            isPython: () => /python|text\/plain/.test(model.mimeType),
            languageChanged: model.mimeTypeChanged,
            client: () => {
              const panel = panelOf(model);
              return panel ? clientOf(panel) : null;
            }
          },
          model.sharedModel.getSource()
        );
        return EditorExtensionRegistry.createImmutableExtension(extension);
      }
    });
  }
};
